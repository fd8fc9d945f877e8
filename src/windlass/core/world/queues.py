"""What there is to see of the queue and of fairness: depth, heads and reasons per tenant and shape; deserved, received and lag."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from msgspec import Struct

from windlass.core.fairness.account import Virtual, Work
from windlass.core.fairness.deadlines import Urgency
from windlass.core.fairness.lanes import Lane, Reasons
from windlass.core.fairness.standing import Standing
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.job import Job
from windlass.core.model.shape import Shape
from windlass.core.world.gate import may_start
from windlass.core.world.verdict import Hold
from windlass.core.world.world import World

_LOOKED_AT_MAX: Final = 2000
"""Jobs of one lane, for who waits longest: all of one priority are in the order they came."""


class QueueView(Struct, frozen=True, kw_only=True):
    """One tenant's jobs of one shape."""

    tenant: TenantId
    shape: Shape
    depth: int
    head: Job
    """Its next."""
    oldest_since: Millis
    urgent: int
    """At risk, critical or missed."""
    tag: Virtual
    """The tenant's finish tag F."""
    parked: Reasons
    """Why the shape finds no place; empty when it is in the running."""
    held: Reasons
    """The limit of its own the tenant has reached."""


class FairnessView(Struct, frozen=True, kw_only=True):
    since: Millis
    now: Virtual
    """V."""
    weights: int
    """Of those whose standings are told."""
    standings: tuple["TenantStanding", ...]


class TenantStanding(Struct, frozen=True, kw_only=True):
    standing: Standing
    waiting: int
    tag: Virtual
    all_work: Work
    """Charged since the tenant's first run, corrections included, over all restarts."""


def queue_status(world: World, tenant: TenantId | None, *, now: Millis) -> tuple[QueueView, ...]:
    """Of one tenant or of all: the longest queues first."""
    lanes: dict[tuple[TenantId, Shape], list[Lane]] = {}
    for lane in world.tables.queue.lanes():
        if tenant is None or lane.tenant == tenant:
            lanes.setdefault((lane.tenant, lane.shape), []).append(lane)
    views = [_view(world, *key, same, now) for key, same in lanes.items()]
    return tuple(sorted(views, key=lambda view: (-view.depth, view.tenant, view.head.seq)))


def fairness(world: World, tenant: TenantId | None, *, now: Millis, window_ms: Millis | None) -> FairnessView:
    """Since this leadership began, or in a window of at most an hour. Whoever is furthest behind comes first."""
    tables = world.tables
    since, standings = tables.standings.all(now, window_ms=window_ms)
    shown = [
        TenantStanding(
            standing=one,
            waiting=tables.queue.waits(one.tenant),
            tag=tables.ledger.account(one.tenant).finish,
            all_work=tables.ledger.account(one.tenant).work,
        )
        for one in standings
        if tenant is None or one.tenant == tenant
    ]
    shown.sort(key=lambda one: (-one.standing.lag, one.standing.tenant))
    weights = sum(one.standing.weight for one in shown)
    return FairnessView(since=since, now=tables.ledger.now(), weights=weights, standings=tuple(shown))


def why_parked(world: World, lane: Lane) -> Reasons:
    """As the nodes are now; empty when its shape is not parked.

    A shape stays parked when a node changes and still has no room for it: what it lacked then may no longer be so.
    """
    if not lane.waiting or lane.band.yields:
        return lane.waiting
    return world.tables.places.reasons(lane.shape) or lane.waiting


def urgent_counts(world: World) -> dict[Urgency, int]:
    counts = dict.fromkeys((Urgency.AT_RISK, Urgency.CRITICAL, Urgency.MISSED), 0)
    for urgent in world.tables.urgent.values():
        counts[urgent] += 1
    return counts


def _view(world: World, tenant: TenantId, shape: Shape, lanes: list[Lane], now: Millis) -> QueueView:
    tables = world.tables
    first = min(lanes, key=lambda lane: lane.rank)
    assert first.front is not None
    parked = next((reasons for lane in lanes if (reasons := why_parked(world, lane))), ())
    return QueueView(
        tenant=tenant,
        shape=shape,
        depth=sum(len(lane) for lane in lanes),
        head=first.front,
        oldest_since=min(job.created_at for lane in lanes for job in _some(lane.jobs())),
        urgent=sum(len(lane) for lane in lanes if lane.level),
        tag=tables.ledger.account(tenant).finish,
        parked=parked,
        held=tables.queue.held(tenant) or (() if parked else _would_hold(world, first.front, now)),
    )


def _would_hold(world: World, head: Job, now: Millis) -> Reasons:
    """Between a fact and the next placing nobody is held yet: the gate is asked what it will say."""
    answer = may_start(world, head, now)
    return answer.reasons if isinstance(answer, Hold) else ()


def _some(jobs: Iterable[Job]) -> Iterable[Job]:
    return islice(jobs, _LOOKED_AT_MAX)
