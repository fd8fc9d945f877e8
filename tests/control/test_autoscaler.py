"""The autoscaler with real loops and real slices on a fake machine: a provider that fails half the time still converges."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from tests.core.pool_home import GROW, a_pool
from windlass.boot.slices import Nodes, Slices
from windlass.control import autoscaler
from windlass.control.autoscaler import in_force
from windlass.control.plane import ControlPlane
from windlass.core.model.ids import LOCAL_TENANT, JobId, Millis, NodeId, PoolId
from windlass.core.model.job import JobState
from windlass.core.model.pool import Schedule
from windlass.core.model.resources import Resources
from windlass.core.model.submission import Submission
from windlass.core.model.tenant import Quota, QuotaPolicy
from windlass.core.scaling import ScalingStep
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.ports.failpoints import NONE
from windlass.ports.provisioner import WorkerOrder
from windlass.testing.builders import GIB, a_job_id, a_submission
from windlass.testing.plane import memory_home
from windlass.testing.provisioner import FlakyProvisioner

pytestmark = pytest.mark.anyio

SMALL = Resources(cpu_millis=500, memory_bytes=256 << 20)
PATIENCE_SECONDS = 90


@dataclass(frozen=True, kw_only=True)
class Home:
    plane: ControlPlane
    slices: Slices
    flaky: FlakyProvisioner

    async def until(self, what: str, fact: object) -> None:
        with anyio.fail_after(PATIENCE_SECONDS):
            while not fact():  # type: ignore[operator]
                await self.plane.brain.clock.sleep_until(Millis(self.plane.clock.now() + 20))

    async def history(self) -> list[ScalingStep]:
        assert await self.plane.read_model.caught_up(timeout=PATIENCE_SECONDS)
        return list(reversed(await self.plane.read_model.scaling(GROW, before=None, limit=1000, since=Millis(0))))


@asynccontextmanager
async def a_home(directory: Path) -> AsyncIterator[Home]:
    slices = Slices(directory / "slices")
    flaky = FlakyProvisioner(slices.provisioner)
    async with memory_home(provisioners={"slice": flaky}) as home, anyio.create_task_group() as tasks:
        plane = home.plane
        slices.nodes = Nodes(
            plane=plane,
            home=plane.brain.world.tables.nodes[NodeId("n1")],
            runtime=plane.runtime,
            blobs=plane.blobs,
            logs=plane.logbook,
            clock=plane.clock,
            failpoints=NONE,
        )
        tasks.start_soon(slices.provisioner.run)
        yield Home(plane=plane, slices=slices, flaky=flaky)
        tasks.cancel_scope.cancel()


async def test_thirty_jobs_bring_a_pool_from_nothing_to_its_maximum_and_back_though_half_of_all_acts_fail(
    tmp_path: Path,
) -> None:
    async with a_home(tmp_path) as home:
        plane = home.plane
        pool = a_pool(
            worker=SMALL,
            cooldown_up_ms=Millis(200),
            cooldown_down_ms=Millis(200),
            down_per_minute=100,
            idle_ms=Millis(1000),
        )
        await plane.pools.create(pool, None)
        world = plane.brain.world
        asked = replace(a_submission(cpu=250, memory=64 << 20), pools=(GROW,))
        for _ in range(30):
            await plane.brain.decide(lambda now: submit(world, LOCAL_TENANT, asked, job=a_job_id(), now=now))
        await home.until("all jobs to end", lambda: not world.tables.jobs)
        await home.until("all workers to be gone", lambda: not world.tables.fleet.workers)
        steps = await home.history()
        assert await home.flaky.list() == ()
        assert set(world.tables.nodes) == {NodeId("n1")}
    assert home.flaky.failed >= 2
    assert 1 <= home.flaky.most <= 3
    sizes = [0]
    for step in steps:
        assert step.verdict.rule
        assert bool(step.verdict.held) or step.verdict.by
        assert len(step.workers) == abs(step.verdict.by)
        sizes.append(sizes[-1] + step.verdict.by)
    assert max(sizes) <= 3
    assert sizes[-1] == 0, "the history explains every step"


async def test_a_pool_grows_for_a_job_that_a_limit_held_when_the_limit_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autoscaler, "_REST_MS", 1000 * PATIENCE_SECONDS * 2)  # by then this test has failed
    async with a_home(tmp_path) as home:
        plane = home.plane
        world = plane.brain.world
        tenant = world.tenant(LOCAL_TENANT)
        await plane.pools.create(a_pool(worker=SMALL), None)
        one_at_a_time = replace(tenant, quota=Quota(jobs=1), policy=QuotaPolicy.QUEUE)
        await plane.brain.decide(lambda now: world.set_tenant(one_at_a_time, now=now))
        here = a_submission(cpu=250, memory=64 << 20, command=("sleep", "600"))
        there = replace(a_submission(cpu=250, memory=64 << 20), pools=(GROW,))
        first, second = a_job_id(), a_job_id()
        for job, asked in ((first, here), (second, there)):
            await plane.brain.decide(partial(_submitted, world, asked, job))
        await home.until("the first to run", lambda: world.tables.jobs[first].state is JobState.RUNNING)
        await home.until("the pool to rest", lambda: plane.autoscaler._rests)
        assert not world.tables.fleet.workers
        await plane.brain.decide(lambda now: world.set_tenant(tenant, now=now))
        await home.until("the second to end", lambda: second not in world.tables.jobs)
        assert (await home.history())[0].verdict.by > 0


async def test_a_pool_made_anew_tells_what_holds_it_though_its_namesake_did(tmp_path: Path) -> None:
    async with a_home(tmp_path) as home:
        plane, world = home.plane, home.plane.brain.world
        by_hand_only = a_pool(worker=SMALL, up_per_minute=0)
        asked = replace(a_submission(cpu=250, memory=64 << 20), pools=(GROW,))
        await plane.pools.create(by_hand_only, None)
        await plane.brain.decide(partial(_submitted, world, asked, a_job_id()))
        await home.until("its wish to be told", lambda: plane.autoscaler._told)
        told = plane.autoscaler._told[GROW]
        await plane.pools.delete(GROW)
        await plane.clock.sleep_until(Millis(plane.clock.now() + 1))
        await plane.pools.create(by_hand_only, None)
        await home.until("the same wish of another pool", lambda: plane.autoscaler._told[GROW] != told)
        first, second = await home.history()
        assert first.verdict == second.verdict


async def test_a_pool_grows_as_a_plan_of_several_jobs_says(tmp_path: Path) -> None:
    """For the first, and then not before its cooldown is over: the autoscaler looks before the second is there."""
    async with a_home(tmp_path) as home:
        plane, world = home.plane, home.plane.brain.world
        await plane.pools.create(a_pool(worker=SMALL, cooldown_up_ms=Millis(3_600_000)), None)
        asked = replace(a_submission(cpu=500, memory=64 << 20, command=("sleep", "600")), pools=(GROW,))
        wanted = [replace(asked, name=name, expected_ms=Millis(7_200_000)) for name in ("first", "second", "third")]
        found = plane.foresight.plan(LOCAL_TENANT, wanted, known={}, check_same=lambda *_: None)
        first, *others = (one.start for one in found.items)
        assert first is not None
        assert [other and other.at - first.at for other in others] == [3_600_000] * 2
        for one in wanted:
            await plane.brain.decide(partial(_submitted, world, one, a_job_id()))
            await home.until("the pool to grow for the first", lambda: world.tables.fleet.workers)
        await home.until("its worker", lambda: world.tables.runs)
        await home.until("the others' wish to be held", lambda: plane.autoscaler._told[GROW].verdict.held)
        steps = await home.history()
    assert [step.verdict.by for step in steps if step.verdict.by] == [1]
    assert {kind for step in steps for kind in step.verdict.holds} == {"cooldown"}


async def test_a_worker_that_nobody_knows_of_is_ended(tmp_path: Path) -> None:
    async with a_home(tmp_path) as home:
        leaked = WorkerOrder(
            worker=NodeId("leak"), pool=PoolId("p"), capacity=Resources(cpu_millis=1, memory_bytes=GIB)
        )
        await home.slices.provisioner.ask(leaked)
        home.plane.autoscaler._leaks_at = Millis(0)
        await home.plane.pools.create(a_pool(worker=SMALL, workers_min=1), None)
        with anyio.fail_after(PATIENCE_SECONDS):
            while "leak" in await home.flaky.list():
                home.plane.autoscaler._leaks_at = Millis(0)
                await home.plane.clock.sleep_until(Millis(home.plane.clock.now() + 50))
        await home.until(
            "the minimum", lambda: any(one.pool == GROW for one in home.plane.brain.world.tables.nodes.values())
        )


def _submitted(world: World, asked: Submission, job: JobId, now: Millis) -> object:
    return submit(world, LOCAL_TENANT, asked, job=job, now=now)


def test_the_schedule_whose_time_came_last_is_in_force() -> None:
    office = (Schedule(cron="0 8 * * 1-5", workers=4), Schedule(cron="0 18 * * 1-5", workers=1))
    assert in_force(office, datetime(2026, 11, 16, 9, tzinfo=UTC)) == 4
    assert in_force(office, datetime(2026, 11, 16, 19, tzinfo=UTC)) == 1
    assert in_force(office, datetime(2026, 11, 15, 12, tzinfo=UTC)) == 1, "since Friday evening"
    assert in_force((), datetime(2026, 11, 15, 12, tzinfo=UTC)) == 0
