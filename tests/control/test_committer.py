"""Decisions on their way to the disk: in order, together, and taken back when the store says no."""

from collections.abc import Callable, Sequence

import anyio
import pytest

from windlass.control.brain import rebuild
from windlass.control.committer import Committer
from windlass.control.leadership import take_epoch
from windlass.core.errors import Unavailable
from windlass.core.model.ids import LOCAL_TENANT, Millis
from windlass.core.model.job import Job
from windlass.core.model.tenant import Tenant
from windlass.core.world.place import place
from windlass.core.world.policy import Policy
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.ports.failpoints import NONE
from windlass.ports.store import Deposed, Expect, Limits, Refused, Unknown, Write
from windlass.testing.builders import a_job_id, a_node, a_submission
from windlass.testing.store import MemoryStore

pytestmark = pytest.mark.anyio
NOW = Millis(5_000_000)


class StillClock:
    def now(self) -> Millis:
        return NOW

    def wall(self, at: Millis) -> float:
        return at / 1000

    async def sleep_until(self, at: Millis) -> None:
        await anyio.lowlevel.checkpoint()


class ScriptedStore(MemoryStore):
    """Fails the next commits as told: a callable gets the real commit and may or may not run it before raising."""

    def __init__(self) -> None:
        super().__init__(limits=Limits(operations=20_000, bytes=32 << 20))
        self.script: list[Exception | Callable[[], Exception]] = []
        self.executes_before_failing = False
        self.commits = 0

    async def commit(self, writes: Sequence[Write], expect: Sequence[Expect] = ()) -> int:
        self.commits += 1
        if not self.script:
            return await super().commit(writes, expect)
        error = self.script.pop(0)
        if self.executes_before_failing:
            await super().commit(writes, expect)
        raise error if isinstance(error, Exception) else error()


async def a_leader(store: MemoryStore) -> tuple[World, Committer]:
    epoch, fence = await take_epoch(store)
    world, revision, marked_at = await rebuild(store, epoch=epoch, policy=Policy())
    return world, Committer(world, store, StillClock(), NONE, fence=fence, revision=revision, marked_at=marked_at)


async def settled(world: World, committer: Committer) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(committer.run)
        await committer.durable(world.number)
        tasks.cancel_scope.cancel()


def prepare(world: World) -> None:
    world.set_tenant(Tenant(id=LOCAL_TENANT), now=NOW)
    world.set_node(a_node(cpu=2000), now=NOW)


def accept(world: World) -> Job:
    return submit(world, LOCAL_TENANT, a_submission(), job=a_job_id(), now=NOW)[0]


async def test_decisions_made_together_share_a_commit() -> None:
    store = ScriptedStore()
    world, committer = await a_leader(store)
    prepare(world)
    for _ in range(50):
        accept(world)
    before = store.commits
    await settled(world, committer)
    assert store.commits == before + 1


async def test_a_world_rebuilt_from_the_store_places_the_same_jobs_in_the_same_order() -> None:
    store = ScriptedStore()
    world, committer = await a_leader(store)
    prepare(world)
    jobs = [accept(world) for _ in range(5)]
    place(world, now=NOW)
    await settled(world, committer)
    again, _ = await a_leader(store)
    assert again.tables.jobs == world.tables.jobs
    assert again.tables.runs == world.tables.runs
    again.set_node(a_node("n2", cpu=8000), now=NOW)
    assert [run.job for run in place(again, now=NOW)] == [job.id for job in jobs[2:]]


async def test_a_refused_commit_is_taken_back_and_said_to_who_waits() -> None:
    store = ScriptedStore()
    world, committer = await a_leader(store)
    prepare(world)
    await settled(world, committer)
    job = accept(world)
    store.script = [Refused("disk full")]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(committer.run)
        with pytest.raises(Unavailable):
            await committer.durable(world.number)
        assert job.id not in world.tables.jobs
        assert len(world.tables.queue) == 0
        later = accept(world)
        await committer.durable(world.number)
        tasks.cancel_scope.cancel()
    again, _ = await a_leader(store)
    assert set(again.tables.jobs) == {later.id}


async def test_after_a_refusal_a_verb_that_changes_nothing_does_not_wait_for_ever() -> None:
    store = ScriptedStore()
    world, committer = await a_leader(store)
    prepare(world)
    await settled(world, committer)
    accept(world)
    store.script = [Refused("disk full")]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(committer.run)
        with pytest.raises(Unavailable):
            await committer.durable(world.number)
        with anyio.fail_after(120):
            number = world.set_tenant(Tenant(id=LOCAL_TENANT), now=NOW)
            assert await committer.durable(number) > 0
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("was_executed", [True, False])
async def test_an_uncertain_commit_is_judged_by_what_the_store_holds(was_executed: bool) -> None:
    store = ScriptedStore()
    world, committer = await a_leader(store)
    prepare(world)
    await settled(world, committer)
    job = accept(world)
    store.script, store.executes_before_failing = [Unknown("timed out")], was_executed
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(committer.run)
        if was_executed:
            await committer.durable(world.number)
        else:
            with pytest.raises(Unavailable):
                await committer.durable(world.number)
        tasks.cancel_scope.cancel()
    assert (job.id in world.tables.jobs) is was_executed
    again, _ = await a_leader(store)
    assert (job.id in again.tables.jobs) is was_executed


async def test_a_deposed_leader_writes_nothing_and_stops() -> None:
    store = ScriptedStore()
    old_world, old = await a_leader(store)
    prepare(old_world)
    await settled(old_world, old)
    await take_epoch(store)
    job = accept(old_world)
    with pytest.raises(BaseExceptionGroup) as stopped:
        await settled(old_world, old)
    assert stopped.group_contains(Deposed, depth=1) or stopped.group_contains(Deposed)
    again, _ = await a_leader(store)
    assert job.id not in again.tables.jobs


async def test_only_durable_entries_reach_the_listeners_and_in_order() -> None:
    store = ScriptedStore()
    world, committer = await a_leader(store)
    prepare(world)
    heard: list[int] = []
    committer.listen(lambda entries, _: heard.extend(entry.number for entry in entries))
    accept(world)
    assert heard == []
    await settled(world, committer)
    assert heard == sorted(heard)
    assert heard[-1] == world.number


async def test_a_large_backlog_is_written_in_commits_that_respect_the_limits() -> None:
    store = MemoryStore(limits=Limits(operations=100, bytes=1 << 20))
    world, committer = await a_leader(store)
    prepare(world)
    for _ in range(500):
        accept(world)
    await settled(world, committer)
    again, _ = await a_leader(store)
    assert len(again.tables.jobs) == 500


async def test_a_backlog_of_large_jobs_is_written_in_commits_that_respect_the_size() -> None:
    store = MemoryStore(limits=Limits(operations=10_000, bytes=64 << 10))
    world, committer = await a_leader(store)
    prepare(world)
    for _ in range(40):
        submit(world, LOCAL_TENANT, a_submission(command=("echo", "x" * 20_000)), job=a_job_id(), now=NOW)
    await settled(world, committer)
    again, _ = await a_leader(store)
    assert len(again.tables.jobs) == 40
