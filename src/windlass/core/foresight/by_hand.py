"""A pool scaled by hand so that a waiting job starts: past cooldowns and triggers, and past its maximum once that is raised."""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from windlass.core.foresight.change import Advice, Change, both, placed_with
from windlass.core.foresight.growing import serving
from windlass.core.model.ids import Millis, NodeId, PoolId
from windlass.core.model.job import Job
from windlass.core.model.pool import Pool
from windlass.core.scaling import Seen
from windlass.core.world.growth import look, scale_by_hand
from windlass.core.world.pools import change_pool
from windlass.core.world.workers import join_node
from windlass.core.world.world import World

_TRIED: Final = (8, 6, 4, 3, 2, 1)
"""So many more workers; of what a pool may not have, because there is no machine for it, fewer."""


def more_workers(
    world: World, job: Job, now: Millis, *, after: Change | None = None
) -> Iterator[tuple[Advice, Change]]:
    """By hand, which no cooldown holds; beyond its maximum only once that is raised.

    As many as it takes, once `after` is made; one more, where nothing is said of that.
    """
    for pool in serving(world, job)[:2]:
        scaling = pool.scaling
        if scaling is None:
            continue
        seen = look(world, pool, scaling, now=now)
        if seen.coming:
            continue  # it is on its way, or its provisioner cannot: another would be no nearer
        more = _enough(world, job, pool, seen, after, now) if after is not None else 1
        size, most = seen.size + more, scaling.workers_max - seen.ending
        advice = _by_hand(pool.id, size) if size <= most else _beyond(pool.id, size, size + seen.ending)
        yield advice, _scaled(_reaching(pool, size + seen.ending), size)


def _enough(world: World, job: Job, pool: Pool, seen: Seen, after: Change, now: Millis) -> int:
    """How many more it takes until it has its place behind those that go first; one, if it has none with as many as are tried.

    The most first: where others take them all it is seen at once, and what it takes is what is filled up to the job.
    """
    for more in _TRIED:
        larger = _reaching(pool, seen.size + seen.ending + more)
        runs = placed_with(world, both(after, _scaled(larger, seen.size + more)), now)
        at = next((at for at, run in enumerate(runs) if run.job == job.id), None)
        if at is not None:
            used = {run.node for run in runs[: at + 1] if run.pool == pool.id}
            return max(1, len(used - world.tables.nodes.keys()))
        if runs:
            break  # it was not refused, and fewer give no more room
    return 1


def _reaching(pool: Pool, workers: int) -> Pool:
    """It, if it may have so many, or as it has to be to have them."""
    scaling = pool.scaling
    if scaling is None or workers <= scaling.workers_max:
        return pool
    return replace(pool, scaling=replace(scaling, workers_max=workers))


def _by_hand(pool: PoolId, size: int) -> Advice:
    says = f"scale the pool {pool} to {size} by hand, past its cooldown and its triggers"
    return Advice(does="scale", says=says, command=f"windlass pools scale {pool} {size}", is_admins=True)


def _beyond(pool: PoolId, size: int, most: int) -> Advice:
    says = f"let the pool {pool} have {most} worker{'s' * (most != 1)}, and scale it to {size}"
    return Advice(does="pool-max", says=says, is_admins=True, values=(("scaling.max", str(most)),))


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
