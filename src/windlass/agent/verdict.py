"""How a run ended, from what the runtime saw and why it was stopped: the one place where ends get their names."""

from enum import StrEnum
from typing import Final

from windlass.core.errors import WindlassError
from windlass.core.model.assignment import Assignment
from windlass.core.model.exit_code import with_signal
from windlass.core.model.facts import RunEnded, with_tail
from windlass.core.model.run import RunState
from windlass.ports.runtime import ImageUnavailable, Observed, Phase, StartFailed
from windlass.ports.secrets import SecretMissing


class StopCause(StrEnum):
    """Why we ended it ourselves."""

    CANCEL = "Cancelled"
    DEADLINE = "DeadlineExceeded"


LOST_REASONS: Final = frozenset({"PodDeleted", "NodeLost", "Evicted", "NodeRefused"})
"""Of Kubernetes: what was done to a run, not by it."""
HOPELESS: Final = frozenset({"StartFailed", "PodRefused", "Invalid", "VolumeLost", "VolumeTaken", "PodNameTaken"})
"""Why one did not start, where it would not start a second time either."""


_STOPPED: Final = frozenset(str(cause) for cause in StopCause)


def ended(assignment: Assignment, seen: Observed, cause: StopCause | None, tail: str) -> RunEnded:
    """Of a run that was started."""
    if seen.phase is Phase.CREATED and cause is None and seen.reason not in _STOPPED:
        return refused(assignment, seen)
    state, reason, message = _name_end(assignment, seen, cause)
    is_asked_for = reason == StopCause.CANCEL
    if not is_asked_for and (state is not RunState.EXITED or seen.exit_code != 0):
        message = with_tail(message, tail)
    return RunEnded(
        run=assignment.run,
        token=assignment.token,
        state=state,
        exit_code=seen.exit_code,
        reason=reason,
        message=message,
        tail=tail if is_asked_for else "",
        ran_ms=seen.ran_ms,
        cpu_used_ms=seen.cpu_used_ms,
        memory_peak_bytes=seen.memory_peak_bytes,
    )


def _name_end(assignment: Assignment, seen: Observed, cause: StopCause | None) -> tuple[RunState, str, str]:
    if cause is StopCause.DEADLINE:
        limit = (assignment.timeout_ms or 0) / 1000
        return RunState.STOPPED, cause, f"it ran longer than its timeout of {limit:g} s"
    if cause is StopCause.CANCEL:
        return RunState.STOPPED, cause, "cancelled on request"
    if seen.reason in _STOPPED:  # there, and not by us
        return RunState.STOPPED, seen.reason, seen.error or "it was ended where it ran"
    if seen.reason in LOST_REASONS:
        return RunState.LOST, seen.reason, seen.error
    if seen.phase is Phase.ABSENT:
        return (
            RunState.LOST,
            "Vanished",
            "it was ended from outside while it ran: by `windlass down`, or by somebody on the node",
        )
    if seen.is_oom:
        return RunState.EXITED, "OOMKilled", f"it used more memory than its limit of {_mib(assignment)} MiB"
    if seen.exit_code == 0:
        return RunState.EXITED, "Completed", ""
    code = "unknown" if seen.exit_code is None else with_signal(seen.exit_code)
    return RunState.EXITED, "ExitCode", f"exit code {code}"


def never_started(assignment: Assignment, why: WindlassError) -> RunEnded:
    """Of a run that found no image, no command, no device."""
    match why:
        case ImageUnavailable():
            reason, retriable = "ImagePull", why.is_transient
        case SecretMissing():
            reason, retriable = "SecretMissing", False
        case StartFailed():
            reason, retriable = "StartFailed", False
        case _:
            reason, retriable = "CreateFailed", True
    message = f"{why.message}; {why.hint}" if why.hint else why.message
    return RunEnded(
        run=assignment.run,
        token=assignment.token,
        state=RunState.REFUSED,
        reason=reason,
        message=message,
        is_retriable=retriable,
    )


def refused(assignment: Assignment, seen: Observed) -> RunEnded:
    """Of a run that the engine took and then could not start, in the engine's words."""
    reason = seen.reason or "CreateFailed"
    return RunEnded(
        run=assignment.run,
        token=assignment.token,
        state=RunState.REFUSED,
        reason=reason,
        message=seen.error,
        is_retriable=reason not in HOPELESS,
    )


def stopped_before_start(assignment: Assignment) -> RunEnded:
    return RunEnded(
        run=assignment.run,
        token=assignment.token,
        state=RunState.STOPPED,
        reason=StopCause.CANCEL,
        message="cancelled before it started",
    )


def vanished(assignment: Assignment) -> RunEnded:
    """It was let start, and nothing of it is there: it is never started again silently."""
    return RunEnded(
        run=assignment.run,
        token=assignment.token,
        state=RunState.LOST,
        reason="Vanished",
        message="nothing of it is left on its node: it was ended by `windlass down`, or by somebody there",
    )


def _mib(assignment: Assignment) -> int:
    return assignment.spec.needs.memory_bytes >> 20
