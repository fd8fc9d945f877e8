"""Why does it wait? The gate that holds it, all gates in order, who is ahead, when it may start, and what would start it now."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.foresight.advice import advise
from windlass.core.foresight.ahead import STEPS, Foreseen, look_ahead
from windlass.core.foresight.change import Advice
from windlass.core.foresight.fetching import another_image, image_advice, image_gate, refused_gate
from windlass.core.foresight.gate import Gate, GateName
from windlass.core.foresight.gates import IMAGE_FAILED, gates, holding
from windlass.core.foresight.line import own_ahead
from windlass.core.model.ids import JobId, Millis
from windlass.core.model.job import Job, JobState
from windlass.core.world.world import World

NAMED_MAX: Final = 10


class Ahead(Struct, frozen=True, kw_only=True):
    """Who gets a place before it. Other tenants' jobs are a number, whoever asks."""

    own: int = 0
    own_names: tuple[str, ...] = ()
    """The first of them."""
    others: int = 0
    is_complete: bool = True
    """False: it was not looked so far ahead; there may be more."""


class Estimate(Struct, frozen=True, kw_only=True):
    at: Millis
    node: str = ""
    is_bound: bool = False
    """No earlier than that: it was not looked any further."""
    growing: str = ""
    """The pool, where it starts on a worker that is yet to come."""


class Why(Struct, frozen=True, kw_only=True):
    job: JobId
    name: str
    state: JobState
    says: str
    """The answer in one sentence."""
    gate: GateName | None = None
    """The one that holds it."""
    gates: tuple[Gate, ...] = ()
    ahead: Ahead = Ahead()
    start: Estimate | None = None
    """None: it will not start as things stand."""
    advice: tuple[Advice, ...] = ()


def why(world: World, job: Job, *, now: Millis, steps: int = STEPS) -> Why:
    """Of a live job. Decides nothing: every look ahead is taken back."""
    if job.state is not JobState.PENDING:
        return _under_way(world, job, now)
    found = gates(world, job, now)
    gate = holding(found)
    with world.trial(now):
        foreseen = look_ahead(world, {job.id}, now=now, steps=steps)
    start = _estimate(job, foreseen, gate)
    return Why(
        job=job.id,
        name=job.name,
        state=job.state,
        says=f"{gate.name}: {gate.says}" if gate is not None else "its turn has come",
        gate=gate.name if gate is not None else None,
        gates=found,
        ahead=_ahead(world, job, foreseen) if start is not None else _in_line(world, job, foreseen, now),
        start=start,
        advice=advise(world, job, gate, is_stuck=start is None, now=now),
    )


def why_over(job: Job) -> Why:
    """Of one that is over: how it ended, and the gate that it never passed."""
    says = f"it is over: {job.state}" + (f" ({job.reason})" if job.reason else "")
    over = Why(job=job.id, name=job.name, state=job.state, says=says)
    if job.state is not JobState.FAILED or job.reason != IMAGE_FAILED:
        return over
    return replace(over, gate=GateName.IMAGE, gates=(refused_gate(job.message),), advice=another_image())


def _under_way(world: World, job: Job, now: Millis) -> Why:
    run = world.live_run(job.id)
    where = f" on {run.node}" if run is not None else ""
    doing = run.progress if run is not None and run.progress else "being started"
    says = f"it runs{where}" if job.state is JobState.RUNNING else f"it has its place{where}: {doing}"
    placed = Why(job=job.id, name=job.name, state=job.state, says=says)
    image = image_gate(run, now) if run is not None else None
    if run is None or image is None:
        return placed
    return replace(placed, gate=image.name, gates=(image,), advice=image_advice(run))


def _ahead(world: World, job: Job, foreseen: Foreseen) -> Ahead:
    placing = foreseen.placing(job.id)
    before = foreseen.placings[: foreseen.placings.index(placing)] if placing is not None else foreseen.placings
    own = [one.job for one in before if one.tenant == job.tenant]
    return Ahead(
        own=len(own),
        own_names=_names(world, own),
        others=len(before) - len(own),
        is_complete=placing is not None or not foreseen.is_cut,
    )


def _in_line(world: World, job: Job, foreseen: Foreseen, now: Millis) -> Ahead:
    """Of one that does not start as things stand: who does, and those of its tenant that are stuck before it.

    Which of the others that are stuck too would go first, only their start could tell.
    """
    starting = _ahead(world, job, foreseen)
    if job.is_suspended or job.not_before > now:
        return starting
    queue = world.tables.queue
    line = own_ahead(world, job, now=now, most=STEPS)
    own = dict.fromkeys(
        (*(one.job for one in foreseen.placings if one.tenant == job.tenant), *(one.id for one in line))
    )
    is_alone = len(queue) == queue.waits(job.tenant)
    return Ahead(
        own=len(own),
        own_names=_names(world, own),
        others=starting.others,
        is_complete=is_alone and len(line) < STEPS,
    )


def _names(world: World, jobs: Iterable[JobId]) -> tuple[str, ...]:
    return tuple(world.tables.jobs[one].name for one in islice(jobs, NAMED_MAX) if one in world.tables.jobs)


def _estimate(job: Job, foreseen: Foreseen, gate: Gate | None) -> Estimate | None:
    placing = foreseen.placing(job.id)
    if placing is not None:
        return Estimate(at=placing.at, node="" if placing.growing else placing.node, growing=placing.growing)
    if foreseen.is_cut:
        return Estimate(at=foreseen.reached, is_bound=True)
    opens_at = gate.opens_at if gate is not None and gate.name is GateName.COOLDOWN else None
    return Estimate(at=opens_at, is_bound=True) if opens_at is not None else None
