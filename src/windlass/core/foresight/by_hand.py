"""A pool scaled by hand so that a waiting job starts: past cooldowns and triggers, and past its maximum once that is raised."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from windlass.core.foresight.change import Advice, Change
from windlass.core.foresight.growing import serving
from windlass.core.model.ids import Millis, NodeId, PoolId
from windlass.core.model.job import Job
from windlass.core.model.pool import Pool
from windlass.core.world.growth import look, scale_by_hand
from windlass.core.world.pools import change_pool
from windlass.core.world.workers import join_node
from windlass.core.world.world import World


def more_workers(world: World, job: Job, now: Millis) -> Iterator[tuple[Advice, Change]]:
    """By hand, which no cooldown holds; beyond its maximum only once that is raised."""
    for pool in serving(world, job)[:2]:
        scaling = pool.scaling
        if scaling is None:
            continue
        seen = look(world, pool, scaling, now=now)
        if seen.coming:
            continue  # it is on its way, or its provisioner cannot: another would be no nearer
        more = seen.size + 1
        if more + seen.ending <= scaling.workers_max:
            says = f"scale the pool {pool.id} to {more} by hand, past its cooldown and its triggers"
            command = f"windlass pools scale {pool.id} {more}"
            yield Advice(does="scale", says=says, command=command, is_admins=True), _scaled(pool, more)
            continue
        most = more + seen.ending
        larger = replace(pool, scaling=replace(scaling, workers_max=most))
        says = f"let the pool {pool.id} have {most} worker{'s' * (most != 1)}, and scale it to {more}"
        values = (("scaling.max", str(most)),)
        yield Advice(does="pool-max", says=says, is_admins=True, values=values), _scaled(larger, more)


def _scaled(pool: Pool, workers: int) -> Change:
    """As if those asked for were there at once."""

    def change(world: World, now: Millis) -> None:
        if world.tables.fleet.pools[pool.id] != pool:
            change_pool(world, pool, world.tables.prices.pools.get(pool.id), now=now)
        step = scale_by_hand(world, pool.id, workers, now=now)
        join(world, pool.id, step.workers, now)

    return change


def join(world: World, pool: PoolId, workers: Iterable[str], now: Millis) -> None:
    for name in workers:
        to_come = world.tables.places.worker_to_come(pool)
        assert to_come is not None
        join_node(world, replace(to_come, id=NodeId(name)), now=now)
