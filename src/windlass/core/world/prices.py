"""The one list of prices: an admin's to set, and the settings' where they have something new to say."""

from collections.abc import Mapping

from msgspec.structs import replace

from windlass.core.errors import Invalid
from windlass.core.model.ids import Millis
from windlass.core.model.money import PriceBook, Prices
from windlass.core.world.pools import pool_ids
from windlass.core.world.records import PRICES_KEY, Table
from windlass.core.world.world import World


def set_prices(world: World, prices: Prices, *, now: Millis) -> None:
    """For what is placed from now on; a run keeps the prices it was placed at."""
    pools = pool_ids(world)
    unknown = sorted(set(prices.pools) - pools)
    if unknown:
        raise Invalid(
            f"there is no pool {', '.join(unknown)}",
            code="pool-unknown",
            hint=f"there are: {', '.join(sorted(pools)) or 'none yet'}",
        )
    with world.decision(now):
        world.put(Table.PRICES, PRICES_KEY, replace(prices, setting=world.tables.prices.setting))


def follow_setting(
    world: World, setting: str, *, every: PriceBook | None, tiers: Mapping[str, int] | None, now: Millis
) -> None:
    """`setting`: the whole of it, to know it by. What it does not name stays as it is; so do the pools' own prices."""
    known = world.tables.prices
    if known.setting == setting:
        return
    followed = replace(
        known,
        every=every if every is not None else known.every,
        tiers=dict(tiers) if tiers is not None else known.tiers,
        setting=setting,
    )
    with world.decision(now):
        world.put(Table.PRICES, PRICES_KEY, followed)
