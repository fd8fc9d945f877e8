"""Is there quota? Asked at the door, and again before a start. A few comparisons; words and numbers only for a refusal.

`reject` counts a job from its acceptance to its end, so it is refused at the door. `queue` and `burst` let it wait (up to
`queued_max`) and count from the start; then the tenant is held out of the running until something of it is released.
"""

from collections.abc import Callable
from typing import Final

from windlass.core.admission.raising import raising
from windlass.core.admission.usage import Usage
from windlass.core.errors import Excess, Fault, Invalid, OverLimit
from windlass.core.model.amounts import BYTES, MICROS, MILLICORES
from windlass.core.model.amounts import spoken as amounts
from windlass.core.model.calendar import day_of, month_of, next_day, next_month
from windlass.core.model.ids import Millis
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.model.spans import spoken
from windlass.core.model.tenant import SHARE, Quota, QuotaPolicy, Tenant

_BURST: Final = QuotaPolicy.BURST
_REJECT: Final = QuotaPolicy.REJECT
_RETRY_MAX_SECONDS: Final = 300
_NEVER_SECONDS: Final = 3_600
"""Told to machines of what no time opens: an admin may, and nobody knows when."""
_FIELDS: Final = {
    "quota-gpu": "spec.resources.gpu",
    "quota-cpu": "spec.resources.cpu",
    "quota-memory": "spec.resources.memory",
}

_NO_WAITING: Final = "no waiting opens it;"
UsedUp = tuple[Excess, Millis | None]
"""A limit that is reached, and the moment it opens; None: by no waiting."""


def check_ever(tenant: Tenant, needs: Resources) -> None:
    """Invalid for what alone is more than the tenant could ever hold: no waiting helps."""
    quota = tenant.quota
    factor = tenant.burst.factor if tenant.policy is _BURST and tenant.burst.sessions_per_day else SHARE
    if fits(quota, needs, held=NOTHING, jobs=0, factor=factor) and quota.workers != 0:
        return
    over = excess(quota, needs, held=NOTHING, jobs=0, factor=factor)
    if quota.workers == 0:
        over.append(Excess(code="quota-workers", used=0, asked=1, limit=0, unit="workers"))
    plain = {one.code: one.limit for one in excess(quota, needs, held=NOTHING, jobs=0)}
    faults = [Fault(_FIELDS.get(one.code, "spec"), _too_much(one, plain.get(one.code, one.limit))) for one in over]
    raise Invalid(
        f"more than tenant {tenant.id!r} may ever hold",
        code="exceeds-quota",
        faults=faults,
        hint=f"ask for less, or have the quota raised: {raising(tenant.id, over, factor=factor)}",
    )


def check_door(
    tenant: Tenant, usage: Usage, needs: Resources, now: Millis, *, factor: int, typical: Callable[[], Millis]
) -> None:
    """OverLimit, with the numbers and what opens it: a moment, the end of a job, or no waiting. `factor`: of the quota, while a
    burst session is open.

    `typical`: how long its runs usually take, from which the time of the next release is guessed.
    """
    quota = tenant.quota
    month = _month_full(quota.jobs_per_month, usage, now) if quota.jobs_per_month is not None else None
    spent = money_spent(tenant, usage, now)
    if month is not None or spent is not None:
        raise _used_up(tenant, month, spent, now)
    if tenant.policy is not _REJECT:
        if usage.queued >= quota.queued_max:
            full = Excess(code="queue-full", used=usage.queued, asked=1, limit=quota.queued_max, unit="queued jobs")
            if not quota.queued_max:
                raise _refused(tenant, [full], _NO_WAITING, _NEVER_SECONDS)
            raise _until_one_goes(tenant, [full], usage, typical(), goes="has started")
    elif not fits(quota, needs, held=usage.asked, jobs=usage.jobs, factor=factor):
        over = excess(quota, needs, held=usage.asked, jobs=usage.jobs, factor=factor)
        raise _until_one_goes(tenant, over, usage, typical(), goes="is over", factor=factor)


def fits(quota: Quota, needs: Resources, *, held: Resources, jobs: int, factor: int = SHARE) -> bool:
    """One more job of these needs, within `factor` thousandths of the quota."""
    limit = quota.resources
    if limit is not None and (
        (held.cpu_millis + needs.cpu_millis) * SHARE > limit.cpu_millis * factor
        or (held.memory_bytes + needs.memory_bytes) * SHARE > limit.memory_bytes * factor
        or (held.gpus + needs.gpus) * SHARE > limit.gpus * factor
    ):
        return False
    return quota.jobs is None or (jobs + 1) * SHARE <= quota.jobs * factor


def excess(quota: Quota, needs: Resources, *, held: Resources, jobs: int, factor: int = SHARE) -> list[Excess]:
    """What does not fit, in the order people care about."""
    found: list[Excess] = []

    def look(code: str, used: int, asked: int, limit: int, unit: str) -> None:
        allowed = limit * factor // SHARE
        if used + asked > allowed:
            found.append(Excess(code=code, used=used, asked=asked, limit=allowed, unit=unit))

    limit = quota.resources
    if limit is not None:
        look(code="quota-gpu", used=held.gpus, asked=needs.gpus, limit=limit.gpus, unit="GPUs")
        look(code="quota-cpu", used=held.cpu_millis, asked=needs.cpu_millis, limit=limit.cpu_millis, unit=MILLICORES)
        look(
            code="quota-memory",
            used=held.memory_bytes,
            asked=needs.memory_bytes,
            limit=limit.memory_bytes,
            unit=BYTES,
        )
    if quota.jobs is not None:
        look(code="quota-jobs", used=jobs, asked=1, limit=quota.jobs, unit="jobs")
    return found


def money_spent(tenant: Tenant, usage: Usage, now: Millis) -> UsedUp | None:
    """The limit on money that is reached, and the moment it opens again; of two the one that is shut for longer."""
    most = tenant.quota.cost_per_day
    day: UsedUp | None = None
    if most is not None:
        spent = usage.spent_on(day_of(now), now)
        if spent >= most:
            opens_at = next_day(now) if most else None
            day = Excess(code="cost-per-day", used=spent, asked=0, limit=most, unit=MICROS), opens_at
    budget = tenant.budget
    if budget is not None and budget.is_hard and (day is None or most):
        spent = usage.spent_in(month_of(day_of(now)), now)
        if spent >= budget.per_month:
            most = budget.per_month
            return Excess(code="budget-spent", used=spent, asked=0, limit=most, unit=MICROS), next_month(now)
    return day


def sentence(one: Excess) -> str:
    _, _, asked = amounts((one.limit, one.used, one.asked), one.unit)[0]
    said = f"{one.code}: {used_of(one)} used"
    return f"{said}, {asked} more asked for" if one.asked else said


def used_of(one: Excess) -> str:
    (limit, used, _), unit = amounts((one.limit, one.used, one.asked), one.unit)
    return f"{used} of {limit} {unit}".rstrip()


def _month_full(most: int, usage: Usage, now: Millis) -> UsedUp | None:
    accepted = usage.accepted_in(month_of(day_of(now)))
    if accepted < most:
        return None
    full = Excess(code="jobs-per-month", used=accepted, asked=1, limit=most, unit="jobs")
    return full, next_month(now) if most else None


def _used_up(tenant: Tenant, month: UsedUp | None, spent: UsedUp | None, now: Millis) -> OverLimit:
    """By the one that is shut for longest: nobody is sent away until a moment at which another refuses."""
    reached = [one for one in (month, spent) if one is not None]
    over, opens_at = max(reached, key=lambda one: (one[1] is None, one[1] or 0))
    if opens_at is None:
        return _refused(tenant, [over], _NO_WAITING, _NEVER_SECONDS)
    seconds = _seconds(opens_at - now)
    return _refused(tenant, [over], f"try again in {spoken(seconds)}, or", seconds)


def _until_one_goes(
    tenant: Tenant, over: list[Excess], usage: Usage, typical: Millis, *, goes: str, factor: int = SHARE
) -> OverLimit:
    """A time is guessed only where something runs: what waits or is suspended may do so for ever."""
    seconds = min(_RETRY_MAX_SECONDS, _seconds(typical // max(1, usage.runs)))
    guess = f", perhaps in {spoken(seconds)}" if usage.runs else ""
    opens = f"it opens when one of its jobs {goes} or is cancelled{guess}, or"
    return _refused(tenant, over, opens, seconds, factor=factor)


def _refused(
    tenant: Tenant, over: list[Excess], opens: str, retry_after_seconds: int, *, factor: int = SHARE
) -> OverLimit:
    """`opens`: what does, for a person to read. The seconds are for programs, which are always told some."""
    return OverLimit(
        f"tenant {tenant.id!r} is at its limit: " + "; ".join(map(sentence, over)),
        code=over[0].code,
        limits=over,
        retry_after_seconds=retry_after_seconds,
        hint=f"{opens} have the limit raised: {raising(tenant.id, over, factor=factor)}",
    )


def _too_much(one: Excess, plain: int) -> str:
    """`plain`: the quota as it is outside a burst."""
    (asked, quota, in_burst), unit = amounts((one.asked, plain, one.limit), one.unit)
    unit = unit.removesuffix("s") if asked == "1" else unit
    also = f", {in_burst} in burst" if in_burst != quota else ""
    return f"asks for {asked} {unit}; the quota is {quota}{also}"


def _seconds(span: int) -> int:
    return max(1, -(-span // 1000))
