"""The read model: follows the store's watch into tables of its own and answers every list, search, page and stream from them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, Protocol, TypeVar

import anyio
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from windlass.core.errors import NotFound, Unavailable
from windlass.core.model.audit import AuditPage, AuditQuery
from windlass.core.model.calendar import Day
from windlass.core.model.costs import CostQuery, CostRow, MeteredRun
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.views import Event, EventQuery, JobPage, JobQuery, JobView, VolumeView
from windlass.core.scaling import ScalingStep
from windlass.core.world.records import ROOT
from windlass.ports.readmodel import ReadTables
from windlass.ports.store import Change, Compacted, Store

log = structlog.get_logger()

T = TypeVar("T")
_FOLLOWER_BACKLOG = 1024
PATIENCE_SECONDS: Final = 1.0
"""With a read model that is behind; then a list is answered stale, and says so."""
_COMMITS_TOGETHER = 64


class Offload(Protocol):
    """How a table's verb is called: in its thread, or in place on virtual time."""

    def __call__(self, verb: Callable[[], T]) -> Awaitable[T]: ...


def one_thread() -> Offload:
    """The tables take one caller at a time; a thread of their own keeps them off the brain's loop."""
    limiter = anyio.CapacityLimiter(1)

    async def offload(verb: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(verb, limiter=limiter)

    return offload


async def in_place(verb: Callable[[], T]) -> T:
    return verb()


class ReadModel:
    def __init__(
        self,
        tables: ReadTables,
        store: Store,
        *,
        newest: Callable[[], int],
        offload: Offload,
        writing: Offload | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        gathering_seconds: float = 0,
    ) -> None:
        """`newest` tells the revision of the newest durable decision: what a reader who just wrote must see.

        `writing`: where the tables can be read while they are written, how the writing verbs are called. `gathering_seconds`: how
        long commits may wait for others to be taken in with, while nobody follows and nobody waits for them.
        """
        self._tables = tables
        self._store = store
        self._newest = newest
        self._offload = offload
        self._writing = writing or offload
        self._patience_seconds = patience_seconds
        self._gathering_seconds = gathering_seconds
        self._revision = tables.revision()
        self._advanced = anyio.Event()
        self._waits = 0
        """How many wait for a revision at this moment."""
        self._looked_for = anyio.Event()
        self._followers: dict[MemoryObjectSendStream[JobView], TenantId | None] = {}

    async def run(self) -> None:
        while True:
            try:
                await self._follow_store()
            except* Compacted:
                await self._start_over()

    async def caught_up(self, revision: int | None = None, *, timeout: float | None = None) -> bool:
        """Wait until `revision` (or the newest at this moment) is taken in; False when it is not in time."""
        wanted = self._newest() if revision is None else revision
        with anyio.move_on_after(self._patience_seconds if timeout is None else timeout):
            await self._reach(wanted)
        return self._revision >= wanted

    async def beyond(self, revision: int) -> None:
        """Wait until something after `revision` is taken in."""
        await self._reach(revision + 1)

    @property
    def revision(self) -> int:
        return self._revision

    async def find_job(self, tenant: TenantId | None, ref: str) -> JobView:
        """NotFound is said of all that was durable when it was asked for; while that is not taken in, Unavailable."""
        read, newest = self._revision, self._newest()
        look = partial(self._tables.find_job, tenant, ref)
        try:
            return await self._offload(look)
        except NotFound:
            if read >= newest:
                raise
        if not await self.caught_up(newest):
            raise Unavailable("the read model is behind", code="read-model-behind")
        return await self._offload(look)

    async def jobs(self, query: JobQuery) -> JobPage:
        return await self._offload(partial(self._tables.jobs, query))

    async def events(self, query: EventQuery) -> tuple[Event, ...]:
        return await self._offload(partial(self._tables.events, query))

    async def volumes(self, tenant: TenantId | None) -> tuple[VolumeView, ...]:
        return await self._offload(partial(self._tables.volumes, tenant))

    async def jobs_over_before(self, moment: Millis, *, limit: int) -> tuple[JobView, ...]:
        return await self._offload(partial(self._tables.jobs_over_before, moment, limit=limit))

    async def audit(self, query: AuditQuery) -> AuditPage:
        return await self._offload(partial(self._tables.audit, query))

    async def forget_audit(self, before: Millis) -> None:
        await self._writing(partial(self._tables.forget_audit, before))

    async def costs(self, query: CostQuery) -> tuple[CostRow, ...]:
        return await self._offload(partial(self._tables.costs, query))

    async def metered(self, tenant: TenantId | None, *, since: Day, limit: int) -> tuple[MeteredRun, ...]:
        return await self._offload(partial(self._tables.metered, tenant, since=since, limit=limit))

    async def scaling(self, pool: PoolId, *, before: int | None, limit: int, since: Millis) -> tuple[ScalingStep, ...]:
        return await self._offload(partial(self._tables.scaling, pool, before=before, limit=limit, since=since))

    async def forget_scaling(self, before: Millis) -> None:
        await self._writing(partial(self._tables.forget_scaling, before))

    async def drop_costs(self, before: Day) -> None:
        await self._writing(partial(self._tables.drop_costs, before))

    async def counts(self) -> dict[str, int]:
        return await self._offload(self._tables.counts)

    @asynccontextmanager
    async def follow(
        self, *, tenant: TenantId | None, after: int | None = None
    ) -> AsyncIterator[AsyncIterator[JobView]]:
        """Live changes, newest state per change. A follower too slow for its backlog is ended, and begins again with a list."""
        send, receive = anyio.create_memory_object_stream[JobView](_FOLLOWER_BACKLOG)
        self._followers[send] = tenant
        self._looked_for.set()
        try:
            async with receive:
                yield (view async for view in receive if after is None or view.revision > after)
        finally:
            self._followers.pop(send, None)
            send.close()

    async def _follow_store(self) -> None:
        """Commits that came while others were taken in are taken in together: a transaction costs more than its rows."""
        send, receive = anyio.create_memory_object_stream[Sequence[Change]](_COMMITS_TOGETHER)
        async with (
            self._store.watch(after=self._revision, prefix=ROOT) as commits,
            anyio.create_task_group() as tasks,
            receive,
        ):
            tasks.start_soon(_hand_on, commits, send)
            async for first in receive:
                await self._gather()
                await self._take_in([*first, *_waiting(receive)])

    async def _gather(self) -> None:
        """Of a flood of commits fewer, larger batches cost less by a third. Whoever comes to look ends it at once."""
        if self._gathering_seconds and not self._waits and not self._followers:
            self._looked_for = anyio.Event()
            with anyio.move_on_after(self._gathering_seconds):
                await self._looked_for.wait()

    async def _reach(self, revision: int) -> None:
        if self._revision >= revision:
            return
        self._waits += 1
        self._looked_for.set()
        try:
            while self._revision < revision:
                await self._advanced.wait()
        finally:
            self._waits -= 1

    async def _take_in(self, changes: Sequence[Change]) -> None:
        revision = changes[-1].revision
        changed = await self._writing(partial(self._tables.apply, changes, revision, tells=bool(self._followers)))
        self._advance(revision)
        for view in changed:
            self._tell(view)

    async def _start_over(self) -> None:
        snapshot = await self._store.range(ROOT)
        changes = [Change(revision=item.modified, key=item.key, value=item.value) for item in snapshot.items]
        log.warning("readmodel.reset", missed_from=self._revision, revision=snapshot.revision)
        await self._writing(partial(self._tables.reset, changes, snapshot.revision))
        self._advance(snapshot.revision)

    def _advance(self, revision: int) -> None:
        self._revision = revision
        self._advanced.set()
        self._advanced = anyio.Event()

    def _tell(self, view: JobView) -> None:
        for follower, tenant in list(self._followers.items()):
            if tenant is not None and tenant != view.job.tenant:
                continue
            try:
                follower.send_nowait(view)
            except anyio.WouldBlock:
                self._followers.pop(follower, None)
                follower.close()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._followers.pop(follower, None)


async def _hand_on(commits: AsyncIterator[Sequence[Change]], to: MemoryObjectSendStream[Sequence[Change]]) -> None:
    async with to:
        async for changes in commits:
            await to.send(changes)


def _waiting(stream: MemoryObjectReceiveStream[Sequence[Change]]) -> Iterator[Change]:
    """What is there already; nothing is waited for."""
    with suppress(anyio.WouldBlock):
        for _ in range(_COMMITS_TOGETHER):
            yield from stream.receive_nowait()
