"""Burst sessions: opened by whoever asks or by a full quota, closed by time, by whoever asks, or with their tenant."""

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core.admission.burst import check_opens
from windlass.core.errors import NotFound
from windlass.core.metering import segments_so_far
from windlass.core.model.burst import BurstSession, burst_id
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.money import Micros
from windlass.core.model.run import Run, Token
from windlass.core.model.spending import Segment
from windlass.core.model.tenant import Tenant
from windlass.core.world.gate import session_of
from windlass.core.world.records import Table
from windlass.core.world.world import World


def ask_burst(world: World, tenant: TenantId, *, now: Millis) -> BurstSession:
    """Open one now; Denied, Conflict or OverLimit say why not and when."""
    owner = world.tenant(tenant)
    check_opens(owner, world.tables.bursts.get(tenant, {}).values(), now)
    with world.decision(now) as number:
        return open_burst(world, owner, number=number, now=now, is_asked=True)


def open_burst(world: World, tenant: Tenant, *, number: int, now: Millis, is_asked: bool) -> BurstSession:
    """Part of a decision."""
    policy = tenant.burst
    session = BurstSession(
        id=str(Token(world.epoch, number)),
        tenant=tenant.id,
        opened_at=now,
        ends_at=Millis(now + policy.span_ms),
        factor=policy.factor,
        price_factor=policy.price_factor,
        is_asked=is_asked,
    )
    world.put(Table.BURSTS, burst_id(session), session)
    return session


def join_burst(world: World, tenant: TenantId, *, number: int, now: Millis) -> BurstSession:
    """Part of the decision that places a run beyond the quota: the open session, or one that its tenant's policy opens for it."""
    session = session_of(world, tenant, now)
    return session or open_burst(world, world.tenant(tenant), number=number, now=now, is_asked=False)


def end_burst(world: World, tenant: TenantId, *, now: Millis) -> BurstSession:
    """Before its time. What went beyond the quota in it goes on, at the plain price from now."""
    world.tenant(tenant)
    session = session_of(world, tenant, now)
    if session is None:
        raise NotFound(f"tenant {tenant!r} has no burst session open", hint="`windlass tenants burst` lists them")
    with world.decision(now):
        for run in runs_in(world, session):
            world.put(Table.RUNS, run.id, replace(run, burst_until=now))
        return _close(world, replace(session, ends_at=now))


def burst_due(world: World, key: str, now: Millis) -> None:
    """The timer's part: a session whose time has come is closed at the time it said, however late we are."""
    session = world.tables.bursts.get(TenantId(key.partition("/")[0]), {}).get(key)
    if session is None or session.ends_at > now:
        return
    with world.decision(now):
        if session.is_closed:
            world.drop(Table.BURSTS, key)
        else:
            _close(world, session)


def bill_burst(world: World, run: Run, parts: Sequence[Segment]) -> None:
    """Part of the decision that accepts the end of a run that went beyond."""
    key = f"{run.tenant}/{run.burst}"
    session = world.tables.bursts.get(run.tenant, {}).get(key)
    if session is not None:
        cost = Micros(session.cost + sum(part.cost for part in parts if part.is_burst))
        world.put(Table.BURSTS, key, replace(session, cost=cost, runs=session.runs + 1))


def bursts_of(world: World, tenant: TenantId, now: Millis) -> list[BurstSession]:
    """Newest first, with what runs counted until now."""
    sessions = world.tables.bursts.get(tenant, {}).values()
    return sorted((_with_live(world, one, now) for one in sessions), key=lambda one: one.opened_at, reverse=True)


def runs_in(world: World, session: BurstSession) -> list[Run]:
    """That went beyond in it and are not over."""
    return [run for run in world.live_runs(session.tenant) if run.burst == session.id]


def _close(world: World, session: BurstSession) -> BurstSession:
    closed = replace(session, is_closed=True)
    world.put(Table.BURSTS, burst_id(session), closed)
    return closed


def _with_live(world: World, session: BurstSession, now: Millis) -> BurstSession:
    live = runs_in(world, session)
    cost = sum(part.cost for run in live for part in segments_so_far(run, now) if part.is_burst)
    return replace(session, cost=Micros(session.cost + cost), runs=session.runs + len(live))
