"""How long a job ran, as people are told."""

from windlass.core.model.ids import LOCAL_TENANT, Millis, NodeId, RunId
from windlass.core.model.job import Job
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run, RunState, Token
from windlass.core.model.shape import Shape
from windlass.core.model.views import ran_over
from windlass.testing.builders import a_job_id

BEGAN = Millis(10_000)
JOB = Job(
    id=a_job_id(), tenant=LOCAL_TENANT, name="one", seq=1, shape=Shape(needs=Resources()), created_at=BEGAN, since=BEGAN
)


def a_run(attempt: int, *, ended_at: int | None, ran_ms: int | None) -> Run:
    return Run(
        id=RunId(f"job-{attempt}"),
        job=JOB.id,
        tenant=JOB.tenant,
        node=NodeId("n1"),
        attempt=attempt,
        token=Token(1, attempt),
        needs=Resources(),
        since=BEGAN,
        assigned_at=BEGAN,
        state=RunState.EXITED if ended_at is not None else RunState.RUNNING,
        started_at=BEGAN,
        ended_at=Millis(ended_at) if ended_at is not None else None,
        ran_ms=Millis(ran_ms) if ran_ms is not None else None,
    )


def test_an_end_that_was_heard_of_late_is_no_longer_run() -> None:
    over = a_run(1, ended_at=23_000, ran_ms=8_000)
    assert ran_over(JOB, [over]) == 8_000, "as its node measured it, while nobody listened"


def test_runs_add_up_and_one_that_was_lost_counts_by_its_times() -> None:
    lost, measured, live = (
        a_run(1, ended_at=12_000, ran_ms=None),
        a_run(2, ended_at=15_000, ran_ms=4_500),
        a_run(3, ended_at=None, ran_ms=None),
    )
    assert ran_over(JOB, [lost, measured, live]) == 2_000 + 4_500
