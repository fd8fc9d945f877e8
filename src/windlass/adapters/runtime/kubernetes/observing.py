"""What a job object's status says of a run. Pure; the runtime fetches, this reads.

The operator gives a job its end only when its log is sealed, so an end that is seen here is one after the last line.
"""

from typing import Final

from windlass.adapters.runtime.kubernetes.objects import read_token
from windlass.core.model.ids import Millis, RunId
from windlass.ports.runtime import Observed, Phase
from windlass.wire.kube.names import Document
from windlass.wire.kube.status import read_time

OVER: Final = ("Succeeded", "Failed")
_PLAIN: Final = frozenset({"Completed", "ExitCode", "OOMKilled"})
"""Ends that an exit code says enough of."""
_QUIET: Final = frozenset({"", "Starting", "Suspended", "ContainerCreating", "PodInitializing"})


def observed(run: RunId, job: Document) -> Observed:
    status, token = job.get("status", {}), read_token(job)
    phase, reason, message = status.get("phase"), status.get("reason", ""), status.get("message", "")
    started, finished = read_time(status.get("startedAt")), read_time(status.get("finishedAt"))
    if phase in OVER and (started is not None or phase == "Succeeded"):
        return Observed(
            run=run,
            phase=Phase.EXITED,
            token=token,
            exit_code=status.get("exitCode"),
            is_oom=reason == "OOMKilled",
            ran_ms=_span(started, finished),
            started_wall=_seconds(started),
            finished_wall=_seconds(finished),
            error="" if reason in _PLAIN else _own_words(message),
            reason="" if reason in _PLAIN else reason,
        )
    if phase in OVER:
        words = _own_words(message) or reason
        return Observed(run=run, phase=Phase.CREATED, token=token, error=words, reason=reason)
    if phase == "Running":
        return Observed(run=run, phase=Phase.RUNNING, token=token, started_wall=_seconds(started))
    is_released = not job.get("spec", {}).get("suspend", False)
    waits_for = f"{reason}: {message}" if is_released and reason not in _QUIET else ""
    return Observed(run=run, phase=Phase.CREATED, token=token, waits_for=waits_for)


def is_settled(seen: Observed) -> bool:
    """Nothing more will become of it."""
    return seen.phase in (Phase.EXITED, Phase.ABSENT) or bool(seen.error)


def _own_words(message: str) -> str:
    """Without the end of the log, which the operator appends; the agent has it from the log itself."""
    return message.partition("; its last lines:\n")[0]


def _span(started: Millis | None, finished: Millis | None) -> Millis:
    """Kubernetes tells whole seconds; one that ran did not run for nothing."""
    return Millis(max(1, finished - started)) if started is not None and finished is not None else Millis(0)


def _seconds(at: Millis | None) -> float | None:
    return None if at is None else at / 1000
