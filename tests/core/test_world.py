"""The World, one sentence per behaviour."""

import pytest
from msgspec.structs import replace

from windlass.core.errors import Conflict, Denied, Invalid, NotFound
from windlass.core.model.facts import RunEnded, RunProgressed, RunStarted, VolumeGone, VolumeMade
from windlass.core.model.ids import LOCAL_TENANT, JobId, Millis, TenantId, VolumeId
from windlass.core.model.job import Input, Job, JobState
from windlass.core.model.run import Intent, Run, RunState, Token
from windlass.core.model.submission import Idempotency, Submission
from windlass.core.model.volume import VolumeState
from windlass.core.world import requests
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.records import JobErased, JobOver, RunOver, Table, decode, encode
from windlass.core.world.submit import find_replay, submit
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

NOW = Millis(2_000_000)


def accept(world: World, submission: Submission | None = None, *, tenant: TenantId = LOCAL_TENANT) -> Job:
    return submit(world, tenant, submission or a_submission(), job=a_job_id(), now=NOW)[0]


def end(
    run: Run, *, code: int = 0, state: RunState = RunState.EXITED, reason: str = "", retriable: bool = True
) -> RunEnded:
    named = reason or ("Completed" if code == 0 else "ExitCode")
    return RunEnded(
        run=run.id,
        token=run.token,
        state=state,
        exit_code=code,
        reason=named,
        ran_ms=Millis(50),
        is_retriable=retriable,
    )


def last_word(world: World, job: JobId) -> Job:
    """What the history will hold."""
    over = [entry.new for entry in world.journal.entries if entry.table is Table.OUTBOX and entry.key == job]
    assert isinstance(over[-1], JobOver)
    return over[-1].job


def test_jobs_of_a_tenant_are_placed_in_the_order_they_were_accepted() -> None:
    world = a_world(a_node(cpu=2000))
    jobs = [accept(world) for _ in range(3)]
    assert [run.job for run in place(world, now=NOW)] == [jobs[0].id, jobs[1].id]
    assert world.tables.jobs[jobs[2].id].state is JobState.PENDING


def test_a_higher_priority_goes_first() -> None:
    world = a_world(a_node(cpu=1000))
    accept(world)
    urgent = accept(world, a_submission(priority=5))
    assert [run.job for run in place(world, now=NOW)] == [urgent.id]


def test_a_small_job_passes_a_big_one_that_does_not_fit_where_it_cannot_delay_it() -> None:
    world = a_world(a_node(cpu=2000), a_node("n2", cpu=1000))
    accept(world, a_submission(cpu=1500))
    big = accept(world, a_submission(cpu=2000))
    small = accept(world)
    assert small.id in [run.job for run in place(world, now=NOW)]
    assert world.tables.jobs[big.id].state is JobState.PENDING


def test_a_waiting_job_is_placed_as_soon_as_room_grows() -> None:
    world = a_world(a_node(cpu=1000))
    accept(world)
    second = accept(world)
    (run,) = place(world, now=NOW)
    assert place(world, now=NOW) == []
    observe(world, end(run), now=NOW)
    assert [run.job for run in place(world, now=NOW)] == [second.id]


def test_gpus_are_handed_out_by_device_and_come_back() -> None:
    world = a_world(a_node(gpu_ids=("GPU-a", "GPU-b")))
    accept(world, a_submission(gpus=1))
    accept(world, a_submission(gpus=1))
    third = accept(world, a_submission(gpus=1))
    first, second = place(world, now=NOW)
    assert {first.gpu_ids, second.gpu_ids} == {("GPU-a",), ("GPU-b",)}
    observe(world, end(second), now=NOW)
    (run,) = place(world, now=NOW)
    assert (run.job, run.gpu_ids) == (third.id, second.gpu_ids)


def test_a_job_that_fits_nowhere_is_refused_with_every_fault_named() -> None:
    world = a_world(a_node(cpu=1000))
    with pytest.raises(Invalid) as refusal:
        accept(world, a_submission(cpu=9000, gpus=1))
    assert refusal.value.code == "fits-nowhere"
    assert {fault.field for fault in refusal.value.faults} == {"spec.resources.cpu", "spec.resources.gpu"}
    assert "--gpu 0" in (refusal.value.hint or "")
    assert len(world.tables.queue) == 0


def test_an_unknown_tenant_is_denied() -> None:
    with pytest.raises(Denied):
        accept(a_world(), tenant=TenantId("stranger"))


def test_a_refused_submission_leaves_no_trace() -> None:
    world = a_world()
    accept(world, a_submission(name="train"))
    size, number, seq = len(world.journal), world.number, world.tables.seq
    with pytest.raises(Conflict) as refusal:
        accept(world, a_submission(name="train"))
    assert refusal.value.code == "name-taken"
    assert (len(world.journal), world.number, world.tables.seq) == (size, number, seq)


def test_a_name_is_free_again_after_its_job_was_deleted() -> None:
    world = a_world()
    job = accept(world, a_submission(name="train"))
    requests.delete(world, LOCAL_TENANT, job.id, with_volume=False, now=NOW)
    assert accept(world, a_submission(name="train")).name == "train"


def test_a_successful_job_frees_its_room_and_leaves_the_world() -> None:
    world = a_world()
    job = accept(world)
    (run,) = place(world, now=NOW)
    observe(world, RunStarted(run=run.id, token=run.token), now=NOW)
    assert world.tables.jobs[job.id].state is JobState.RUNNING
    observe(world, end(run), now=NOW)
    assert job.id not in world.tables.jobs
    assert run.id not in world.tables.runs
    assert last_word(world, job.id).state is JobState.SUCCEEDED
    assert world.tables.usage[LOCAL_TENANT].runs == 0
    (slot,) = world.tables.places
    assert slot.free == slot.node.capacity


def test_progress_is_shown_while_a_run_is_prepared() -> None:
    world = a_world()
    job = accept(world)
    (run,) = place(world, now=NOW)
    observe(world, RunProgressed(run=run.id, token=run.token, progress="pulling"), now=NOW)
    assert world.tables.jobs[job.id].state is JobState.STARTING
    assert world.tables.runs[run.id].progress == "pulling"


def test_a_result_with_a_stale_token_changes_nothing() -> None:
    world = a_world()
    job = accept(world)
    (run,) = place(world, now=NOW)
    size = len(world.journal)
    stale = RunEnded(run=run.id, token=Token(0, 0), state=RunState.EXITED, exit_code=0)
    observe(world, stale, now=NOW)
    assert len(world.journal) == size
    assert world.tables.jobs[job.id].state is JobState.SCHEDULED


def test_a_second_result_for_the_same_run_changes_nothing() -> None:
    world = a_world()
    job = accept(world)
    (run,) = place(world, now=NOW)
    observe(world, end(run, code=3), now=NOW)
    size = len(world.journal)
    observe(world, end(run, code=0), now=NOW)
    assert len(world.journal) == size
    assert last_word(world, job.id).exit_code == 3


def test_the_reason_of_an_attempt_that_ended_is_not_that_of_the_next() -> None:
    world = a_world()
    job = accept(world, a_submission(retries=1))
    (run,) = place(world, now=NOW)
    observe(world, end(run, code=3), now=NOW)
    waiting = world.tables.jobs[job.id]
    assert (waiting.reason, "attempt 1 of 2 ended" in waiting.message) == ("ExitCode", True)
    expire(world, now=waiting.not_before)
    (run,) = place(world, now=waiting.not_before)
    placed = world.tables.jobs[job.id]
    assert (placed.attempt, placed.reason, placed.message) == (2, "", "")


def test_a_failed_job_is_retried_with_a_growing_backoff_until_its_retries_are_used() -> None:
    world = a_world()
    job = accept(world, a_submission(retries=2))
    now = NOW
    pauses = []
    for _ in range(2):
        (run,) = place(world, now=now)
        observe(world, end(run, code=1), now=now)
        waiting = world.tables.jobs[job.id]
        pauses.append(waiting.not_before - now)
        assert place(world, now=now) == []
        now = waiting.not_before
        expire(world, now=now)
    (run,) = place(world, now=now)
    assert run.attempt == 3
    observe(world, end(run, code=1), now=now)
    over = last_word(world, job.id)
    assert (over.state, over.exit_code, over.reason) == (JobState.FAILED, 1, "ExitCode")
    assert pauses == [1000, 2000]


def test_a_failure_that_cannot_be_mended_is_not_retried() -> None:
    world = a_world()
    job = accept(world, a_submission(retries=5))
    (run,) = place(world, now=NOW)
    observe(world, end(run, state=RunState.REFUSED, reason="ImagePull", retriable=False), now=NOW)
    assert last_word(world, job.id).state is JobState.FAILED


def test_a_run_past_its_deadline_is_not_retried() -> None:
    world = a_world()
    job = accept(world, a_submission(retries=5, timeout_ms=1000))
    (run,) = place(world, now=NOW)
    observe(world, end(run, code=143, state=RunState.STOPPED, reason="DeadlineExceeded"), now=NOW)
    assert last_word(world, job.id).state is JobState.TIMED_OUT


def test_cancelling_a_pending_job_ends_it_at_once() -> None:
    world = a_world()
    job = accept(world)
    requests.cancel(world, LOCAL_TENANT, job.id, now=NOW)
    assert last_word(world, job.id).state is JobState.CANCELLED
    assert place(world, now=NOW) == []


def test_a_cancel_wins_over_a_result_that_comes_after_it() -> None:
    world = a_world()
    job = accept(world, a_submission(retries=3))
    (run,) = place(world, now=NOW)
    requests.cancel(world, LOCAL_TENANT, job.id, now=NOW)
    assert world.tables.runs[run.id].intent is Intent.STOP
    observe(world, end(run, code=0), now=NOW)
    assert last_word(world, job.id).state is JobState.CANCELLED


def test_a_stranger_cannot_cancel() -> None:
    world = a_world(tenants=(LOCAL_TENANT, TenantId("other")))
    job = accept(world)
    with pytest.raises(NotFound):
        requests.cancel(world, TenantId("other"), job.id, now=NOW)


def test_a_suspended_job_waits_until_it_is_released() -> None:
    world = a_world()
    job = accept(world, a_submission(suspended=True))
    assert place(world, now=NOW) == []
    requests.release(world, LOCAL_TENANT, job.id, now=NOW)
    assert [run.job for run in place(world, now=NOW)] == [job.id]


def test_inputs_are_fixed_once_a_job_is_released() -> None:
    world = a_world()
    job = accept(world)
    with pytest.raises(Conflict) as refusal:
        requests.set_spec(world, LOCAL_TENANT, job.id, a_submission().spec, now=NOW)
    assert refusal.value.code == "not-suspended"


def test_a_run_is_kept_for_its_ttl_and_its_volume_waits_for_it() -> None:
    world = a_world()
    job = accept(world, a_submission(run_ttl_ms=20_000, volume_ttl_ms=5_000))
    (run,) = place(world, now=NOW)
    observe(world, VolumeMade(volume=job.volume_id, node=run.node), now=NOW)
    observe(world, end(run), now=NOW)
    assert world.tables.runs[run.id].intent is Intent.KEEP
    expire(world, now=Millis(NOW + 19_999))
    assert run.id in world.tables.runs
    assert world.tables.volumes[job.volume_id].state is VolumeState.PRESENT
    expire(world, now=Millis(NOW + 20_000))
    assert run.id not in world.tables.runs
    expire(world, now=Millis(NOW + 20_000))
    assert world.tables.volumes[job.volume_id].state is VolumeState.DROPPING


def test_a_volume_is_told_to_go_after_its_ttl_and_forgotten_when_it_is_gone() -> None:
    world = a_world()
    job = accept(world, a_submission(volume_ttl_ms=30_000))
    (run,) = place(world, now=NOW)
    observe(world, VolumeMade(volume=job.volume_id, node=run.node), now=NOW)
    observe(world, end(run), now=NOW)
    expire(world, now=Millis(NOW + 29_999))
    assert world.tables.volumes[job.volume_id].state is VolumeState.PRESENT
    expire(world, now=Millis(NOW + 30_000))
    assert world.tables.volumes[job.volume_id].state is VolumeState.DROPPING
    observe(world, VolumeGone(volume=job.volume_id, node=run.node), now=NOW)
    assert job.volume_id not in world.tables.volumes


def test_a_copied_file_is_adopted_by_the_job_of_that_name() -> None:
    world = a_world()
    item = Input(digest="sha256:" + "0" * 64, size=3, path="input.jpg")
    volume = requests.copy_file(world, LOCAL_TENANT, "train", item, volume=VolumeId("v1"), now=NOW)
    job, spec = submit(world, LOCAL_TENANT, a_submission(name="train"), job=a_job_id(), now=NOW)
    assert job.volume_id == volume.id
    assert spec.inputs == (item,)
    assert world.tables.volumes[volume.id].expires_at is None


def test_a_copied_file_nobody_claims_goes_after_its_ttl() -> None:
    world = a_world()
    item = Input(digest="sha256:" + "0" * 64, size=3, path="input.jpg")
    volume = requests.copy_file(world, LOCAL_TENANT, "train", item, volume=VolumeId("v1"), now=NOW)
    assert volume.expires_at is not None
    expire(world, now=volume.expires_at)
    assert volume.id not in world.tables.volumes


def test_a_deleted_live_job_is_cancelled_and_its_history_erased() -> None:
    world = a_world()
    job = accept(world, a_submission(name="train"))
    (run,) = place(world, now=NOW)
    observe(world, VolumeMade(volume=job.volume_id, node=run.node), now=NOW)
    requests.delete(world, LOCAL_TENANT, job.id, with_volume=True, now=NOW)
    observe(world, end(run, code=143, state=RunState.STOPPED), now=NOW)
    newest = [entry.new for entry in world.journal.entries if entry.table is Table.OUTBOX and entry.key == job.id][-1]
    assert isinstance(newest, JobErased)
    assert world.tables.volumes[job.volume_id].state is VolumeState.DROPPING
    assert not world.tables.names


def test_a_used_key_is_found_and_a_different_request_under_it_is_a_conflict() -> None:
    world = a_world()
    key = Idempotency(key="k1", fingerprint="f1")
    job, _ = submit(world, LOCAL_TENANT, a_submission(), job=a_job_id(), now=NOW, idempotency=key)
    known = find_replay(world, LOCAL_TENANT, key)
    assert known is not None
    assert known.job == job.id
    with pytest.raises(Conflict) as refusal:
        find_replay(world, LOCAL_TENANT, Idempotency(key="k1", fingerprint="f2"))
    assert refusal.value.code == "idempotency-mismatch"
    expire(world, now=known.expires_at)
    assert find_replay(world, LOCAL_TENANT, key) is None


def test_a_trial_leaves_everything_as_it_was() -> None:
    world = a_world(a_node(cpu=1000, memory=GIB))
    accept(world)
    waiting = accept(world)
    (run,) = place(world, now=NOW)
    before = (dict(world.tables.jobs), dict(world.tables.runs), world.number, len(world.journal))
    with world.trial(NOW) as trial:
        observe(trial, end(run), now=NOW)
        assert [placed.job for placed in place(trial, now=NOW)] == [waiting.id]
    assert (dict(world.tables.jobs), dict(world.tables.runs), world.number, len(world.journal)) == before
    observe(world, end(run), now=NOW)
    assert [placed.job for placed in place(world, now=NOW)] == [waiting.id]


def test_a_run_that_ended_is_in_the_history_with_its_times() -> None:
    world = a_world()
    accept(world)
    (run,) = place(world, now=NOW)
    observe(world, end(run), now=Millis(NOW + 500))
    (over,) = [entry.new.run for entry in world.journal.entries if isinstance(entry.new, RunOver)]
    assert (over.state, over.ended_at, over.started_at, over.ran_ms) == (RunState.EXITED, NOW + 500, NOW + 450, 50)


def test_equal_shapes_of_a_rebuilt_world_are_one_object() -> None:
    world, again = a_world(), World(epoch=2)
    for _ in range(2):
        accept(world)
    for key, job in world.tables.jobs.items():
        again.load(Table.JOBS, key, decode(Table.JOBS, encode(job)))
    first, second = again.tables.jobs.values()
    assert first.shape is second.shape


def test_a_run_whose_start_was_never_told_did_not_begin_before_it_was_placed() -> None:
    world = a_world(a_node())
    job = accept(world)
    (run,) = place(world, now=NOW)
    observe(world, replace(end(run), ran_ms=Millis(3_600_000)), now=Millis(NOW + 1000))
    assert last_word(world, job.id).started_at == NOW
