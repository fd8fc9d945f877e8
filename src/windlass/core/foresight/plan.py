"""What would these submissions do? Submitted to the live World in a trial, looked ahead, and taken back.

The same look ahead without them says whom they would delay. Nothing is decided, stored or held.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.errors import Conflict, Fault, WindlassError
from windlass.core.foresight.ahead import STEPS, Foreseen, expected_span, look_ahead
from windlass.core.foresight.growing import would_grow
from windlass.core.foresight.why import Estimate
from windlass.core.model.ids import JobId, Millis, PoolId, TenantId
from windlass.core.model.job import Job, JobSpec
from windlass.core.model.money import RATE_SCALE, Micros, cost, rate
from windlass.core.model.submission import Submission
from windlass.core.world.submit import submit
from windlass.core.world.world import World

NAMED_MAX: Final = 20
_NOBODY: Final = JobId("")
_HOUR: Final = Millis(3_600_000)


Known = Mapping[str, tuple[Job, JobSpec]]
"""By name."""
CheckSame = Callable[[Job, JobSpec, Submission], object]
"""Conflict where the job that has the name is not what is asked for."""


_NONE: Final[Known] = MappingProxyType({})


class Refusal(Struct, frozen=True, kw_only=True):
    """It would not be accepted."""

    code: str
    message: str
    hint: str = ""
    faults: tuple[Fault, ...] = ()


class Planned(Struct, frozen=True, kw_only=True):
    name: str
    """As it was given: what a job without a name will be called is not known before it is there."""
    refusal: Refusal | None = None
    is_unchanged: bool = False
    """It is there already, as asked for: nothing would be done."""
    is_suspended: bool = False
    """It waits for its release: where and when it would start is not asked before."""
    start: Estimate | None = None
    """None: it would not start as things stand (or is refused, or suspended); see `growing`."""
    growing: PoolId | None = None
    """It starts on a worker that this pool is yet to bring. The price is this pool's."""
    starts_now: bool = False
    turn: int | None = None
    """It is the so-manieth to start from now on, all tenants counted."""
    expected_ms: Millis = Millis(0)
    """How long it is expected to run, which the price is for."""
    price_micros: Micros = Micros(0)
    price_per_hour_micros: Micros = Micros(0)
    is_stopped_for_cost: bool = False
    """It would cost more than it may: `expected_ms` and the price are those at which it is stopped."""
    in_burst: bool = False


class Delay(Struct, frozen=True, kw_only=True):
    """A job of one's own that would start later."""

    name: str
    by_ms: Millis


class Plan(Struct, frozen=True, kw_only=True):
    items: tuple[Planned, ...]
    delayed: tuple[Delay, ...] = ()
    """Of the same tenant, most delayed first."""
    delayed_others: int = 0
    """Jobs of other tenants that would start later, as far as it was looked ahead."""
    delayed_others_by_ms: Millis = Millis(0)
    """The most any of them."""
    is_complete: bool = True
    """False: the look ahead was cut; there may be more."""


def _taken(job: Job, spec: JobSpec, asked: Submission) -> None:
    raise Conflict(f"the name {asked.name!r} is taken", code="name-taken", hint="choose another name")


def plan(
    world: World,
    tenant: TenantId,
    submissions: Sequence[Submission],
    *,
    ids: Sequence[JobId],
    now: Millis,
    steps: int = STEPS,
    known: Known = _NONE,
    check_same: CheckSame = _taken,
) -> Plan:
    """One by one, as if they were applied in this order at this moment; `known` are jobs that are there already."""
    with world.trial(now):
        before = look_ahead(world, {_NOBODY}, now=now, steps=steps)
    with world.trial(now):
        there, outcomes = dict(known), list[Job | Refusal | None]()

        def arriving() -> Iterator[JobId]:
            for one, job in zip(submissions, ids, strict=True):
                outcome = _try(world, tenant, one, job, now, there=there, check_same=check_same)
                outcomes.append(outcome)
                if isinstance(outcome, Job) and not outcome.is_suspended:
                    yield job

        # Also those that had their place without it: only when they have it again is it known how much later.
        delayable = {one.job for one in before.placings}
        after = look_ahead(world, delayable, now=now, steps=steps, arriving=arriving())
        items = [_planned(world, asked, one, after, now) for asked, one in zip(submissions, outcomes, strict=True)]
        names = {one.job: world.tables.jobs[one.job].name for one in before.placings if one.job in world.tables.jobs}
    later = _delays(before, after)
    own = sorted(
        ((by, names.get(job, job)) for job, who, by in later if who == tenant), key=lambda one: (-one[0], one[1])
    )
    others = [by for _, who, by in later if who != tenant]
    return Plan(
        items=tuple(items),
        delayed=tuple(Delay(name=name, by_ms=by) for by, name in own[:NAMED_MAX]),
        delayed_others=len(others),
        delayed_others_by_ms=max(others, default=Millis(0)),
        is_complete=not (before.is_cut and bool(before.placings)) and not after.is_cut,
    )


def _try(
    world: World,
    tenant: TenantId,
    asked: Submission,
    job: JobId,
    now: Millis,
    *,
    there: dict[str, tuple[Job, JobSpec]],
    check_same: CheckSame,
) -> Job | Refusal | None:
    """None: it is there already. One that is accepted is there for those that follow."""
    try:
        if asked.name in there:
            check_same(*there[asked.name], asked)
            return None
        accepted = submit(world, tenant, asked, job=job, now=now)
    except WindlassError as error:
        return Refusal(code=error.code, message=error.message, hint=error.hint or "", faults=error.faults)
    if asked.name:
        there[asked.name] = accepted
    return accepted[0]


def _planned(world: World, asked: Submission, job: Job | Refusal | None, after: Foreseen, now: Millis) -> Planned:
    if job is None:
        return Planned(name=asked.name, is_unchanged=True)
    if isinstance(job, Refusal):
        return Planned(name=asked.name, refusal=job)
    return replace(_foreseen(world, job, after, now), name=asked.name)


def _foreseen(world: World, job: Job, after: Foreseen, now: Millis) -> Planned:
    placing = after.placing(job.id)
    span = expected_span(world, job)
    if placing is None:
        return _unplaced(world, job, after, span)
    pool = placing.growing or world.tables.nodes[placing.node].pool
    found = Planned(
        name=job.name,
        start=Estimate(at=placing.at, node="" if placing.growing else placing.node, growing=placing.growing),
        growing=placing.growing or None,
        starts_now=placing.at <= now and not placing.growing,
        turn=after.placings.index(placing) + 1,
        expected_ms=span,
        in_burst=placing.price_factor != 1000,
    )
    return _priced(world, job, found, pool, placing.price_factor)


def _unplaced(world: World, job: Job, after: Foreseen, span: Millis) -> Planned:
    if job.is_suspended:
        return Planned(name=job.name, is_suspended=True, expected_ms=span)
    cut = Estimate(at=after.reached, is_bound=True) if after.is_cut else None
    pool = would_grow(world, job) if cut is None else None
    if pool is None:
        return Planned(name=job.name, start=cut, expected_ms=span)
    return _priced(world, job, Planned(name=job.name, growing=pool, expected_ms=span), pool)


def _priced(world: World, job: Job, found: Planned, pool: PoolId, factor: int = 1000) -> Planned:
    """With what it costs there, and no longer than that lets it run."""
    prices = world.tables.book(job.tenant, pool)

    def price(span: Millis) -> Micros:
        return Micros(cost(job.shape.needs, span, prices) * factor // 1000)

    found = replace(found, price_micros=price(found.expected_ms), price_per_hour_micros=price(_HOUR))
    most = job.cost_max
    if most is None or found.price_micros <= most:
        return found
    lasts = -(-most * RATE_SCALE // rate(job.shape.needs, prices, factor=factor))
    span = Millis(min(found.expected_ms, lasts))
    return replace(found, expected_ms=span, price_micros=most, is_stopped_for_cost=True)


def _delays(before: Foreseen, after: Foreseen) -> list[tuple[JobId, TenantId, Millis]]:
    """Jobs that get their place later with the plan than without it. One that was not seen any more: at least so much later."""
    seen = {one.job: one.at for one in after.placings}
    later = []
    for one in before.placings:
        at = seen.get(one.job, after.reached)
        if at > one.at:
            later.append((one.job, one.tenant, Millis(at - one.at)))
    return later
