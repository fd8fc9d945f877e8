"""The two gates of pools that grow: may there be another worker (size), and may it be asked for already (cooldown)?

Asked only when no node takes the job. Each pool that could run it is looked at as its autoscaler looks at it; the nearest to
giving it a worker is told.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.foresight.gate import Gate, GateName
from windlass.core.model.ids import Millis, PoolId
from windlass.core.model.job import Job
from windlass.core.model.pool import Growth, Measure, Pool, Scaling, Worker, WorkerState
from windlass.core.scaling import Seen, Verdict, grows_again_at, judge
from windlass.core.world.fleet import worker_like
from windlass.core.world.growth import look
from windlass.core.world.world import World

NO_COOLDOWN: Final = Gate(name=GateName.COOLDOWN, is_open=True, says="not needed")


class Prospect(Struct, frozen=True, kw_only=True):
    """What one pool could do for a job."""

    pool: Gate
    cooldown: Gate
    nearness: int
    """The lower, the sooner it gives the job a worker."""


def growing_gates(world: World, job: Job, now: Millis, *, is_held: bool = False) -> tuple[Gate, Gate] | None:
    """Pool and cooldown; None where no pool that grows could run it. `is_held`: a gate before them is shut."""
    pools = [(pool, pool.scaling) for pool in serving(world, job) if pool.scaling is not None]
    found = [prospect(world, pool, scaling, now, is_held=is_held) for pool, scaling in pools]
    best = min(found, key=lambda one: one.nearness, default=None)
    return (best.pool, best.cooldown) if best is not None else None


def serving(world: World, job: Job) -> list[Pool]:
    """Pools that grow and whose workers could run it, or could if they might have one."""
    places = world.tables.places
    pools = [(pool, pool.scaling) for _, pool in sorted(world.tables.fleet.pools.items())]
    return [
        pool
        for pool, scaling in pools
        if scaling is not None and places.could_take(job.shape, worker_like(pool, scaling))
    ]


def pools_left_out(world: World, job: Job) -> list[PoolId]:
    """Pools that could run it if its tenant's quota let it use them; none while one that it may use could."""
    if not job.shape.allowed or _pools_for(world, job):
        return []
    return _pools_for(world, replace(job, shape=replace(job.shape, allowed=())))


def _pools_for(world: World, job: Job) -> list[PoolId]:
    """With a node that would take it if it were empty, or one to come."""
    places = world.tables.places
    there = {slot.node.pool for slot in places if places.could_take(job.shape, slot.node)}
    return sorted(there | {pool.id for pool in serving(world, job)})


def would_grow(world: World, job: Job) -> PoolId | None:
    """The first pool that may still grow and whose workers could run it."""
    fleet = world.tables.fleet
    for pool in serving(world, job):
        scaling = pool.scaling
        if scaling is None or pool.is_paused or not scaling.up_per_minute:
            continue
        if len(fleet.workers_of(pool.id)) < scaling.workers_max:
            return pool.id
    return None


def prospect(world: World, pool: Pool, scaling: Scaling, now: Millis, *, is_held: bool = False) -> Prospect:
    seen = look(world, pool, scaling, now=now)
    numbers = _numbers(scaling, seen)

    def shut(nearness: int, says: str) -> Prospect:
        gate = Gate(name=GateName.POOL, is_open=False, says=f"{pool.id} {says}", numbers=numbers)
        return Prospect(pool=gate, cooldown=NO_COOLDOWN, nearness=nearness)

    if seen.coming:
        return shut(*_coming(world.tables.fleet.workers_of(pool.id), scaling, now))
    if seen.size + seen.ending >= scaling.workers_max:
        ending = f", {seen.ending} of them being given back" if seen.ending else ""
        has = seen.size + seen.ending
        return shut(5, f"has {has} worker{'s' * (has != 1)}{ending}, and may have no more than {scaling.workers_max}")
    if pool.is_paused:
        return shut(4, f"is paused, with {seen.size} of {scaling.workers_max} workers")
    if not scaling.up_per_minute:
        says = f"{pool.id} grows only by hand: at most 0 more a minute (upPerMinute)"
        return _cooling(pool.id, scaling, numbers, says, None, nearness=4)
    past = world.tables.fleet.growths.get(pool.id, Growth()).changes
    verdict = judge(scaling, seen, past, now)
    if verdict.by > 0:
        return shut(0, f"is about to grow by {verdict.by} ({verdict.rule})")
    opens_at = grows_again_at(scaling, past, now)
    if verdict.wanted > seen.size and opens_at is not None:
        return _cooling(pool.id, scaling, numbers, _wants(pool.id, verdict), opens_at)
    if is_held:  # so no trigger has it in its measure, and what that says is nothing about this job
        says = f"{_may_grow(pool.id, scaling)}: it does not count there as long as it is held"
        gate = Gate(name=GateName.POOL, is_open=True, says=says, numbers=numbers)
        return Prospect(pool=gate, cooldown=NO_COOLDOWN, nearness=3)
    return shut(
        3, f"has {seen.size} of {scaling.workers_max} workers, and no trigger asks for more: {_measured(seen, scaling)}"
    )


def _coming(workers: list[Worker], scaling: Scaling, now: Millis) -> tuple[int, str]:
    """Nearness and words: of those asked for, one that its provisioner is silent about is on its way."""
    asked = [worker for worker in workers if worker.state is WorkerState.ASKED]
    failing = [worker for worker in asked if worker.problem]
    first = min(asked, key=lambda worker: (bool(worker.problem), worker.asked_at))
    since = _seconds(now - first.asked_at)
    left = _seconds(max(0, first.asked_at + scaling.ready_within_ms - now))
    if len(failing) < len(asked):
        return 1, f"is growing: {first.id} was asked for {since} s ago, and is given up if it is not there in {left} s"
    return 6, f"has asked for {len(asked)} for {since} s, and its provisioner cannot: {first.problem}"


def _wants(pool: PoolId, verdict: Verdict) -> str:
    """The maximum may cut a wish short, but leaves room for a worker here: it is not what holds the pool."""
    held = [said for said, kind in zip(verdict.held, verdict.holds, strict=True) if kind != "maximum"]
    return f"{pool} wants to grow, and is held: {', '.join(held)}"


def _cooling(
    pool: PoolId,
    scaling: Scaling,
    numbers: tuple[tuple[str, int], ...],
    says: str,
    opens_at: Millis | None,
    *,
    nearness: int = 2,
) -> Prospect:
    size = Gate(name=GateName.POOL, is_open=True, says=_may_grow(pool, scaling), numbers=numbers)
    cooldown = Gate(
        name=GateName.COOLDOWN,
        is_open=False,
        says=says,
        numbers=(("cooldownSeconds", _seconds(scaling.cooldown_up_ms)), ("upPerMinute", scaling.up_per_minute)),
        opens_at=opens_at,
    )
    return Prospect(pool=size, cooldown=cooldown, nearness=nearness)


def _may_grow(pool: PoolId, scaling: Scaling) -> str:
    return f"{pool} may still grow, to {scaling.workers_max}"


def _numbers(scaling: Scaling, seen: Seen) -> tuple[tuple[str, int], ...]:
    return (
        ("ready", seen.ready),
        ("idle", seen.idle),
        ("coming", seen.coming),
        ("ending", seen.ending),
        ("workersMax", scaling.workers_max),
    )


def _measured(seen: Seen, scaling: Scaling) -> str:
    """Each measure that it has, beside the mark it would grow at."""
    values = dict(seen.measures)
    known = [(one, values[one.measure]) for one in scaling.triggers if one.measure in values]
    return ", ".join(
        f"{one.measure} {_shown(one.measure, value)} of {_shown(one.measure, one.up)}" for one, value in known
    )


def _shown(measure: Measure, value: int) -> str:
    match measure:
        case Measure.DEPTH:
            return str(value)
        case Measure.WAIT:
            return f"{_seconds(value)} s"
        case Measure.CPU | Measure.MEMORY:
            return f"{value // 10} %"


def _seconds(span: int) -> int:
    return -(-span // 1000)
