"""What a runtime that knows more than an exit code says of an end, and what the run's end is called then."""

import pytest
from msgspec.structs import replace

from windlass.agent import verdict
from windlass.agent.verdict import StopCause
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import JobId, Millis, RunId, TenantId, VolumeId
from windlass.core.model.job import JobSpec
from windlass.core.model.resources import Resources
from windlass.core.model.run import Intent, RunState, Token
from windlass.ports.runtime import Observed, Phase

ASSIGNMENT = Assignment(
    run=RunId("j-1"),
    job=JobId("j"),
    tenant=TenantId("acme"),
    name="j",
    token=Token(1, 1),
    intent=Intent.RUN,
    volume=VolumeId("j"),
    attempt=1,
    spec=JobSpec(needs=Resources(cpu_millis=100, memory_bytes=64 << 20)),
)


@pytest.mark.parametrize(
    ("phase", "reason", "cause", "state", "told"),
    [
        (Phase.EXITED, "NodeLost", None, RunState.LOST, "NodeLost"),
        (Phase.EXITED, "PodDeleted", None, RunState.LOST, "PodDeleted"),
        (Phase.EXITED, "DeadlineExceeded", None, RunState.STOPPED, "DeadlineExceeded"),
        (Phase.EXITED, "DeadlineExceeded", StopCause.CANCEL, RunState.STOPPED, "Cancelled"),
        (Phase.CREATED, "ImagePull", None, RunState.REFUSED, "ImagePull"),
        (Phase.CREATED, "Cancelled", StopCause.CANCEL, RunState.STOPPED, "Cancelled"),
    ],
)
def test_an_end_that_the_engine_names_is_told_by_that_name(
    phase: Phase, reason: str, cause: StopCause | None, state: RunState, told: str
) -> None:
    seen = Observed(run=RunId("j-1"), phase=phase, reason=reason, error="in its words")
    end = verdict.ended(ASSIGNMENT, seen, cause, "")
    assert (end.state, end.reason) == (state, told)


def test_what_would_not_start_a_second_time_is_not_tried_again() -> None:
    def refused(reason: str) -> bool:
        seen = Observed(run=RunId("j-1"), phase=Phase.CREATED, reason=reason, error="no")
        return verdict.refused(ASSIGNMENT, seen).is_retriable

    assert (refused("ImagePull"), refused("StartFailed"), refused("Invalid")) == (True, False, False)


@pytest.mark.parametrize(
    ("exit_code", "cause", "said"),
    [
        (0, None, ""),
        (3, None, "exit code 3; its last lines:\nlast"),
        (137, None, "exit code 137 (SIGKILL); its last lines:\nlast"),
        (255, None, "exit code 255; its last lines:\nlast"),
        (143, StopCause.DEADLINE, "it ran longer than its timeout of 2 s; its last lines:\nlast"),
        (0, StopCause.DEADLINE, "it ran longer than its timeout of 2 s; its last lines:\nlast"),
        (143, StopCause.CANCEL, "cancelled on request"),
    ],
)
def test_a_failure_ends_with_the_last_lines_of_its_log(exit_code: int, cause: StopCause | None, said: str) -> None:
    seen = Observed(run=RunId("j-1"), phase=Phase.EXITED, exit_code=exit_code)
    end = verdict.ended(replace(ASSIGNMENT, timeout_ms=Millis(2_000)), seen, cause, "last")
    assert (end.message, end.tail) == (said, "last" if cause is StopCause.CANCEL else "")
