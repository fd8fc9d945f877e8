"""What happened to a job, told from two of its records: also the steps that a single commit hid between them."""

from collections.abc import Iterator

from windlass.core.model.ids import Millis
from windlass.core.model.job import Job
from windlass.core.model.job import JobState as S
from windlass.core.model.views import JobEvent

_KINDS = {
    S.PENDING: "Retried",
    S.SCHEDULED: "Scheduled",
    S.STARTING: "Starting",
    S.RUNNING: "Running",
    S.SUCCEEDED: "Succeeded",
    S.FAILED: "Failed",
    S.TIMED_OUT: "TimedOut",
    S.CANCELLED: "Cancelled",
}


def narrate(old: Job | None, new: Job, *, revision: int) -> Iterator[JobEvent]:
    """Oldest first."""

    def event(kind: str, at: Millis, *, reason: str = "", message: str = "") -> JobEvent:
        return JobEvent(
            revision=revision,
            job=new.id,
            at=at,
            kind=kind,
            reason=reason,
            message=message,
            attempt=new.attempt,
            node=new.node or "",
        )

    if old is None:
        yield event("Accepted", new.created_at, message="suspended until released" if new.is_suspended else "")
    elif old.is_suspended and not new.is_suspended:
        yield event("Released", new.since)
    if new.is_cancelled and (old is None or not old.is_cancelled):
        yield event("CancelAsked", new.since)
    if old is not None and old.state is new.state and old.attempt == new.attempt:
        return
    started = new.started_at
    if new.is_over and started is not None and (old is None or old.started_at is None):
        yield event("Running", started)
    if new.state is not S.PENDING or old is not None:
        yield event(_KINDS[new.state], new.since, reason=new.reason, message=new.message)
