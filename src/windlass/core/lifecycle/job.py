"""How a job moves. Runs come and go below it; only a retry leads back to PENDING."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from windlass.core.errors import Conflict
from windlass.core.model.job import Job
from windlass.core.model.job import JobState as S


class JobEvent(StrEnum):
    PLACED = "placed"
    TAKEN_UP = "taken up"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRIED = "retried"
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"

    __hash__ = str.__hash__  # enum's own is a function in Python, called for every look into a table


E = JobEvent

NEXT: Final[Mapping[tuple[S, JobEvent], S]] = {
    (S.PENDING, E.PLACED): S.SCHEDULED,
    (S.SCHEDULED, E.TAKEN_UP): S.STARTING,
    (S.STARTING, E.TAKEN_UP): S.STARTING,
    (S.SCHEDULED, E.STARTED): S.RUNNING,
    (S.STARTING, E.STARTED): S.RUNNING,
    **{(state, E.SUCCEEDED): S.SUCCEEDED for state in (S.SCHEDULED, S.STARTING, S.RUNNING)},
    **{(state, E.FAILED): S.FAILED for state in (S.PENDING, S.SCHEDULED, S.STARTING, S.RUNNING)},
    **{(state, E.RETRIED): S.PENDING for state in (S.SCHEDULED, S.STARTING, S.RUNNING)},
    **{(state, E.TIMED_OUT): S.TIMED_OUT for state in (S.SCHEDULED, S.STARTING, S.RUNNING)},
    **{(state, E.CANCELLED): S.CANCELLED for state in (S.PENDING, S.SCHEDULED, S.STARTING, S.RUNNING)},
}


def follow(job: Job, event: JobEvent) -> S:
    """The state `event` leads to; a Conflict when the table knows no such step."""
    state = NEXT.get((job.state, event))
    if state is None:
        raise Conflict(f"job {job.name} is {job.state}; it cannot be {event}", code="job-transition")
    return state
