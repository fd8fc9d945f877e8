"""What must not grow for ever: the outbox, finished jobs past their retention, blobs nobody refers to, the store's history.

TTLs of runs, volumes and keys are not here: they are the World's own, in `core.world.expiry`.
"""

from collections import deque
from collections.abc import Sequence

import anyio
import structlog
from msgspec import Struct

from windlass.control.brain import Brain
from windlass.control.readmodel import ReadModel
from windlass.control.waiting import woken_or_due
from windlass.core.errors import NotFound, Unavailable
from windlass.core.model.calendar import day_of
from windlass.core.model.ids import JobId, Millis
from windlass.core.model.job import JobSpec
from windlass.core.scaling import ScalingStep
from windlass.core.world.entry import Entry
from windlass.core.world.finish import erase
from windlass.core.world.records import (
    Deeds,
    HookOver,
    JobErased,
    JobOver,
    Outgoing,
    RunOver,
    Table,
    VolumeStored,
    WorkerOver,
    decode,
    table_prefix,
)
from windlass.core.world.tokens import forget_tokens
from windlass.ports.blobs import Blobs
from windlass.ports.logs import Logs
from windlass.ports.store import Store

log = structlog.get_logger()

_PAGE = 500
_CAUGHT_UP_SECONDS = 30


class Retention(Struct, frozen=True, kw_only=True):
    outbox_ms: Millis = Millis(86_400_000)
    """Finished records stay in the store this long, for read models that were away."""
    history_ms: Millis = Millis(30 * 86_400_000)
    """Finished jobs, their events and logs."""
    audit_ms: Millis = Millis(365 * 86_400_000)
    costs_ms: Millis = Millis(400 * 86_400_000)
    """What runs cost: a year can be compared with the one before."""
    sweep_ms: Millis = Millis(600_000)
    """Between two rounds."""
    changes_kept: int = 200_000
    """Revisions of the store that a watcher may be behind."""


class Janitor:
    def __init__(
        self, brain: Brain, store: Store, read_model: ReadModel, blobs: Blobs, logs: Logs, retention: Retention
    ) -> None:
        self._brain = brain
        self._store = store
        self._read_model = read_model
        self._blobs = blobs
        self._logs = logs
        self._retention = retention
        self._suspects: frozenset[str] = frozenset()
        self._erased: deque[JobId] = deque()
        self._wake = anyio.Event()

    async def run(self) -> None:
        next_sweep = Millis(self._brain.clock.now() + self._retention.sweep_ms)
        while True:
            await woken_or_due(self._wake, self._brain.clock, next_sweep)
            self._wake = anyio.Event()
            while self._erased:
                await self._logs.forget(self._erased.popleft())
            if self._brain.clock.now() < next_sweep:
                continue
            next_sweep = Millis(self._brain.clock.now() + self._retention.sweep_ms)
            try:
                await self.sweep()
            except Unavailable as error:
                log.warning("janitor.postponed", error=error.message)

    def committed(self, entries: Sequence[Entry], revision: int) -> None:
        """The logs of an erased job go with it; after a crash in between, the next sweep finds them."""
        erased = [entry.new.job for entry in entries if isinstance(entry.new, JobErased)]
        if erased:
            self._erased.extend(erased)
            self._wake.set()

    async def sweep(self) -> None:
        await self._retire_jobs()
        await self._drop_logs()
        await self._empty_outbox()
        await self._forget_tokens()
        await self._read_model.forget_audit(Millis(self._brain.clock.now() - self._retention.audit_ms))
        await self._drop_blobs()
        await self._read_model.forget_scaling(Millis(self._brain.clock.now() - self._retention.history_ms))
        await self._read_model.drop_costs(day_of(Millis(self._brain.clock.now() - self._retention.costs_ms)))
        await self._store.compact(max(0, await self._store.revision() - self._retention.changes_kept))

    async def _retire_jobs(self) -> None:
        """History past its retention is erased as if its owner had deleted it; not while a run is kept for longer than that."""
        before = Millis(self._brain.clock.now() - self._retention.history_ms)
        kept = set[JobId]()
        while True:
            views = await self._read_model.jobs_over_before(before, limit=_PAGE + len(kept))
            jobs = [view.job for view in views if view.job.id not in kept]
            if not jobs:
                return
            kept |= {job.id for job in jobs if self._has_kept_run(job.id)}
            jobs = [job for job in jobs if job.id not in kept]
            if not jobs:
                continue

            def verb(now: Millis, jobs: list = jobs) -> None:  # type: ignore[type-arg]
                world = self._brain.world
                with world.decision(now):
                    for job in jobs:
                        erase(
                            world, job.id, job.tenant, name=job.name, volume=job.volume_id, with_volume=False, now=now
                        )

            _, revision = await self._brain.decide(verb)
            if not await self._read_model.caught_up(revision, timeout=_CAUGHT_UP_SECONDS):
                return

    def _has_kept_run(self, job: JobId) -> bool:
        """One whose time-to-live has not passed: its timer ends it, nobody else."""
        return any(run.keep_until is not None for run in self._brain.world.runs_of(job))

    async def _forget_tokens(self) -> None:
        clock = self._brain.clock

        def verb(now: Millis) -> int:
            return forget_tokens(self._brain.world, wall_seconds=clock.wall(now), now=now)

        await self._brain.decide(verb)

    async def _drop_logs(self) -> None:
        """Logs of jobs that neither the World nor the history knows."""
        if not await self._read_model.caught_up(timeout=_CAUGHT_UP_SECONDS):
            return  # it may not know yet of a job that is over
        for job in await self._logs.jobs():
            if job in self._brain.world.tables.jobs:
                continue
            try:
                await self._read_model.find_job(None, job)
            except NotFound:
                await self._logs.forget(job)

    async def _empty_outbox(self) -> None:
        prefix, start = table_prefix(Table.OUTBOX), ""
        before = self._brain.clock.now() - self._retention.outbox_ms
        while True:
            snapshot = await self._store.range(prefix, start=start, limit=_PAGE)
            if not snapshot.items:
                return
            start = snapshot.items[-1].key
            old = [
                item.key[len(prefix) :]
                for item in snapshot.items
                if item.modified <= self._read_model.revision and _over_at(decode(Table.OUTBOX, item.value)) < before
            ]
            await self._forget(old)

    async def _forget(self, keys: list[str]) -> None:
        if not keys:
            return

        def verb(now: Millis) -> None:
            world = self._brain.world
            with world.decision(now):
                for key in keys:
                    world.drop(Table.OUTBOX, key)

        await self._brain.decide(verb)

    async def _drop_blobs(self) -> None:
        """A blob goes when two rounds in a row found no job or volume that refers to it: an upload may be between the two."""
        wanted = {item.digest for volume in self._brain.world.tables.volumes.values() for item in volume.inputs}
        for item in (await self._store.range(table_prefix(Table.SPECS))).items:
            spec: JobSpec = decode(Table.SPECS, item.value)
            wanted.update(one.digest for one in spec.inputs)
        unwanted = frozenset(await self._blobs.digests()) - wanted
        for digest in unwanted & self._suspects:
            await self._blobs.delete(digest)
        self._suspects = unwanted - self._suspects


def _over_at(outgoing: Outgoing) -> int:
    match outgoing:
        case JobOver(job=job):
            return job.finished_at or job.since
        case RunOver(run=run):
            return run.ended_at or run.since
        case HookOver(hook=hook):
            return hook.tried_at or hook.not_before
        case JobErased(at=at) | WorkerOver(at=at) | VolumeStored(at=at):
            return at
        case Deeds(records=records):
            return records[-1].at
        case ScalingStep(at=at):
            return at
