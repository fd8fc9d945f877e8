"""Deadlines: a job with an SLA class is to have started once within that time of being accepted, or released.

From 70 % of the time it is at risk, from 90 % critical; past the end it is missed, and as urgent as ever. What urgency does to the
order is the queue's affair: first among its tenant's own, and ahead of the tenant's tag by no more than a lead (`lead_of`).
"""

from enum import IntEnum, StrEnum
from typing import Final

from windlass.core.fairness.account import Virtual
from windlass.core.fairness.ledger import work_of
from windlass.core.model.ids import Millis
from windlass.core.model.job import Job
from windlass.core.model.resources import Resources
from windlass.core.model.tenant import SHARE

AT_RISK: Final = 700
CRITICAL: Final = 900
"""Thousandths of the time a class gives."""
WHOLE: Final = 1000


class Urgency(IntEnum):
    """Each by what it does to the order; see `level`."""

    ON_TIME = 0
    AT_RISK = 1
    CRITICAL = 2
    MISSED = 3

    @property
    def level(self) -> int:
        """As the queue knows it: what is missed stays critical."""
        return min(self, Urgency.CRITICAL)


_FROM: Final = ((WHOLE, Urgency.MISSED), (CRITICAL, Urgency.CRITICAL), (AT_RISK, Urgency.AT_RISK))


def urgency(job: Job, now: Millis) -> Urgency:
    """Of a job that waits. One that has started before, or has no deadline, is never urgent."""
    if job.due_at is None or job.sla_ms is None or job.started_at is not None:
        return Urgency.ON_TIME
    for part, reached in _FROM:
        if now >= _moment(job, part):
            return reached
    return Urgency.ON_TIME


def next_change(job: Job, now: Millis) -> Millis | None:
    """When its urgency will grow; None when it never will."""
    if job.due_at is None or job.sla_ms is None or job.started_at is not None:
        return None
    moments = (_moment(job, part) for part in (AT_RISK, CRITICAL, WHOLE))
    return next((moment for moment in moments if moment > now), None)


def has_missed(job: Job, now: Millis) -> bool:
    """Whether its first start came, or would come now, after its deadline."""
    if job.due_at is None:
        return False
    return (job.started_at if job.started_at is not None else now) > job.due_at


def lead_of(capacity: Resources, window_ms: Millis, cap: int, weights: int) -> Virtual:
    """How far a critical job may go ahead of its tenant's tag: `cap` thousandths of what all nodes give in a window, shared
    among all tenants by weight. So all of them together never borrow more than that."""
    return work_of(capacity, window_ms) * cap // max(weights, SHARE)


def _moment(job: Job, part: int) -> Millis:
    assert job.due_at is not None
    assert job.sla_ms is not None
    return Millis(job.due_at - job.sla_ms * (WHOLE - part) // WHOLE)


class SlaState(StrEnum):
    """As people see it."""

    ON_TIME = "on-time"
    AT_RISK = "at-risk"
    CRITICAL = "critical"
    MISSED = "missed"
    MET = "met"


def sla_state(job: Job, now: Millis) -> SlaState | None:
    """None for a job without a deadline, and for one that ended in time without a start."""
    if job.due_at is None:
        return None
    if job.started_at is not None:
        return SlaState.MISSED if job.started_at > job.due_at else SlaState.MET
    if job.finished_at is not None:
        return SlaState.MISSED if job.finished_at > job.due_at else None
    return _SHOWN[urgency(job, now)]


_SHOWN: Final = {
    Urgency.ON_TIME: SlaState.ON_TIME,
    Urgency.AT_RISK: SlaState.AT_RISK,
    Urgency.CRITICAL: SlaState.CRITICAL,
    Urgency.MISSED: SlaState.MISSED,
}
