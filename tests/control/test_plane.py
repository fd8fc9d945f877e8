"""The loops together, on a fake machine: a job from submission to its end, seen through the read model."""

from collections.abc import AsyncIterator

import anyio
import pytest

from windlass.core.errors import Conflict, NotFound
from windlass.core.model.ids import LOCAL_TENANT, Millis, RunId, TenantId
from windlass.core.model.job import Job, JobState
from windlass.core.model.submission import Idempotency, Submission
from windlass.core.model.views import EventQuery, JobQuery, JobView
from windlass.testing.builders import a_job_id, a_submission
from windlass.testing.plane import MemoryHome, memory_home

pytestmark = pytest.mark.anyio
OTHER = TenantId("other")
DEADLINE_SECONDS = 120


@pytest.fixture
async def home() -> AsyncIterator[MemoryHome]:
    async with memory_home(tenants=(LOCAL_TENANT, OTHER)) as one:
        yield one


async def submitted(home: MemoryHome, submission: Submission) -> Job:
    return (await home.plane.intake.submit(LOCAL_TENANT, submission)).job


async def over(home: MemoryHome, job: Job) -> JobView:
    with anyio.fail_after(DEADLINE_SECONDS):
        async with home.plane.read_model.follow(tenant=LOCAL_TENANT) as changes:
            assert await home.plane.read_model.caught_up()
            view = await home.plane.read_model.find_job(None, job.id)
            if view.job.is_over:
                return view
            async for view in changes:
                if view.job.id == job.id and view.job.is_over:
                    return view
    raise AssertionError("the stream ended")


async def test_a_job_that_exits_0_succeeds_and_its_story_is_told_in_order(home: MemoryHome) -> None:
    job = await submitted(home, a_submission(command=("print", "one", "two")))
    view = await over(home, job)
    assert (view.job.state, view.job.exit_code, view.job.reason) == (JobState.SUCCEEDED, 0, "Completed")
    events = await home.plane.read_model.events(EventQuery(tenants=None, subject=job.id))
    kinds = [event.kind for event in events]
    assert kinds[0] == "Accepted"
    assert kinds[-2:] == ["Running", "Succeeded"]
    entries = [entry.text async for entry in home.plane.logbook.read(view.runs[0].id, follow=True)]
    assert entries == [b"one", b"two"]


async def test_a_failure_carries_its_code_and_the_end_of_its_log(home: MemoryHome) -> None:
    view = await over(home, await submitted(home, a_submission(command=("exit", "3"))))
    assert (view.job.state, view.job.exit_code, view.job.reason) == (JobState.FAILED, 3, "ExitCode")
    assert "exit code 3" in view.job.message


async def test_a_retry_is_a_new_run(home: MemoryHome) -> None:
    view = await over(home, await submitted(home, a_submission(command=("exit", "1"), retries=1)))
    assert [run.attempt for run in view.runs] == [1, 2]
    assert view.runs[0].id != view.runs[1].id


async def test_a_running_job_is_cancelled(home: MemoryHome) -> None:
    job = await submitted(home, a_submission(command=("sleep", "600")))
    await running(home, job)
    await home.plane.intake.cancel(LOCAL_TENANT, job.id)
    assert (await over(home, job)).job.state is JobState.CANCELLED


async def test_a_timeout_ends_a_run(home: MemoryHome) -> None:
    view = await over(home, await submitted(home, a_submission(command=("sleep", "600"), timeout_ms=100)))
    assert (view.job.state, view.job.reason) == (JobState.TIMED_OUT, "DeadlineExceeded")


async def test_the_same_key_gives_the_same_answer(home: MemoryHome) -> None:
    key = Idempotency(key="k", fingerprint="f")
    first = await home.plane.intake.submit(
        LOCAL_TENANT, a_submission(), idempotency=key, render=lambda job, spec: job.id.encode()
    )
    again = await home.plane.intake.submit(
        LOCAL_TENANT, a_submission(), idempotency=key, render=lambda job, spec: b"another"
    )
    assert again.answer == first.job.id.encode()
    assert again.job.id == first.job.id


async def test_concurrent_requests_with_one_key_make_one_job(home: MemoryHome) -> None:
    key = Idempotency(key="k", fingerprint="f")
    seen: set[str] = set()

    async def one() -> None:
        seen.add((await home.plane.intake.submit(LOCAL_TENANT, a_submission(), idempotency=key)).job.id)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(one)
    assert len(seen) == 1


async def test_a_finished_job_cannot_be_cancelled_and_says_why(home: MemoryHome) -> None:
    job = await submitted(home, a_submission())
    await over(home, job)
    with pytest.raises(Conflict) as refusal:
        await home.plane.intake.cancel(LOCAL_TENANT, job.id)
    assert refusal.value.code == "already-over"


async def test_another_tenant_finds_nothing(home: MemoryHome) -> None:
    job = await submitted(home, a_submission(name="secret"))
    assert await home.plane.read_model.caught_up()
    for ref in (job.id, job.name, job.id[:13]):
        with pytest.raises(NotFound):
            await home.plane.read_model.find_job(OTHER, ref)
    with pytest.raises(NotFound):
        await home.plane.intake.cancel(OTHER, job.id)
    assert (await home.plane.read_model.jobs(JobQuery(tenant=OTHER))).items == ()


async def test_a_deleted_job_is_gone_from_every_list(home: MemoryHome) -> None:
    job = await submitted(home, a_submission(name="gone"))
    await over(home, job)
    revision = await home.plane.intake.delete(LOCAL_TENANT, job.id, with_volume=True)
    assert await home.plane.read_model.caught_up(revision)
    with pytest.raises(NotFound):
        await home.plane.read_model.find_job(LOCAL_TENANT, job.id)
    await submitted(home, a_submission(name="gone"))


async def test_a_list_pages_through_all_jobs_without_gap_or_double(home: MemoryHome) -> None:
    accepted = await home.plane.intake.submit_many(LOCAL_TENANT, [a_submission() for _ in range(25)])
    jobs, revision = accepted.jobs, accepted.revision
    assert await home.plane.read_model.caught_up(revision)
    seen: list[str] = []
    cursor = ""
    while True:
        page = await home.plane.read_model.jobs(JobQuery(tenant=LOCAL_TENANT, limit=7, cursor=cursor))
        seen += [view.job.id for view in page.items]
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert seen == sorted((job.id for job in jobs), reverse=True)


async def test_a_bulk_submission_is_all_or_nothing(home: MemoryHome) -> None:
    good, twin = a_submission(name="a"), a_submission(name="a")
    with pytest.raises(Conflict):
        await home.plane.intake.submit_many(LOCAL_TENANT, [good, twin])
    assert await home.plane.read_model.caught_up()
    assert (await home.plane.read_model.jobs(JobQuery(tenant=LOCAL_TENANT))).items == ()


async def test_nothing_of_a_finished_run_is_left_on_the_machine(home: MemoryHome) -> None:
    job = await submitted(home, a_submission(volume_ttl_ms=0))
    await over(home, job)
    with anyio.fail_after(DEADLINE_SECONDS):
        while home.machine.containers or home.machine.volumes or home.plane.brain.world.tables.volumes:
            await anyio.sleep(0.01)  # the facts awaited: gone from the machine, and the World has heard of it
    assert home.plane.brain.clock.now() > Millis(0)


async def running(home: MemoryHome, job: Job) -> JobView:
    with anyio.fail_after(DEADLINE_SECONDS):
        while True:
            assert await home.plane.read_model.caught_up()
            view = await home.plane.read_model.find_job(None, job.id)
            if view.job.state is JobState.RUNNING:
                return view
            await anyio.sleep(0.01)


async def test_who_follows_a_job_that_is_deleted_comes_to_an_end(home: MemoryHome) -> None:
    job = await submitted(home, a_submission(command=("sleep", "600")))
    view = await running(home, job)
    told: list[JobView] = []

    async def follow_log() -> None:
        async for _ in home.plane.logbook.read(view.runs[0].id, follow=True):
            pass

    async def follow_job() -> None:
        async with home.plane.read_model.follow(tenant=LOCAL_TENANT) as changes:
            async for change in changes:
                if change.job.is_deleted and change.job.is_over:
                    told.append(change)
                    return

    with anyio.fail_after(DEADLINE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow_log)
            tasks.start_soon(follow_job)
            await anyio.sleep(0.05)
            await home.plane.intake.delete(LOCAL_TENANT, job.id, with_volume=True)
        while await home.plane.logbook.jobs():
            await anyio.sleep(0.01)
    assert told[0].job.state is JobState.CANCELLED


async def test_a_sweep_drops_what_nobody_remembers_and_keeps_the_rest(home: MemoryHome) -> None:
    job = await submitted(home, a_submission())
    await over(home, job)
    stray = a_job_id()
    async with home.plane.logbook.writer(RunId(f"{stray}-1")) as writer:
        await writer.seal()
    await home.plane.janitor.sweep()
    assert await home.plane.logbook.jobs() == (job.id,)
    assert (await home.plane.read_model.find_job(None, job.id)).job.id == job.id
