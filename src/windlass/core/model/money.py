"""Money is the one currency: integer micro-units, priced per resource and hour, multiplied by integer milliseconds."""

from typing import NewType

from msgspec import Struct

from windlass.core.model.ids import Millis
from windlass.core.model.resources import Resources

Micros = NewType("Micros", int)
"""A millionth of the currency unit."""

_MILLICORE_MS_PER_HOUR = 1000 * 3_600_000
_BYTE_MS_PER_HOUR = 1_000_000_000 * 3_600_000
_MS_PER_HOUR = 3_600_000


class PriceBook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Micro-units per core-hour, GB-hour, gpu-hour, worker-hour and stored GB-hour. Fixed for a run when it is placed."""

    core_hour: int = 50_000
    gigabyte_hour: int = 10_000
    gpu_hour: int = 2_500_000
    worker_hour: int = 0
    stored_gigabyte_hour: int = 0


LIST_PRICES = PriceBook()


def cost(needs: Resources, span: Millis, prices: PriceBook = LIST_PRICES) -> Micros:
    """The price of holding `needs` for `span`, rounded down once per resource: equal inputs give equal money."""
    cpu = needs.cpu_millis * span * prices.core_hour // _MILLICORE_MS_PER_HOUR
    memory = needs.memory_bytes * span * prices.gigabyte_hour // _BYTE_MS_PER_HOUR
    gpu = needs.gpus * span * prices.gpu_hour // _MS_PER_HOUR
    return Micros(cpu + memory + gpu)
