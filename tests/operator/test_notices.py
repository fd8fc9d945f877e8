"""What is told of a job's course as events, whatever of it was seen."""

from itertools import pairwise

from msgspec.structs import replace

from windlass.core.model.ephemeral import Course, EphemeralPhase
from windlass.core.model.ids import Millis
from windlass.operator.notices import notices

WAITING = Course(attempt=1, reason="Starting")
BEGUN = replace(WAITING, started_at=Millis(1), node="n1")
RUNNING = replace(BEGUN, phase=EphemeralPhase.RUNNING, reason="Started")
OVER = replace(BEGUN, phase=EphemeralPhase.SUCCEEDED, reason="Completed", finished_at=Millis(2))


def told(*courses: Course) -> list[str]:
    return [notice.reason for old, new in pairwise(courses) for notice in notices(old, new)]


def test_a_run_is_told_to_have_started_once_also_when_nobody_saw_it_running() -> None:
    assert told(WAITING, RUNNING, OVER) == ["Started", "Completed"]
    assert told(WAITING, BEGUN, OVER) == ["Started", "Completed"]
    assert told(WAITING, OVER) == ["Started", "Completed"]
