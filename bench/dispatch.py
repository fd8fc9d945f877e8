"""From a placement on disk to the node's new set: woken by the commit, never by a poll."""

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import anyio

from bench.report import Figure, at_most
from windlass.boot.installation import Installation
from windlass.boot.local import Local, open_local
from windlass.boot.settings import load
from windlass.core.model.ids import LOCAL_TENANT, RunId
from windlass.core.world.entry import Entry
from windlass.core.world.records import Table
from windlass.testing.builders import a_submission

JOBS = 200


def main() -> list[Figure]:
    taken = median(anyio.run(measure, backend_options={"use_uvloop": True})) * 1000
    return [at_most("commit → dispatch, median", taken, 10, 1.0, unit="ms", beside="the figure set")]


async def measure() -> list[float]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        settings = load({}, {"data_dir": Path(directory), "runtime": "process"})
        async with open_local(settings, Installation(settings.data_dir), os.environ) as local:
            return await follow(local)


async def follow(local: Local) -> list[float]:
    committed: dict[RunId, float] = {}
    taken: list[float] = []

    def note(entries: Sequence[Entry], revision: int) -> None:
        now = time.perf_counter()
        committed.update({RunId(entry.key): now for entry in entries if entry.table is Table.RUNS})

    plane = local.plane
    plane.brain.committer.listen(note)
    async with anyio.create_task_group() as tasks, plane.dispatch.assignments(local.agent.node) as sets:
        tasks.start_soon(plane.run)
        await anext(sets)
        for _ in range(JOBS):
            asked = a_submission(image="", runtime="process", cpu=1, memory=1 << 20)
            await plane.intake.submit(LOCAL_TENANT, asked)
            told = await anext(sets)
            arrived = time.perf_counter()
            taken += [arrived - committed.pop(one.run) for one in told.runs if one.run in committed]
        tasks.cancel_scope.cancel()
    return taken


if __name__ == "__main__":
    from bench.report import show

    show("dispatch", main())
