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
_FIELDS: Final = {
    "quota-gpu": "spec.resources.gpu",
    "quota-cpu": "spec.resources.cpu",
    "quota-memory": "spec.resources.memory",
}


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
    """OverLimit, with the numbers and when to come back. `factor`: of the quota, while a burst session is open.

    `typical`: how long its runs usually take, from which the time of the next release is guessed.
    """
    quota = tenant.quota
    if quota.jobs_per_month is not None:
        _check_month(tenant, quota.jobs_per_month, usage, now)
    spent = money_spent(tenant, usage, now)
    if spent is not None:
        raise _refused(tenant, [spent[0]], _seconds(spent[1] - now))
    if tenant.policy is not _REJECT:
        if usage.queued >= quota.queued_max:
            full = Excess(code="queue-full", used=usage.queued, asked=1, limit=quota.queued_max, unit="queued jobs")
            raise _refused(tenant, [full], _next_release(usage, typical()))
    elif not fits(quota, needs, held=usage.asked, jobs=usage.jobs, factor=factor):
        over = excess(quota, needs, held=usage.asked, jobs=usage.jobs, factor=factor)
        raise _refused(tenant, over, _next_release(usage, typical()), factor=factor)


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


def money_spent(tenant: Tenant, usage: Usage, now: Millis) -> tuple[Excess, Millis] | None:
    """The limit on money that is reached, and the moment it opens again."""
    most = tenant.quota.cost_per_day
    if most is not None:
        spent = usage.spent_on(day_of(now), now)
        if spent >= most:
            return Excess(code="cost-per-day", used=spent, asked=0, limit=most, unit=MICROS), next_day(now)
    budget = tenant.budget
    if budget is not None and budget.is_hard:
        spent = usage.spent_in(month_of(day_of(now)), now)
        if spent >= budget.per_month:
            most = budget.per_month
            return Excess(code="budget-spent", used=spent, asked=0, limit=most, unit=MICROS), next_month(now)
    return None


def sentence(one: Excess) -> str:
    _, _, asked = amounts((one.limit, one.used, one.asked), one.unit)[0]
    said = f"{one.code}: {used_of(one)} used"
    return f"{said}, {asked} more asked for" if one.asked else said


def used_of(one: Excess) -> str:
    (limit, used, _), unit = amounts((one.limit, one.used, one.asked), one.unit)
    return f"{used} of {limit} {unit}".rstrip()


def _check_month(tenant: Tenant, most: int, usage: Usage, now: Millis) -> None:
    accepted = usage.accepted_in(month_of(day_of(now)))
    if accepted >= most:
        full = Excess(code="jobs-per-month", used=accepted, asked=1, limit=most, unit="jobs")
        raise _refused(tenant, [full], _seconds(next_month(now) - now))


def _refused(tenant: Tenant, over: list[Excess], retry_after_seconds: int, *, factor: int = SHARE) -> OverLimit:
    return OverLimit(
        f"tenant {tenant.id!r} is at its limit: " + "; ".join(map(sentence, over)),
        code=over[0].code,
        limits=over,
        retry_after_seconds=retry_after_seconds,
        hint=f"try again in {spoken(retry_after_seconds)}, or have the limit raised: "
        f"{raising(tenant.id, over, factor=factor)}",
    )


def _too_much(one: Excess, plain: int) -> str:
    """`plain`: the quota as it is outside a burst."""
    (asked, quota, in_burst), unit = amounts((one.asked, plain, one.limit), one.unit)
    unit = unit.removesuffix("s") if asked == "1" else unit
    also = f", {in_burst} in burst" if in_burst != quota else ""
    return f"asks for {asked} {unit}; the quota is {quota}{also}"


def _next_release(usage: Usage, typical: Millis) -> int:
    """So many runs of such length: one of them is over about then."""
    return min(_RETRY_MAX_SECONDS, _seconds(typical // max(1, usage.runs)))


def _seconds(span: int) -> int:
    return max(1, -(-span // 1000))
