"""The smallest change that would start a job now. Every one is tried on the live World, in a trial, before it is told.

Candidates come in the order of how little they change: what its owner can do with the job, with its other jobs, then what an
admin can do. Only those that really start it are kept; but for the release of a suspended job, without which nothing starts it,
and, for one that does not start as things stand and has others before it, for what gives all of them their turn.
One that a limit holds may lack room as well: then a pool grows for it by itself once it is let in, or what makes room is told too.
Where only a node more would help it is said that no command adds one: a static pool has the nodes it has.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from typing import Final

from msgspec.structs import replace

from windlass.core.errors import WindlassError
from windlass.core.foresight.ahead import look_ahead
from windlass.core.foresight.by_hand import join, more_workers
from windlass.core.foresight.change import PLACINGS, Advice, Change, both
from windlass.core.foresight.gate import Gate, GateName
from windlass.core.foresight.gates import gates, holding
from windlass.core.foresight.growing import serving
from windlass.core.foresight.limits import more_money, more_pools, more_quota
from windlass.core.model.amounts import cores, size
from windlass.core.model.bounds import PRIORITY
from windlass.core.model.ids import JobId, Millis, NodeId, PoolId
from windlass.core.model.job import Job
from windlass.core.model.node import Node, NodeState
from windlass.core.model.resources import Resources
from windlass.core.model.tenant import SHARE
from windlass.core.placement.nodes import Slot
from windlass.core.world.bursts import ask_burst
from windlass.core.world.growth import scale
from windlass.core.world.place import place
from windlass.core.world.records import Table
from windlass.core.world.requests import cancel, release
from windlass.core.world.workers import uncordon
from windlass.core.world.world import World

ADVICE_MAX: Final = 3
_CANDIDATES_MAX: Final = 12
_STEPS: Final = 4
"""Of one pool that grows, in one trial."""
_AT_ONCE: Final = PoolId("")
_BEFORE_ROOM: Final = frozenset({GateName.RELEASE, GateName.BUDGET, GateName.QUOTA, GateName.BURST})
"""Gates before which a job is not counted among those that wait for room: no pool grows for it yet."""
_ADD_NODE: Final = "add-node"
_LASTING: Final = frozenset({"quota", "budget", "uncordon", "scale", "pool-max"})
"""What stays when it does not start the job at once: a burst would run out meanwhile, a job would be cancelled for nothing."""


def advise(world: World, job: Job, gate: Gate | None, *, is_stuck: bool, now: Millis) -> tuple[Advice, ...]:
    """At most three that were seen to start it, smallest first; or its release, even if it then waits like others.

    `is_stuck`: it does not start as things stand. Where nothing starts it at once, what gives it a turn is told.
    """
    if gate is None:
        return ()
    found: list[Advice] = []
    for advice, change in islice(_candidates(world, job, gate, now), _CANDIDATES_MAX):
        if len(found) >= ADVICE_MAX:
            break
        if advice.does == "cancel" and any(one.does == "cancel" for one in found):
            continue  # one of them is enough, and leaves room for what costs no job
        told = _told(world, job, gate, advice, change, now)
        if told is not None:
            found.append(told)
    if is_stuck and all(one.does == _ADD_NODE for one in found):
        return (*_unblocking(world, job, gate, now), *found)
    return tuple(found)


def _unblocking(world: World, job: Job, gate: Gate, now: Millis) -> tuple[Advice, ...]:
    """The first that lasts and after which it starts in its turn, behind those before it."""
    for advice, change in islice(_candidates(world, job, gate, now), _CANDIDATES_MAX):
        if advice.does not in _LASTING:
            continue
        room = _room(world, job, change, now) if _is_before_room(gate, advice) else ()
        with_room = (_together(advice, change, *one) for one in room if one[0].does in _LASTING)
        for told, whole in chain([(advice, change)], with_room):
            if _gets_a_turn(world, job, whole, now):
                return (replace(told, says=f"{told.says}; then it waits for its turn"),)
    return ()


def _gets_a_turn(world: World, job: Job, change: Change, now: Millis) -> bool:
    """It is seen to start; or only others are before it, and they are more than it was looked ahead."""
    with world.trial(now):
        try:
            change(world, now)
        except WindlassError:
            return False
        shut = holding(gates(world, world.tables.jobs.get(job.id, job), now))
        foreseen = look_ahead(world, {job.id}, now=now)
        is_only_late = shut is None or shut.name is GateName.ORDER
        return foreseen.placing(job.id) is not None or (foreseen.is_cut and is_only_late)


def _told(world: World, job: Job, gate: Gate, advice: Advice, change: Change, now: Millis) -> Advice | None:
    """What is to be said of it, if it starts the job: by itself, by the pool that then grows, or with what room takes."""
    is_before_room = _is_before_room(gate, advice)
    by = _starts(world, job, change, now, may_grow=is_before_room)
    if by is not None:
        return replace(advice, says=f"{advice.says}; then the pool {by} grows for it") if by else advice
    if gate.name is GateName.RELEASE:
        return replace(advice, says="release it; then it waits for its turn")
    return _with_room(world, job, advice, change, now) if is_before_room else None


def _starts(world: World, job: Job, change: Change, now: Millis, *, may_grow: bool = False) -> PoolId | None:
    """None: it does not. The pool, where it is a worker that comes by itself; otherwise nothing."""
    with world.trial(now):
        try:
            change(world, now)
        except WindlassError:
            return None
        if _is_placed(world, job, now):
            return _AT_ONCE
        return _grown_for(world, job, now) if may_grow else None


def _is_placed(world: World, job: Job, now: Millis) -> bool:
    return any(run.job == job.id for run in place(world, now=now, limit=PLACINGS))


def _grown_for(world: World, job: Job, now: Millis) -> PoolId | None:
    """The pool that brings it a worker as its autoscaler will drive it; those asked for are taken to be there at once."""
    let_in = world.tables.jobs.get(job.id, job)  # which pools it may use may be what was changed
    for pool in serving(world, let_in):
        coming = [one.id for one in world.tables.fleet.workers_of(pool.id) if one.is_coming]
        for _ in range(_STEPS):
            join(world, pool.id, coming, now)
            if coming and _is_placed(world, job, now):
                return pool.id
            step = scale(world, pool.id, now=now)
            if step is None or step.verdict.by <= 0:
                break
            coming = [NodeId(name) for name in step.workers]
    return None


def _is_before_room(gate: Gate, advice: Advice) -> bool:
    return gate.name in _BEFORE_ROOM or advice.does == "quota"


def _with_room(world: World, job: Job, advice: Advice, change: Change, now: Millis) -> Advice | None:
    """Let in by it, the job would still find no place: the first change that makes one is told with it."""
    after = (
        change if advice.does in _LASTING else None
    )  # whoever has others before it does not cancel its way past them
    for second, making_room in _room(world, job, after, now):
        told, whole = _together(advice, change, second, making_room)
        if _starts(world, job, whole, now) is None:
            continue
        if second.does != _ADD_NODE:
            return told
        if advice.does in _LASTING:
            return replace(advice, says=f"{advice.says}; then it waits for room, which no command makes")
    return None


def _room(world: World, job: Job, change: Change | None, now: Millis) -> Iterator[tuple[Advice, Change]]:
    """What may make it, once `change` is made."""
    yield from _uncordon(world)
    yield from more_workers(world, job, now, after=change)
    yield from _add_node(world, job)


def _as_it_is(world: World, now: Millis) -> None:
    """Nothing is changed."""


def _together(first: Advice, change: Change, second: Advice, making_room: Change) -> tuple[Advice, Change]:
    commands = (first.command, second.command)
    told = Advice(
        does=first.does,
        says=f"{first.says}; and {second.says}",
        command=" && ".join(commands) if all(commands) else "",
        is_admins=first.is_admins or second.is_admins,
        values=(*first.values, *second.values),
    )
    return told, both(change, making_room)


def _candidates(world: World, job: Job, gate: Gate, now: Millis) -> Iterator[tuple[Advice, Change]]:
    match gate.name:
        case GateName.RELEASE:
            yield (
                Advice(does="release", says="release it", command=f"windlass release {job.name}"),
                lambda world, now: release(world, job.tenant, job.id, now=now),
            )
        case GateName.BUDGET:
            yield from more_money(world, job, now)
        case GateName.QUOTA | GateName.BURST:
            yield from _open_burst(job)
            yield from _cancel_own(world, job)
            yield from more_quota(world, job, now)
        case GateName.NODE | GateName.POOL | GateName.COOLDOWN:
            yield from _ask_less(world, job)
            yield from _cancel_own(world, job)
            yield from _anywhere(job)
            yield from more_pools(world, job)
            yield from _uncordon(world)
            yield from more_workers(world, job, now, after=_as_it_is)
            yield from _add_node(world, job)
        case GateName.ORDER:
            yield from _go_first(world, job)
            yield from _cancel_own(world, job, is_waiting=True)
        case GateName.BACKOFF | GateName.IMAGE:
            return  # only time helps, and it is on its way


def _open_burst(job: Job) -> Iterator[tuple[Advice, Change]]:
    yield (
        Advice(
            does="burst",
            says="open a burst session, at the burst price",
            command=f"windlass tenants burst {job.tenant} --open",
        ),
        lambda world, now: ask_burst(world, job.tenant, now=now),
    )


def _cancel_own(world: World, job: Job, *, is_waiting: bool = False) -> Iterator[tuple[Advice, Change]]:
    """The youngest first: least is lost with it."""
    tables = world.tables
    if is_waiting:
        lane = tables.queue.lane_of(job)
        others = [one for one in (lane.jobs() if lane else ()) if one.id != job.id]
        others.sort(key=lambda one: (-one.priority, one.seq))
        mine = [(one.id, one.name, "waits before it") for one in others[:2]]
    else:
        runs = [run for run in tables.runs.values() if run.tenant == job.tenant and not run.is_over]
        runs.sort(key=lambda run: (-run.assigned_at, run.id))
        mine = [
            (run.job, tables.jobs[run.job].name, f"runs on {run.node}") for run in runs[:3] if run.job in tables.jobs
        ]
    for key, name, where in mine:
        advice = Advice(does="cancel", says=f"cancel {name}, which {where}", command=f"windlass cancel {name}")
        yield advice, _ended(key)


def _ended(key: JobId) -> Change:
    """Cancelled, and its run gone: what a cancel comes to."""

    def change(world: World, now: Millis) -> None:
        job = world.tables.jobs[key]
        run = world.live_run(key)
        with world.decision(now):
            if run is not None:
                world.drop(Table.RUNS, run.id)
                world.drop(Table.JOBS, key)
            else:
                cancel(world, job.tenant, key, now=now)

    return change


def _ask_less(world: World, job: Job) -> Iterator[tuple[Advice, Change]]:
    """As much as the node has free that comes nearest to what it asks for."""
    needs = job.shape.needs
    slots = [slot for slot in world.tables.places if _is_only_full(world, job, slot)]
    best = min(slots, key=lambda slot: (_shortfall(needs, slot.free), slot.node.id), default=None)
    if best is None:
        return
    less = Resources(
        cpu_millis=min(needs.cpu_millis, best.free.cpu_millis),
        memory_bytes=min(needs.memory_bytes, best.free.memory_bytes),
        gpus=min(needs.gpus, best.free.gpus),
    )
    if less.cpu_millis <= 0 or less.memory_bytes <= 0:
        return
    words = [
        *([cores(less.cpu_millis)] if less.cpu_millis < needs.cpu_millis else []),
        *([size(less.memory_bytes >> 20 << 20)] if less.memory_bytes < needs.memory_bytes else []),
        *([f"{less.gpus} GPU{'s' * (less.gpus != 1)}"] if less.gpus < needs.gpus else []),
    ]
    values = (
        ("resources.cpu", f"{less.cpu_millis}m"),
        ("resources.memory", f"{less.memory_bytes >> 20}Mi"),
        ("resources.gpu", str(less.gpus)),
    )
    says = f"submit it again asking for no more than {', '.join(words)}: that is free on {best.node.id}"
    smaller = replace(job, shape=replace(job.shape, needs=less))
    yield Advice(does="ask-less", says=says, values=values), _job(smaller)


def _is_only_full(world: World, job: Job, slot: Slot) -> bool:
    """It has too little free now, and nothing else against it."""
    roomy = replace(job.shape, needs=Resources())
    return world.tables.places.refusal(roomy, slot) is None


def _shortfall(needs: Resources, free: Resources) -> int:
    """In thousandths of what is asked, over all that is missing."""
    pairs = ((needs.cpu_millis, free.cpu_millis), (needs.memory_bytes, free.memory_bytes), (needs.gpus, free.gpus))
    return sum((need - have) * SHARE // need for need, have in pairs if need > have)


def _anywhere(job: Job) -> Iterator[tuple[Advice, Change]]:
    shape = job.shape
    if shape.labels:
        says = "submit it again without its node labels: " + ", ".join(f"{key}={value}" for key, value in shape.labels)
        yield Advice(does="any-node", says=says), _job(replace(job, shape=replace(shape, labels=())))
    if shape.pools:
        says = f"submit it again without naming the pool {', '.join(shape.pools)}"
        yield Advice(does="any-node", says=says), _job(replace(job, shape=replace(shape, pools=())))


def _uncordon(world: World) -> Iterator[tuple[Advice, Change]]:
    away = [node for node in world.tables.nodes.values() if node.state in (NodeState.CORDONED, NodeState.DRAINING)]
    for node in sorted(away, key=lambda node: node.id)[:2]:
        says = f"uncordon {node.id}, which is {node.state}"
        command = f"windlass nodes uncordon {node.id}"
        advice = Advice(does="uncordon", says=says, command=command, is_admins=True)
        yield advice, partial(_uncordoned, node.id)


def _uncordoned(node: NodeId, world: World, now: Millis) -> object:
    """By the verb itself: it refuses a worker that is being given back."""
    return uncordon(world, node, now=now)


def _add_node(world: World, job: Job) -> Iterator[tuple[Advice, Change]]:
    """One more like the nearest that would take it when it is empty. Nobody can type that, and it is not said to be an admin's."""
    nearest = world.tables.places.nearest(job.shape)
    if nearest is None or not nearest.id or not job.shape.needs.fits_in(nearest.capacity):
        return
    if nearest.id in world.tables.fleet.workers:
        return  # a pool that grows takes no node that it did not ask for
    another = replace(nearest, id=NodeId(f"{nearest.id}-and-one-more"), state=NodeState.ACTIVE)
    says = f"another node like {nearest.id} in the pool {nearest.pool} would start it, but no command adds one"
    yield Advice(does=_ADD_NODE, says=says), _node(another)


def _go_first(world: World, job: Job) -> Iterator[tuple[Advice, Change]]:
    """One above the first of each of its tenant's lanes: above all of its own that wait."""
    fronts = [lane.front for lane in world.tables.queue.lanes() if lane.share.tenant == job.tenant]
    first = max((front.priority for front in fronts if front is not None), default=job.priority) + 1
    if first > PRIORITY.most:
        return
    advice = Advice(
        does="priority", says=f"submit it again with the priority {first}", values=(("priority", str(first)),)
    )
    yield advice, _job(replace(job, priority=first))


def _job(changed: Job) -> Change:
    def change(world: World, now: Millis) -> None:
        with world.decision(now):
            world.put(Table.JOBS, changed.id, changed)

    return change


def _node(changed: Node) -> Change:
    return lambda world, now: world.set_node(changed, now=now)
