"""Pools on this machine, with real slices and real processes: a cold worker, a start beyond the quota, a worker free again."""

import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

import anyio
from msgspec.structs import replace

from bench.report import Figure, at_most
from windlass.boot.installation import Installation
from windlass.boot.local import Local, open_local
from windlass.boot.settings import load
from windlass.core.model.ids import LOCAL_TENANT, JobId, Millis, PoolId, VolumeId
from windlass.core.model.pool import Measure, Pool, PoolKind, Scaling, Trigger
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run
from windlass.core.model.tenant import Quota, QuotaPolicy, Tenant
from windlass.core.world.entry import Entry
from windlass.core.world.records import Table
from windlass.testing.builders import a_submission

COLD, WARM, ROUNDS = 5, 30, 3
GROW = PoolId("grow")
WORKER = Resources(cpu_millis=200, memory_bytes=64 << 20)
BOTH_HELD = Quota(jobs=2)


def main() -> list[Figure]:
    return anyio.run(measure, backend_options={"use_uvloop": True})


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        settings = load({}, {"data_dir": Path(directory), "runtime": "process"})
        async with open_local(settings, Installation(settings.data_dir), os.environ) as local:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(local.run)
                watch = Watch(local, settings.data_dir)
                cold = await cold_starts(watch)
                free = await freed(watch)
                burst, fast = await burst_and_fast(watch)
                with suppress(Exception):
                    await local.plane.runtime.remove_all()
                tasks.cancel_scope.cancel()
    return [
        at_most("cold dynamic worker: submit → start", median(cold), 15, 1.0, unit="s", beside="the figure set"),
        at_most("end of a job → its worker idle", median(free), 200, 1.0, unit="ms", beside="the figure set"),
        at_most("start beyond the quota", median(burst), median(fast), 1.25, unit="ms", beside="within it"),
    ]


class Watch:
    """When what became durable, by the wall."""

    def __init__(self, local: Local, data: Path) -> None:
        self.plane = local.plane
        self.volumes = data / "node" / "process" / "volumes"
        self.volume_of: dict[JobId, VolumeId] = {}
        self.started: dict[JobId, float] = {}
        self.over: dict[JobId, float] = {}
        self._changed = anyio.Event()
        self.plane.brain.committer.listen(self._note)

    async def submit(self, *command: str, pool: PoolId | None = None) -> JobId:
        asked = a_submission(image="", runtime="process", cpu=10, memory=8 << 20, command=command)
        accepted = await self.plane.intake.submit(
            LOCAL_TENANT, replace(asked, pools=(pool,) if pool is not None else ())
        )
        self.volume_of[accepted.job.id] = accepted.job.volume_id
        return accepted.job.id

    async def until(self, fact: object) -> None:
        with anyio.fail_after(120):
            while not fact():  # type: ignore[operator]
                await self._changed.wait()

    def _note(self, entries: Sequence[Entry], revision: int) -> None:
        now = time.time()
        for entry in entries:
            run = entry.new
            if entry.table is Table.RUNS and isinstance(run, Run):
                if run.started_at is not None:
                    self.started.setdefault(run.job, now)
                if run.is_over:
                    self.over.setdefault(run.job, now)
            elif entry.table is Table.RUNS and isinstance(entry.old, Run):
                self.over.setdefault(entry.old.job, now)
        self._changed.set()
        self._changed = anyio.Event()


async def cold_starts(watch: Watch) -> list[float]:
    """From nothing, again and again: the pool is emptied in between."""
    trigger = Trigger(measure=Measure.DEPTH, up=1, down=0, target=1)
    scaling = Scaling(
        workers_max=1,
        worker=WORKER,
        triggers=(trigger,),
        cooldown_up_ms=Millis(0),
        cooldown_down_ms=Millis(0),
        down_per_minute=100,
        up_per_minute=100,
        runs_per_worker=0,
    )
    pool = Pool(id=GROW, kind=PoolKind.DYNAMIC, provisioner="slice", scaling=scaling)
    await watch.plane.pools.create(pool, None)
    workers = watch.plane.brain.world.tables.fleet.workers
    taken = []
    for _ in range(COLD):
        began = time.time()
        job = await watch.submit("true", pool=GROW)
        await watch.until(lambda job=job: job in watch.started)
        taken.append(watch.started[job] - began)
        await watch.until(lambda: not workers)
    return taken


async def freed(watch: Watch) -> list[float]:
    """From the last thing a job does until the World has its worker idle, in milliseconds."""
    await watch.plane.pools.change(GROW, lambda pool, prices: (replace(pool, is_paused=True), prices))
    await watch.plane.pools.scale(GROW, 1)
    taken = []
    for _ in range(WARM):
        job = await watch.submit("sh", "-c", 'date +%s.%N > "$WINDLASS_ARTIFACTS/end"', pool=GROW)
        await watch.until(lambda job=job: job in watch.over)
        end = float((watch.volumes / watch.volume_of[job] / "end").read_text())
        taken.append((watch.over[job] - end) * 1000)
    return taken


async def burst_and_fast(watch: Watch) -> tuple[list[float], list[float]]:
    """The same job beside two that hold the quota, or a part of it; the rounds take turns."""
    plane = watch.plane
    for _ in range(2):
        await watch.submit("sleep", "600")
    within = Tenant(id=LOCAL_TENANT, quota=Quota(jobs=20))
    beyond = Tenant(id=LOCAL_TENANT, quota=BOTH_HELD, policy=QuotaPolicy.BURST)
    taken: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for is_beyond, tenant in ((False, within), (True, beyond)):
            await plane.brain.decide(lambda now, tenant=tenant: plane.brain.world.set_tenant(tenant, now=now))
            taken[is_beyond] += [await one_start(watch) for _ in range(WARM)]
    return taken[True], taken[False]


async def one_start(watch: Watch) -> float:
    began = time.time()
    job = await watch.submit("true")
    await watch.until(lambda: job in watch.over)
    return (watch.started[job] - began) * 1000


if __name__ == "__main__":
    from bench.report import show

    show("pools", main())
