"""May a burst session open? Not while one is open, not in the cooldown after one, and so many a day only."""

from collections.abc import Collection

from msgspec import Struct

from windlass.core.errors import Conflict, Denied, Excess, OverLimit
from windlass.core.model.burst import BurstSession
from windlass.core.model.calendar import day_of, next_day
from windlass.core.model.ids import Millis
from windlass.core.model.resources import NOTHING
from windlass.core.model.spans import spoken
from windlass.core.model.tenant import SHARE, Tenant


class Closed(Struct, frozen=True, kw_only=True):
    """No session may open now."""

    why: str
    """`off`, `open`, `cooldown`, `per-day`"""
    opens_at: Millis | None = None
    """When it may; None: not by waiting."""
    count: int = 0


def open_session(sessions: Collection[BurstSession], now: Millis) -> BurstSession | None:
    return next((one for one in sessions if one.is_open(now)), None)


def closed(tenant: Tenant, sessions: Collection[BurstSession], now: Millis) -> Closed | None:
    """Why no session may open; None when one may. At most one is open at a time."""
    policy = tenant.burst
    if not policy.sessions_per_day:
        return Closed(why="off")
    current = open_session(sessions, now)
    if current is not None:
        return Closed(why="open", opens_at=Millis(current.ends_at + policy.cooldown_ms))
    ended = max((one.ends_at for one in sessions), default=None)
    today = sum(day_of(one.opened_at) == day_of(now) for one in sessions)
    is_day_used = today >= policy.sessions_per_day
    if ended is not None and now < ended + policy.cooldown_ms:
        cooled = Millis(ended + policy.cooldown_ms)
        return Closed(why="cooldown", opens_at=max(cooled, next_day(now)) if is_day_used else cooled)
    if is_day_used:
        return Closed(why="per-day", opens_at=next_day(now), count=today)
    return None


def check_opens(tenant: Tenant, sessions: Collection[BurstSession], now: Millis) -> None:
    """As `closed`, for somebody who asked."""
    shut = closed(tenant, sessions, now)
    if shut is None:
        return _check_adds(tenant)
    seconds = max(1, -(-((shut.opens_at or now) - now) // 1000))
    if shut.why == "off":
        raise Denied(f"tenant {tenant.id!r} may not burst", code="burst-off", hint="windlass tenants burst --help")
    if shut.why == "open":
        raise Conflict(
            f"tenant {tenant.id!r} has a burst session open",
            code="burst-open",
            hint="`windlass tenants burst` shows it",
        )
    if shut.why == "cooldown":
        left = Excess(code="burst-cooldown", used=seconds, asked=1, limit=0, unit="seconds left")
        raise OverLimit(
            f"the last burst of tenant {tenant.id!r} has just ended: the next may open in {spoken(seconds)}",
            code="burst-cooldown",
            limits=[left],
            retry_after_seconds=seconds,
        )
    most = tenant.burst.sessions_per_day
    used = Excess(code="burst-per-day", used=shut.count, asked=1, limit=most, unit="sessions")
    raise OverLimit(
        f"tenant {tenant.id!r} has used its {most} burst session{'s' * (most != 1)} of today",
        code="burst-per-day",
        limits=[used],
        retry_after_seconds=seconds,
    )


def _check_adds(tenant: Tenant) -> None:
    """Limits are whole numbers, rounded down: half as much again of one job is one job, and the session would be for nothing."""
    quota, factor = tenant.quota, tenant.burst.factor
    held = quota.resources or NOTHING
    limits = [limit for limit in (held.cpu_millis, held.memory_bytes, held.gpus, quota.jobs or 0) if limit]
    if not limits or any(limit * factor // SHARE > limit for limit in limits):
        return
    enough = -(-SHARE // (factor - SHARE)) if factor > SHARE else 0
    more = f"windlass tenants quota {tenant.id} --jobs {enough}, or a larger " if enough else "have a larger "
    raise Conflict(
        f"a burst of tenant {tenant.id!r} would add nothing: {factor / SHARE:g} times its quota, rounded down, is its quota",
        code="burst-adds-nothing",
        hint=f"{more}burst.factor in its manifest",
    )
