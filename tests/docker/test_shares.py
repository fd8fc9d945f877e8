"""Three tenants of weights 1, 2 and 4 on real containers: each gets its share of what the engine started, in every window."""

import os
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from tests.chaos.witness import Witness
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from windlass.boot.installation import Installation
from windlass.boot.local import Local, open_local
from windlass.boot.settings import load
from windlass.core.model.ids import LOCAL_TENANT, JobId, Millis, TenantId
from windlass.core.model.job import Job, JobState
from windlass.core.model.run import Run
from windlass.core.model.submission import Submission
from windlass.core.model.tenant import Tenant
from windlass.core.world.entry import Entry
from windlass.core.world.records import JobOver, Table
from windlass.testing.builders import a_submission

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

WEIGHTS = {TenantId("one"): 1, TenantId("two"): 2, TenantId("four"): 4}
WINDOW = 100
AT_ONCE = 16
DEADLINE_SECONDS = 400


class Watch:
    """What is on disk: whose each run is, and how each job ended."""

    def __init__(self) -> None:
        self.whose: dict[str, TenantId] = {}
        self.ends: dict[JobId, Job] = {}
        self.changed = anyio.Event()

    def note(self, entries: Sequence[Entry], revision: int) -> None:
        for entry in entries:
            if isinstance(entry.new, Run):
                self.whose[entry.key] = entry.new.tenant
            if entry.table is Table.OUTBOX and isinstance(entry.new, JobOver):
                self.ends[entry.new.job.id] = entry.new.job
        self.changed.set()
        self.changed = anyio.Event()

    async def until_over(self, count: int) -> None:
        with anyio.fail_after(DEADLINE_SECONDS):
            while len(self.ends) < count:
                await self.changed.wait()


def a_short_job(cores: int) -> Submission:
    """A slice of the machine, for two seconds: long beside what a busy machine makes of equal runs."""
    asked = a_submission(image=IMAGE, command=("sleep", "2"), cpu=cores * 1000 // AT_ONCE, memory=8 << 20)
    return replace(asked, expected_ms=Millis(2_200), spec=replace(asked.spec, wants_network=False))


async def serve(local: Local, watch: Watch, jobs: dict[TenantId, int]) -> None:
    """Everything is queued behind one job that holds the machine: then all of them compete from the first start on."""
    plane = local.plane
    world, intake = plane.brain.world, plane.intake
    for tenant, weight in WEIGHTS.items():
        await plane.brain.decide(partial(_set_tenant, local, Tenant(id=tenant, weight=weight * 1000)))
    cores = world.tables.places.capacity.cpu_millis // 1000
    whole = a_submission(image=IMAGE, command=("sleep", "600"), cpu=cores * 1000, memory=8 << 20)
    blocker = await intake.submit(LOCAL_TENANT, whole)
    for tenant, count in jobs.items():
        await intake.submit_many(tenant, [a_short_job(cores)] * count)
    await intake.cancel(LOCAL_TENANT, blocker.job.id)
    await watch.until_over(1 + sum(jobs.values()))


def _set_tenant(local: Local, tenant: Tenant, now: Millis) -> int:
    return local.plane.brain.world.set_tenant(tenant, now=now)


@pytest.mark.parametrize("jobs_a_weight", [24, pytest.param(43, marks=pytest.mark.soak)])
async def test_shares_follow_the_weights_in_every_window_of_starts(
    jobs_a_weight: int, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    jobs = {tenant: weight * jobs_a_weight for tenant, weight in WEIGHTS.items()}
    settings = load({}, {"data_dir": tmp_path, "docker_host": docker_engine.host})
    watch = Watch()
    with Witness(docker_engine) as witness:
        async with (
            open_local(settings, Installation(tmp_path), os.environ) as local,
            anyio.create_task_group() as tasks,
        ):
            local.plane.brain.committer.listen(watch.note)
            tasks.start_soon(local.plane.run)
            tasks.start_soon(local.agent.run)
            await serve(local, watch, jobs)
            tasks.cancel_scope.cancel()
        started = [watch.whose[run] for run in await anyio.to_thread.run_sync(witness.in_order)]
    starts = [tenant for tenant in started if tenant in WEIGHTS]
    mine = [job for job in watch.ends.values() if job.tenant in WEIGHTS]
    assert Counter(job.state for job in mine) == {JobState.SUCCEEDED: sum(jobs.values())}
    assert Counter(starts) == jobs
    for start in range(len(starts) - WINDOW + 1):
        window = Counter(starts[start : start + WINDOW])
        for tenant, weight in WEIGHTS.items():
            share = WINDOW * weight / sum(WEIGHTS.values())
            assert abs(window[tenant] - share) <= 0.1 * share, f"{dict(window)} from start {start} on"
