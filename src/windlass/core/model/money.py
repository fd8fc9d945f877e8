"""Money is the one currency: integer micro-units, priced per resource and hour, multiplied by integer milliseconds."""

from functools import lru_cache
from typing import Final, NewType

from msgspec import Struct

from windlass.core.model.ids import Millis, PoolId
from windlass.core.model.resources import Resources

Micros = NewType("Micros", int)
"""A millionth of the currency unit."""
Rate = NewType("Rate", int)
"""Micro-units per millisecond, times `RATE_SCALE`: whole for any needs and prices, so sums of spans are exact and rounded once."""

_MILLICORE_MS_PER_HOUR = 1000 * 3_600_000
_BYTE_MS_PER_HOUR = 1_000_000_000 * 3_600_000
_MS_PER_HOUR = 3_600_000
RATE_SCALE: Final = _BYTE_MS_PER_HOUR * 1000


class PriceBook(Struct, frozen=True, kw_only=True, omit_defaults=True, cache_hash=True):
    """Micro-units per core-hour, GB-hour, gpu-hour, worker-hour and stored GB-hour. Fixed for a run when it is placed."""

    core_hour: int = 50_000
    gigabyte_hour: int = 10_000
    gpu_hour: int = 2_500_000
    worker_hour: int = 0
    stored_gigabyte_hour: int = 0

    def times(self, factor: int) -> "PriceBook":
        """In thousandths."""
        return PriceBook(
            core_hour=self.core_hour * factor // 1000,
            gigabyte_hour=self.gigabyte_hour * factor // 1000,
            gpu_hour=self.gpu_hour * factor // 1000,
            worker_hour=self.worker_hour * factor // 1000,
            stored_gigabyte_hour=self.stored_gigabyte_hour * factor // 1000,
        )


LIST_PRICES = PriceBook()


class Prices(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is charged: a book for all pools, books of their own for some, and what a tier pays of it."""

    every: PriceBook = LIST_PRICES
    pools: dict[PoolId, PriceBook] = {}
    tiers: dict[str, int] = {}
    """Thousandths of the price; a tier not named pays all of it."""
    setting: str = ""
    """The server's setting as it was last followed: followed again only when it is another, so what an admin set since holds."""

    def book(self, tier: str, pool: PoolId) -> PriceBook:
        book = self.pools.get(pool, self.every)
        factor = self.tiers.get(tier, 1000)
        return book if factor == 1000 else book.times(factor)


def cost(needs: Resources, span: Millis, prices: PriceBook = LIST_PRICES) -> Micros:
    """The price of holding `needs` for `span`, rounded down once per resource: equal inputs give equal money."""
    cpu = needs.cpu_millis * span * prices.core_hour // _MILLICORE_MS_PER_HOUR
    memory = needs.memory_bytes * span * prices.gigabyte_hour // _BYTE_MS_PER_HOUR
    gpu = needs.gpus * span * prices.gpu_hour // _MS_PER_HOUR
    return Micros(cpu + memory + gpu)


def stored_rate(size_bytes: int, hour_price: int) -> Rate:
    """What storing so much costs a millisecond, at a price for a GB-hour."""
    return Rate(size_bytes * hour_price * 1000)


@lru_cache(maxsize=1 << 14)
def rate(needs: Resources, prices: PriceBook = LIST_PRICES, *, factor: int = 1000) -> Rate:
    """What holding `needs` costs a millisecond; `factor` in thousandths. Few different needs are asked for, and each often."""
    cpu = needs.cpu_millis * prices.core_hour * 1_000_000
    memory = needs.memory_bytes * prices.gigabyte_hour
    gpu = needs.gpus * prices.gpu_hour * 1_000_000_000
    return Rate((cpu + memory + gpu) * factor)
