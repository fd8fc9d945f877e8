"""What each node should have, kept from durable changes only: a node never acts on a decision that a crash could take back."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import anyio
import structlog
from msgspec.structs import replace

from windlass.control.specs import Specs
from windlass.core.distribution.reference import registry_of
from windlass.core.errors import NotFound
from windlass.core.model.assignment import Assignment, Assignments, Slice
from windlass.core.model.ids import JobId, NodeId, RunId, VolumeId
from windlass.core.model.job import Job, JobState
from windlass.core.model.run import Intent, Run
from windlass.core.model.volume import Volume, doomed_on
from windlass.core.world.entry import Entry
from windlass.core.world.ground import SLICE
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

    def change(self, number: int) -> None:
        """Everyone who follows this node's set hears of it, also when two connections of the node overlap."""
        self.number = number
        self.changed.set()
        self.changed = anyio.Event()


class Dispatch:
    """Fed by the committer; each node's link waits on its own set."""

    def __init__(self, world: World, specs: Specs, failpoints: Failpoints) -> None:
        self._world = world
        self._failpoints = failpoints
        self._specs = specs
        self._sets: defaultdict[NodeId, _NodeSet] = defaultdict(_NodeSet)
        self._made: dict[RunId, Assignment] = {}
        self._jobs: dict[JobId, Job] = {}
        """Of the runs here, as they are durable: the World may have let go of a job whose end is not on disk yet."""
        for run in world.tables.runs.values():
            self._sets[run.node].runs[run.id] = run
            if not run.is_over:
                self._jobs[run.job] = world.tables.jobs[run.job]
        for volume in world.tables.volumes.values():
            self._note_volume(None, volume)

    def committed(self, entries: Sequence[Entry], revision: int) -> None:
        touched: set[NodeId] = set()
        for entry in entries:
            if entry.table is Table.RUNS:
                touched |= self._note_run(cast(Run | None, entry.old), cast(Run | None, entry.new))
            elif entry.table is Table.JOBS:
                self._note_job(JobId(entry.key), cast(Job | None, entry.new))
            elif entry.table is Table.VOLUMES:
                touched |= self._note_volume(cast(Volume | None, entry.old), cast(Volume | None, entry.new))
        for node in sorted(touched):
            self._sets[node].change(entries[-1].number)

    @asynccontextmanager
    async def assignments(self, node: NodeId) -> AsyncIterator[AsyncIterator[Assignments]]:
        yield self._follow(node)

    async def _follow(self, node: NodeId) -> AsyncIterator[Assignments]:
        one = self._sets[node]
        while True:
            changed = one.changed
            told = await self._assemble(node, one)
            if told is not None:
                yield told
                await self._failpoints.reach("dispatch.after_send")
            await changed.wait()

    async def _assemble(self, node: NodeId, one: _NodeSet) -> Assignments | None:
        """The set as it is at this moment. None when a run in it has just ended on disk: the set without it comes next."""
        number, runs, doomed = one.number, list(one.runs.values()), tuple(sorted(one.doomed))
        try:
            live = [await self._assignment(run) for run in runs if run.intent is not Intent.KEEP]
        except NotFound:
            return None
        return Assignments(
            node=node,
            epoch=self._world.epoch,
            number=number,
            runs=tuple(live),
            kept=tuple(run.id for run in runs if run.intent is Intent.KEEP),
            doomed_volumes=doomed,
        )

    async def _assignment(self, run: Run) -> Assignment:
        """Made once per run: all but the intent is fixed when it is placed."""
        made = self._made.get(run.id)
        if made is None:
            made = await self._make(run)
            if run.id in self._sets[run.node].runs:  # it may have gone while its spec was read
                self._made[run.id] = made
        return made if made.intent is run.intent else replace(made, intent=run.intent)

    async def _make(self, run: Run) -> Assignment:
        job = self._jobs.get(run.job)
        if job is None:
            raise NotFound(f"job {run.job} is over")
        spec = await self._specs.get(run.job)
        registry, vault = registry_of(spec.image), self._world.tables.vault
        return Assignment(
            run=run.id,
            job=run.job,
            tenant=run.tenant,
            name=job.name,
            token=run.token,
            intent=run.intent,
            volume=job.volume_id,
            attempt=run.attempt,
            spec=spec,
            runtime=job.shape.runtime,
            index=run.index,
            count=job.count,
            gpu_ids=run.gpu_ids,
            timeout_ms=job.timeout_ms,
            grace_ms=job.grace_ms,
            on_lost_node=job.on_lost_node,
            lost_after_ms=job.lost_after_ms,
            node_labels=job.shape.labels,
            has_login=vault.login(run.tenant, registry) is not None,
            is_guarded=vault.is_guarded(registry),
            slice=self._slice(run.node),
        )

    def _slice(self, node: NodeId) -> Slice | None:
        fleet = self._world.tables.fleet
        worker = fleet.workers.get(node)
        pool = fleet.pools.get(worker.pool) if worker is not None else None
        if pool is None or pool.provisioner != SLICE or pool.scaling is None:
            return None
        return Slice(node=node, capacity=pool.scaling.worker)

    def _note_run(self, old: Run | None, new: Run | None) -> set[NodeId]:
        """A run that is over may pass to the machine its worker was on."""
        touched: set[NodeId] = set()
        if old is not None and (new is None or new.node != old.node):
            self._sets[old.node].runs.pop(old.id, None)
            self._made.pop(old.id, None)
            touched.add(old.node)
        if new is not None:
            self._sets[new.node].runs[new.id] = new
            if new.is_over:
                self._made.pop(new.id, None)
            touched.add(new.node)
        return touched

    def _note_job(self, job: JobId, new: Job | None) -> None:
        if new is not None and new.state is not JobState.PENDING:
            self._jobs[job] = new
        else:
            self._jobs.pop(job, None)

    def _note_volume(self, old: Volume | None, new: Volume | None) -> set[NodeId]:
        before = doomed_on(old) if old is not None else frozenset()
        after = doomed_on(new) if new is not None else frozenset()
        for node in before - after:
            self._sets[node].doomed.discard(cast(Volume, old).id)
        for node in after - before:
            self._sets[node].doomed.add(cast(Volume, new).id)
        return set(after - before)
