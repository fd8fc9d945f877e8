"""How far into its budget is a tenant, and when will it pass the next threshold; the same for one job's own maximum.

Passing is noticed at the moment it happens: the rate of what runs is known, so the moment is, and a timer waits for it. Whatever
changes the rate sets a new one.
"""

from typing import Final

from windlass.core.admission.usage import Usage
from windlass.core.metering import cost_so_far
from windlass.core.model.calendar import Month, day_of, month_of, next_month
from windlass.core.model.ids import Millis
from windlass.core.model.job import Job
from windlass.core.model.money import RATE_SCALE, Micros, rate
from windlass.core.model.run import Intent, Run
from windlass.core.model.spending import BudgetMark, Passed
from windlass.core.model.tenant import SHARE, Budget

WARN_AT: Final = 900
"""Thousandths of a job's maximum: from here it is warned."""


def newly_passed(budget: Budget, mark: BudgetMark | None, usage: Usage, now: Millis) -> tuple[Passed, ...]:
    """Thresholds that were passed and not told yet this month, lowest first."""
    month = month_of(day_of(now))
    spent = usage.spent_in(month, now)
    told = _told(mark, month)
    return tuple(
        Passed(threshold=one, at=now, spent=spent)
        for one in sorted(set(budget.thresholds))
        if one not in told and spent >= amount_at(budget, one)
    )


def still_passed(budget: Budget, mark: BudgetMark, usage: Usage, now: Millis) -> tuple[Passed, ...]:
    """Of what was told this month, maybe of another budget, that which holds for this one."""
    month = month_of(day_of(now))
    spent = usage.spent_in(month, now)
    return tuple(
        one
        for one in (mark.passed if mark.month == month else ())
        if one.threshold in budget.thresholds and spent >= amount_at(budget, one.threshold)
    )


def next_threshold_at(budget: Budget, mark: BudgetMark | None, usage: Usage, now: Millis) -> Millis | None:
    """When the next threshold that was not told is passed or a hard budget stops what runs, if all stays as it is.

    A new month is looked at in any case; None: nothing runs.
    """
    month, speed = month_of(day_of(now)), usage.live.rate(now)
    told = _told(mark, month)
    dues = [amount_at(budget, one) for one in budget.thresholds if one not in told]
    if budget.is_hard and usage.unstopped:
        dues.append(budget.per_month)
    due = min(dues, default=None)
    left = due - usage.spent_in(month, now) if due is not None else None
    if left is not None and left <= 0:
        return now
    if speed <= 0:
        return None
    anew = next_month(now)
    return min(Millis(now - (-left * RATE_SCALE // speed)), anew) if left is not None else anew


def amount_at(budget: Budget, threshold: int) -> Micros:
    return Micros(-(-budget.per_month * threshold // SHARE))


def cost_reached_at(job: Job, run: Run) -> Millis | None:
    """When this run brings the job to its warning or, once warned, to its maximum; None: it does not run, or is being stopped."""
    if job.cost_max is None or run.is_over or run.started_at is None or run.intent is not Intent.RUN:
        return None
    # Rounded up: looked at a micro-unit too early, it would be found well and never looked at again.
    left = (job.cost_max if job.is_cost_warned else -(-job.cost_max * WARN_AT // SHARE)) - job.cost
    if left <= 0:
        return run.started_at
    dear = rate(run.needs, run.prices, factor=run.burst_factor)
    plain = rate(run.needs, run.prices)
    if plain <= 0:
        return None
    in_burst = dear * max(0, (run.burst_until or run.started_at) - run.started_at)
    wanted = left * RATE_SCALE
    if wanted <= in_burst:
        return Millis(run.started_at - (-wanted // dear))
    return Millis(max(run.burst_until or run.started_at, run.started_at) - (-(wanted - in_burst) // plain))


def job_cost(job: Job, run: Run | None, now: Millis) -> Micros:
    """Of all its runs, the live one until now."""
    return Micros(job.cost + (cost_so_far(run, now) if run is not None and not run.is_over else 0))


def _told(mark: BudgetMark | None, month: Month) -> frozenset[int]:
    return frozenset(one.threshold for one in mark.passed) if mark is not None and mark.month == month else frozenset()
