"""Why does it wait? The gate that holds it, all gates in order, who is ahead, when it may start, and what would start it now."""

from typing import Final

from msgspec import Struct

from windlass.core.foresight.advice import Advice, advise
from windlass.core.foresight.ahead import STEPS, Foreseen, look_ahead
from windlass.core.foresight.gates import Gate, GateName, gates, holding
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
        return Why(job=job.id, name=job.name, state=job.state, says=_under_way(world, job))
    found = gates(world, job, now)
    gate = holding(found)
    with world.trial(now):
        foreseen = look_ahead(world, {job.id}, now=now, steps=steps)
    return Why(
        job=job.id,
        name=job.name,
        state=job.state,
        says=f"{gate.name}: {gate.says}" if gate is not None else "its turn has come",
        gate=gate.name if gate is not None else None,
        gates=found,
        ahead=_ahead(world, job, foreseen),
        start=_estimate(job, foreseen),
        advice=advise(world, job, gate, now=now),
    )


def _under_way(world: World, job: Job) -> str:
    run = world.live_run(job.id)
    where = f" on {run.node}" if run is not None else ""
    if job.state is JobState.RUNNING:
        return f"it runs{where}"
    doing = run.progress if run is not None and run.progress else "being started"
    return f"it has its place{where}: {doing}"


def _ahead(world: World, job: Job, foreseen: Foreseen) -> Ahead:
    placing = foreseen.placing(job.id)
    before = foreseen.placings[: foreseen.placings.index(placing)] if placing is not None else foreseen.placings
    own = [one for one in before if one.tenant == job.tenant]
    names = [world.tables.jobs[one.job].name for one in own[:NAMED_MAX] if one.job in world.tables.jobs]
    return Ahead(
        own=len(own),
        own_names=tuple(names),
        others=len(before) - len(own),
        is_complete=placing is not None or not foreseen.is_cut,
    )


def _estimate(job: Job, foreseen: Foreseen) -> Estimate | None:
    placing = foreseen.placing(job.id)
    if placing is not None:
        return Estimate(at=placing.at, node=placing.node)
    return Estimate(at=foreseen.reached, is_bound=True) if foreseen.is_cut else None
