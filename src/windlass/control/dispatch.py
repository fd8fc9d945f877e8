"""What each node should have, kept from durable changes only: a node never acts on a decision that a crash could take back."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import anyio
import structlog
from msgspec.structs import replace

from windlass.control.specs import Specs
from windlass.core.model.assignment import Assignment, Assignments
from windlass.core.model.ids import NodeId, RunId, VolumeId
from windlass.core.model.run import Intent, Run
from windlass.core.model.volume import Volume, VolumeState
from windlass.core.world.journal import Entry
from windlass.core.world.records import Table
from windlass.core.world.world import World
from windlass.ports.failpoints import Failpoints

log = structlog.get_logger()


class _NodeSet:
    def __init__(self) -> None:
        self.runs: dict[RunId, Run] = {}
        self.doomed: set[VolumeId] = set()
        self.changed = anyio.Event()
        self.number = 0


class Dispatch:
    """Fed by the committer; each node's link waits on its own set."""

    def __init__(self, world: World, specs: Specs, failpoints: Failpoints) -> None:
        self._world = world
        self._failpoints = failpoints
        self._specs = specs
        self._sets: defaultdict[NodeId, _NodeSet] = defaultdict(_NodeSet)
        self._made: dict[RunId, Assignment] = {}
        for run in world.tables.runs.values():
            self._sets[run.node].runs[run.id] = run
        for volume in world.tables.volumes.values():
            self._note_volume(None, volume)

    def committed(self, entries: Sequence[Entry], revision: int) -> None:
        touched: set[NodeId] = set()
        for entry in entries:
            if entry.table is Table.RUNS:
                touched.add(self._note_run(cast(Run | None, entry.old), cast(Run | None, entry.new)))
            elif entry.table is Table.VOLUMES:
                touched |= self._note_volume(cast(Volume | None, entry.old), cast(Volume | None, entry.new))
        for node in touched:
            one = self._sets[node]
            one.number = entries[-1].number
            one.changed.set()

    @asynccontextmanager
    async def assignments(self, node: NodeId) -> AsyncIterator[AsyncIterator[Assignments]]:
        yield self._follow(node)

    async def _follow(self, node: NodeId) -> AsyncIterator[Assignments]:
        one = self._sets[node]
        while True:
            one.changed = anyio.Event()
            yield await self._assemble(node, one)
            await self._failpoints.reach("dispatch.after_send")
            await one.changed.wait()

    async def _assemble(self, node: NodeId, one: _NodeSet) -> Assignments:
        live = [await self._assignment(run) for run in list(one.runs.values()) if _is_live(run, one)]
        return Assignments(
            node=node,
            epoch=self._world.epoch,
            number=one.number,
            runs=tuple(live),
            kept=tuple(run.id for run in one.runs.values() if run.intent is Intent.KEEP),
            doomed_volumes=tuple(sorted(one.doomed)),
        )

    async def _assignment(self, run: Run) -> Assignment:
        """Made once per run: all but the intent is fixed when it is placed."""
        made = self._made.get(run.id)
        if made is None:
            made = self._made[run.id] = await self._make(run)
        return made if made.intent is run.intent else replace(made, intent=run.intent)

    async def _make(self, run: Run) -> Assignment:
        job = self._world.tables.jobs[run.job]
        return Assignment(
            run=run.id,
            job=run.job,
            tenant=run.tenant,
            name=job.name,
            token=run.token,
            intent=run.intent,
            volume=job.volume_id,
            attempt=run.attempt,
            spec=await self._specs.get(run.job),
            runtime=job.shape.runtime,
            index=run.index,
            count=job.count,
            gpu_ids=run.gpu_ids,
            timeout_ms=job.timeout_ms,
            grace_ms=job.grace_ms,
        )

    def _note_run(self, old: Run | None, new: Run | None) -> NodeId:
        if new is not None:
            self._sets[new.node].runs[new.id] = new
            return new.node
        assert old is not None, "a run that never was cannot go"
        self._sets[old.node].runs.pop(old.id, None)
        self._made.pop(old.id, None)
        return old.node

    def _note_volume(self, old: Volume | None, new: Volume | None) -> set[NodeId]:
        touched: set[NodeId] = set()
        if old is not None and old.node is not None and old.state is VolumeState.DROPPING and new is None:
            self._sets[old.node].doomed.discard(old.id)
        if new is not None and new.node is not None and new.state is VolumeState.DROPPING:
            self._sets[new.node].doomed.add(new.id)
            touched.add(new.node)
        return touched


def _is_live(run: Run, one: _NodeSet) -> bool:
    """Asked again for each run, because making an assignment may wait for a spec, and runs end meanwhile."""
    return run.id in one.runs and run.intent is not Intent.KEEP
