"""What simulation found about commits whose answer never came."""

from collections.abc import Iterator
from functools import partial

import anyio
import pytest

from windlass.adapters.readmodel.sqlite import SqliteReadTables
from windlass.control.brain import Brain, rebuild
from windlass.control.committer import Committer
from windlass.control.leadership import take_epoch
from windlass.control.readmodel import ReadModel, in_place
from windlass.core.errors import Unavailable
from windlass.core.model.ids import LOCAL_TENANT, Millis, TenantId
from windlass.core.model.job import JobState
from windlass.core.model.tenant import Tenant
from windlass.core.world.policy import Policy
from windlass.core.world.records import Table
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.ports.failpoints import NONE
from windlass.ports.store import Store
from windlass.testing.builders import a_job_id, a_node, a_submission
from windlass.testing.store import CALM, Fate, FaultyStore, MemoryStore, Mishap
from windlass.testing.virtual import VirtualClock, VirtualLoop, run_virtual

NOW = Millis(5_000_000)


async def a_leader(store: Store, loop: VirtualLoop) -> tuple[World, Committer]:
    epoch, fence = await take_epoch(store)
    world, revision, marked_at = await rebuild(store, epoch=epoch, policy=Policy())
    clock = VirtualClock(loop)
    return world, Committer(world, store, clock, NONE, fence=fence, revision=revision, marked_at=marked_at)


def late(by_operations: int) -> Iterator[Fate]:
    """The leader key is taken; the first decision is under way for a while."""
    yield CALM
    yield Fate(mishap=Mishap.LATE, late_by_operations=by_operations)


@pytest.mark.parametrize("by_operations", [1, 2, 3, 4, 5])
def test_what_was_said_to_have_changed_nothing_does_not_happen_later(by_operations: int) -> None:
    """Whatever the moment it arrives at: either it is found, or it is shut out for good."""

    async def main(loop: VirtualLoop) -> tuple[bool, bool, bool]:
        store = FaultyStore(MemoryStore(), late(by_operations))
        world, committer = await a_leader(store, loop)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(committer.run)
            was_accepted = True
            try:
                await committer.durable(world.set_tenant(Tenant(id=LOCAL_TENANT), now=NOW))
            except Unavailable:
                was_accepted = False
            for n in range(3):
                await committer.durable(world.set_tenant(Tenant(id=TenantId(f"t{n}")), now=NOW))
            is_there = LOCAL_TENANT in world.tables.tenants
            tasks.cancel_scope.cancel()
        again, _ = await a_leader(store, loop)
        return was_accepted, is_there, LOCAL_TENANT in again.tables.tenants

    was_accepted, is_there, is_stored = run_virtual(main)
    assert was_accepted == is_there == is_stored


def test_a_reader_after_a_restart_does_not_wait_for_a_revision_that_holds_no_decision() -> None:
    async def main(loop: VirtualLoop) -> tuple[bool, float]:
        store, tables = MemoryStore(), SqliteReadTables(":memory:")
        for _ in range(2):
            world, committer = await a_leader(store, loop)
            read_model = ReadModel(tables, store, newest=partial(getattr, committer, "revision"), offload=in_place)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(committer.run)
                tasks.start_soon(read_model.run)
                await committer.durable(world.set_tenant(Tenant(id=LOCAL_TENANT), now=NOW))
                began = loop.time()
                is_fresh = await read_model.caught_up()
                tasks.cancel_scope.cancel()
        return is_fresh, loop.time() - began

    assert run_virtual(main) == (True, 0.0)


def test_commits_gather_for_the_read_model_until_their_time_is_over_or_somebody_looks() -> None:
    async def main(loop: VirtualLoop) -> tuple[float, float, float]:
        store, tables = MemoryStore(), SqliteReadTables(":memory:")
        world, committer = await a_leader(store, loop)
        newest = partial(getattr, committer, "revision")
        read_model = ReadModel(tables, store, newest=newest, offload=in_place, gathering_seconds=10)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(committer.run)
            tasks.start_soon(read_model.run)
            for n in range(3):
                await committer.durable(world.set_tenant(Tenant(id=TenantId(f"t{n}")), now=NOW))
            while tables.revision() < committer.revision:
                await anyio.sleep(1)
            unseen = loop.time()
            await committer.durable(world.set_tenant(Tenant(id=LOCAL_TENANT), now=NOW))
            await anyio.sleep(1)
            assert await read_model.caught_up()
            looked_at = loop.time()
            async with read_model.follow(tenant=None):
                await committer.durable(world.set_tenant(Tenant(id=LOCAL_TENANT, weight=2), now=NOW))
                while tables.revision() < committer.revision:
                    await anyio.sleep(1)
            tasks.cancel_scope.cancel()
        return unseen, looked_at - unseen, loop.time() - looked_at

    assert run_virtual(main) == (10.0, 1.0, 1.0)


def test_what_a_refused_commit_took_back_is_decided_again_soon() -> None:
    """Not at the next safety net, half a minute later."""

    async def main(loop: VirtualLoop) -> float:
        store = FaultyStore(MemoryStore(), iter([CALM] * 4 + [Fate(mishap=Mishap.REFUSED)]))
        world, committer = await a_leader(store, loop)
        brain = Brain(world, committer, VirtualClock(loop), NONE)
        placed = anyio.Event()
        committer.listen(lambda entries, _: placed.set() if any(e.table is Table.RUNS for e in entries) else None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(committer.run)
            await brain.decide(lambda now: world.set_tenant(Tenant(id=LOCAL_TENANT), now=now))
            await brain.decide(lambda now: world.set_node(a_node(), now=now))
            job = submit(world, LOCAL_TENANT, a_submission(), job=a_job_id(), now=brain.clock.now())[0]
            await committer.durable(world.number)
            tasks.start_soon(brain.run)
            await placed.wait()
            tasks.cancel_scope.cancel()
        assert world.tables.jobs[job.id].state is JobState.SCHEDULED
        return loop.time()

    assert 0 < run_virtual(main) < 5
