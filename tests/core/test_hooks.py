"""Webhooks as the World owes them: put off, given up, heard, moot; and what is told of each try."""

from msgspec.structs import replace

from windlass.core.happenings import narrate_hook
from windlass.core.model.hook import Hook, HookState
from windlass.core.model.ids import LOCAL_TENANT, JobId, Millis
from windlass.core.world.hooks import TRIES_MAX, hook_key, hook_settled
from windlass.core.world.records import HookOver, Table
from windlass.core.world.requests import cancel, delete
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import a_job_id, a_submission, a_world

NOW = Millis(2_000_000)


def owing() -> tuple[World, JobId]:
    """A job that is over, and somebody to be told."""
    world = a_world()
    job = asked(world)
    cancel(world, LOCAL_TENANT, job, now=NOW)
    return world, job


def asked(world: World) -> JobId:
    submission, job = a_submission(), a_job_id()
    spec = replace(submission.spec, webhook="http://hooks.example/")
    submit(world, LOCAL_TENANT, replace(submission, spec=spec), job=job, now=NOW)
    return job


def went_out(world: World, job: JobId) -> Hook | None:
    left = [one.new for one in world.journal.tail(0) if (one.table, one.key) == (Table.OUTBOX, hook_key(job))]
    return left[-1].hook if left and isinstance(left[-1], HookOver) else None


def test_a_failure_puts_it_off_for_twice_as_long_each_time_until_it_is_given_up() -> None:
    world, job = owing()
    pauses = []
    for tries in range(1, TRIES_MAX):
        tried = hook_settled(world, job, problem="the address answered 500", is_final=False, now=NOW)
        assert tried is not None
        assert (tried.state, tried.tries, tried.tried_at) == (HookState.FAILING, tries, NOW)
        assert world.tables.hooks[job] == tried
        pauses.append(tried.not_before - NOW)
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000]
    last = hook_settled(world, job, problem="the address answered 500", is_final=False, now=NOW)
    assert job not in world.tables.hooks
    assert last == went_out(world, job)
    assert last is not None
    assert (last.state, last.tries) == (HookState.GIVEN_UP, TRIES_MAX)


def test_what_cannot_be_helped_by_trying_is_given_up_at_once() -> None:
    world, job = owing()
    tried = hook_settled(world, job, problem="a private network", is_final=True, now=NOW)
    assert tried is not None
    assert (tried.state, tried.tries, job in world.tables.hooks) == (HookState.GIVEN_UP, 1, False)
    assert hook_settled(world, job, problem="", is_final=False, now=NOW) is None


def test_one_that_was_heard_goes_with_the_last_word_on_it() -> None:
    world, job = owing()
    hook_settled(world, job, problem="", is_final=False, now=NOW)
    heard = went_out(world, job)
    assert heard is not None
    assert (heard.state, heard.tries, heard.problem, job in world.tables.hooks) == (HookState.HEARD, 1, "", False)


def test_of_a_job_that_is_deleted_nobody_is_told() -> None:
    world = a_world()
    job = asked(world)
    delete(world, LOCAL_TENANT, job, with_volume=False, now=NOW)
    assert job not in world.tables.hooks
    assert went_out(world, job) is None


def test_each_try_is_told_once() -> None:
    world = a_world()
    job = world.tables.jobs[asked(world)]
    owed = Hook(job=job.id, url="http://hooks.example/", not_before=NOW)
    failed = replace(owed, tries=1, state=HookState.FAILING, problem="the address answered 500", tried_at=NOW)
    over = replace(failed, tries=2, state=HookState.GIVEN_UP, problem="the address was too slow")
    told = [
        [(event.kind, event.message, event.tenant) for event in narrate_hook(old, new, job, revision=7)]
        for old, new in ((None, owed), (owed, failed), (failed, failed), (failed, over), (over, over))
    ]
    assert told == [
        [],
        [("WebhookFailed", "try 1: the address answered 500", LOCAL_TENANT)],
        [],
        [("WebhookGivenUp", "try 2: the address was too slow", LOCAL_TENANT)],
        [],
    ]
