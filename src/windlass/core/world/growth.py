"""The autoscaler's part of the World: a pool seen through the World's own indexes, judged, and changed in one decision.

What is looked at grows with the pool's workers and with the shapes that found no place, never with the number of jobs: a shape
knows how many of its jobs wait. Only those that wait for room count; a tenant held at its own quota needs no worker.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from windlass.core.errors import Conflict, Invalid
from windlass.core.fairness.lanes import Band
from windlass.core.model.ids import Millis, NodeId, PoolId
from windlass.core.model.money import PriceBook
from windlass.core.model.node import Node
from windlass.core.model.pool import Change, Growth, Measure, Pool, Scaling, Worker, WorkerState
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.model.spans import spoken
from windlass.core.scaling import ScalingStep, Seen, Verdict, judge
from windlass.core.world.pools import change_pool as set_pool
from windlass.core.world.pools import find_pool
from windlass.core.world.records import Table
from windlass.core.world.workers import drain as drain_node
from windlass.core.world.workers import end_worker
from windlass.core.world.world import World

_LANES_MAX: Final = 1_000
"""Of one shape: with more tenants than these waiting, a few more would change nothing."""
_MINUTE_MS: Final = 60_000
_WHOLE: Final = 1_000
_UNITS: Final = frozenset({"s", "min", "h", "d"})
"""Of a span in words."""


def scale(
    world: World, pool: PoolId, *, now: Millis, scheduled: int = 0, before: ScalingStep | None = None
) -> ScalingStep | None:
    """Look, judge, do, and tell. None when there is nothing to tell, or only what `before`, the last one told, said already."""
    found, scaling = _dynamic(world, pool)
    if found.is_paused:
        return None
    seen = look(world, found, scaling, now=now, scheduled=scheduled)
    growth = world.tables.fleet.growths.get(pool, Growth())
    verdict = judge(scaling, seen, growth.changes, now)
    if not verdict.by and (not verdict.held or (before is not None and _gist(before.verdict) == _gist(verdict))):
        return None
    return _carry_out(world, found, seen, verdict, now)


def scale_by_hand(world: World, pool: PoolId, workers: int, *, now: Millis) -> ScalingStep:
    """To that many at once, past cooldowns and rates, but never past the maximum, nor by ending a busy worker.

    The minimum is what the autoscaler holds: in a paused pool nobody does, and so it can be emptied to be deleted.
    """
    found, scaling = _dynamic(world, pool)
    least = 0 if found.is_paused else scaling.workers_min
    if not least <= workers <= scaling.workers_max:
        raise Invalid(
            f"pool {pool!r} may have {least} to {scaling.workers_max} workers, not {workers}",
            code="pool-bounds",
            hint=f"windlass pools pause {pool} first: its minimum is kept only while it scales by itself"
            if workers < least
            else "change its maximum first",
        )
    seen = look(world, found, scaling, now=now)
    by, held, holds = workers - seen.size, [], []
    if by > 0 and by > (room := max(0, scaling.workers_max - seen.size - seen.ending)):
        by = room
        held.append(f"maximum {scaling.workers_max}, of which {seen.ending} are being given back")
        holds.append("maximum")
    if -by > seen.idle:
        by = -seen.idle
        held.append("the others are busy")
        holds.append("busy")
    verdict = Verdict(by=by, rule="by hand", wanted=workers, held=tuple(held), holds=tuple(holds))
    return _carry_out(world, found, seen, verdict, now)


def drain(world: World, node: NodeId, *, now: Millis) -> Node:
    """No new runs, for good. A worker goes by it, and so its pool shrinks: that stands in the pool's history, with the reason."""
    fleet = world.tables.fleet
    worker = fleet.workers.get(node)
    pool = fleet.pools.get(worker.pool) if worker is not None and worker.state is WorkerState.READY else None
    if pool is None or pool.scaling is None:
        return drain_node(world, node, now=now)
    with world.decision(now):
        _tell_of_one(world, pool, pool.scaling, node, f"{node} drained by hand", now)
        return drain_node(world, node, now=now)


def change_pool(world: World, pool: Pool, prices: PriceBook | None, *, now: Millis) -> Pool:
    """As an admin says. What is beyond its maximum then is on its way out by the same decision, also when it is paused."""
    with world.decision(now):
        changed = set_pool(world, pool, prices, now=now)
        if changed.scaling is not None:
            _drain_surplus(world, changed, changed.scaling, now)
    return changed


def _drain_surplus(world: World, pool: Pool, scaling: Scaling, now: Millis) -> None:
    """Past cooldowns and rates, and busy ones too: those end their runs first, but take no other."""
    seen, most = look(world, pool, scaling, now=now), scaling.workers_max
    if seen.size <= most:
        return
    leaving = _emptiest(world, pool)[: seen.size - most]
    for worker in leaving:
        end_worker(world, worker, now=now)
    verdict = Verdict(by=-len(leaving), rule=f"more than the maximum, {most}", wanted=most)
    _tell_change(world, pool, seen, verdict, [worker.id for worker in leaving], now)


def _emptiest(world: World, pool: Pool) -> list[Worker]:
    """Those that are not there yet, newest first; then by the runs on them, and as the idle ones are chosen."""
    fleet = world.tables.fleet
    workers = fleet.workers_of(pool.id)
    coming = [worker for worker in workers if worker.state is WorkerState.ASKED]
    ready = [worker for worker in workers if worker.state is WorkerState.READY]
    coming.sort(key=lambda one: (-one.asked_at, one.id))
    ready.sort(key=lambda one: (_live(world, one), -one.runs, fleet.idle_since(one), one.id))
    return [*coming, *ready]


def count_use(world: World, node: NodeId, now: Millis) -> None:
    """Part of the decision that places a run there. With the last it may have, a worker is on its way out."""
    fleet = world.tables.fleet
    worker = fleet.workers.get(node)
    if worker is None:
        return
    used = replace(worker, runs=worker.runs + 1)
    world.put(Table.WORKERS, node, used)
    pool = fleet.pools.get(worker.pool)
    scaling = pool.scaling if pool is not None else None
    if pool is not None and scaling is not None and 0 < scaling.runs_per_worker <= used.runs:
        most = scaling.runs_per_worker
        _tell_of_one(world, pool, scaling, node, f"{node} has had its {most} run{'s' * (most != 1)}", now)
        end_worker(world, used, now=now)


def _tell_of_one(world: World, pool: Pool, scaling: Scaling, worker: NodeId, rule: str, now: Millis) -> None:
    """It goes, and not by the pool's own judgement: a line of the history all the same, or its lines would not sum to its size."""
    seen = look(world, pool, scaling, now=now)
    verdict = Verdict(by=-1, rule=rule, wanted=seen.size - 1)
    step = ScalingStep(pool=pool.id, number=world.number, at=now, seen=seen, verdict=verdict, workers=(worker,))
    world.put(Table.OUTBOX, step_key(step), step)


def give_up(world: World, pool: PoolId, *, now: Millis) -> list[NodeId]:
    """Workers that were asked for and did not come in time: taken back, so that others may be asked for."""
    found, scaling = _dynamic(world, pool)
    within = spoken(scaling.ready_within_ms // 1000)
    late = [
        worker
        for worker in world.tables.fleet.workers_of(pool)
        if worker.state is WorkerState.ASKED and worker.asked_at + scaling.ready_within_ms <= now
    ]
    for worker in late:
        with world.decision(now):
            said = f": {worker.problem}" if worker.problem else ""
            problem = f"did not join within {within}{said}"
            _tell_of_one(world, found, scaling, worker.id, f"{worker.id} {problem}", now)
            end_worker(world, worker, now=now, problem=problem)
    return [worker.id for worker in late]


def look(world: World, pool: Pool, scaling: Scaling, *, now: Millis, scheduled: int = 0) -> Seen:
    workers = world.tables.fleet.workers_of(pool.id)
    ready = [worker for worker in workers if worker.state is WorkerState.READY]
    idle = [worker for worker in ready if not _live(world, worker)]
    stale = [one for one in idle if world.tables.fleet.idle_since(one) + scaling.idle_ms <= now]
    depth, wait, needed = _queued(world, pool, scaling, now)
    return Seen(
        ready=len(ready),
        coming=sum(worker.state is WorkerState.ASKED for worker in workers),
        ending=sum(worker.state is WorkerState.ENDING for worker in workers),
        idle=len(idle),
        stale=len(stale),
        needed=needed,
        scheduled=scheduled,
        measures=(*_load(world, ready), (Measure.DEPTH, depth), (Measure.WAIT, wait)),
    )


def _dynamic(world: World, pool: PoolId) -> tuple[Pool, Scaling]:
    found = find_pool(world, pool)
    if found.scaling is None:
        raise Conflict(f"pool {pool!r} is static: it has the nodes it has", code="pool-static")
    return found, found.scaling


def _live(world: World, worker: Worker) -> int:
    """Runs on it now."""
    slot = world.tables.places.slot(worker.id)
    return slot.runs if slot is not None else 0


def _load(world: World, ready: list[Worker]) -> tuple[tuple[Measure, int], ...]:
    """Held, in thousandths of what they have; nothing when there is nobody to hold it."""
    slots = [slot for worker in ready if (slot := world.tables.places.slot(worker.id)) is not None]
    has = sum((slot.node.capacity for slot in slots), NOTHING)
    held = has - sum((slot.free for slot in slots), NOTHING)
    pairs = ((Measure.CPU, held.cpu_millis, has.cpu_millis), (Measure.MEMORY, held.memory_bytes, has.memory_bytes))
    return tuple((measure, part * _WHOLE // whole) for measure, part, whole in pairs if whole)


def _queued(world: World, pool: Pool, scaling: Scaling, now: Millis) -> tuple[int, int, int]:
    """How many wait for room that its workers could be, how long the first of them has, and how many workers they would fill."""
    depth = wait = filled = 0
    for band in world.tables.queue.parked():
        if not world.tables.places.could_serve(pool.id, band.shape):
            continue
        count, since = _waiting(band, now)
        depth += count
        wait = max(wait, now - since)
        filled += -(-count * _WHOLE // _at_once(band.shape.needs, scaling.worker))
    return depth, wait, -(-filled // _WHOLE)


def _waiting(band: Band, now: Millis) -> tuple[int, Millis]:
    count, since = 0, now
    for lane in islice(band.lanes.values(), _LANES_MAX):
        if not lane.share.held and lane.front is not None:
            count += lane.count
            since = min(since, lane.front.since)
    return count, since


def _at_once(needs: Resources, worker: Resources) -> int:
    """How many such runs fill one worker; placement lets none in that needs more than it has."""
    pairs = (
        (worker.cpu_millis, needs.cpu_millis),
        (worker.memory_bytes, needs.memory_bytes),
        (worker.gpus, needs.gpus),
    )
    return max(1, min((has // need for has, need in pairs if need), default=_WHOLE))


def _carry_out(world: World, pool: Pool, seen: Seen, verdict: Verdict, now: Millis) -> ScalingStep:
    with world.decision(now):
        names = _ask(world, pool, verdict.by, now) if verdict.by > 0 else _give_back(world, pool, -verdict.by, now)
        return _tell_change(world, pool, seen, verdict, names, now)


def _tell_change(
    world: World, pool: Pool, seen: Seen, verdict: Verdict, names: Sequence[NodeId], now: Millis
) -> ScalingStep:
    """Part of the decision that makes it."""
    if verdict.by:
        _note_change(world, pool, Change(at=now, by=verdict.by))
    step = ScalingStep(pool=pool.id, number=world.number, at=now, seen=seen, verdict=verdict, workers=tuple(names))
    world.put(Table.OUTBOX, step_key(step), step)
    return step


def step_key(step: ScalingStep) -> str:
    return f"scaling-{step.pool}-{step.number:016}"


def _ask(world: World, pool: Pool, count: int, now: Millis) -> list[NodeId]:
    """Named by the decision that asks for them: no two are ever called alike."""
    ground = world.tables.fleet.ground
    if ground is None:
        raise Conflict(f"pool {pool.id!r} has no machine to cut slices from", code="pool-groundless")
    names = [NodeId(f"{pool.id}-{world.number}-{index + 1}") for index in range(count)]
    for name in names:
        world.put(Table.WORKERS, name, Worker(id=name, pool=pool.id, home=ground.node, asked_at=now, since=now))
    return names


def _give_back(world: World, pool: Pool, count: int, now: Millis) -> list[NodeId]:
    """Of the idle ones those that served most, then those idle longest."""
    fleet = world.tables.fleet
    idle = [one for one in fleet.workers_of(pool.id) if one.state is WorkerState.READY and not _live(world, one)]
    chosen = sorted(idle, key=lambda one: (-one.runs, fleet.idle_since(one), one.id))[:count]
    for worker in chosen:
        end_worker(world, worker, now=now)
    return [worker.id for worker in chosen]


def _note_change(world: World, pool: Pool, change: Change) -> None:
    assert pool.scaling is not None
    matters = max(_MINUTE_MS, pool.scaling.cooldown_up_ms, pool.scaling.cooldown_down_ms)
    known = world.tables.fleet.growths.get(pool.id, Growth()).changes
    recent = tuple(one for one in known if one.at > change.at - matters)
    world.put(Table.GROWTHS, pool.id, Growth(changes=(*recent, change)))


def _gist(verdict: Verdict) -> tuple[str, ...]:
    """Its words without numbers and units, which change with the time: what is told once, not again at every look."""
    words = (word.strip(",:") for word in verdict.rule.split())
    return (*(word for word in words if word.isalpha() and word not in _UNITS), *verdict.holds)
