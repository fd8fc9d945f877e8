"""The store on one machine: SQLite in etcd's shape. One process, one writer thread, readers beside it.

`sqlite_writer` makes commits durable, `sqlite_statements` holds the SQL, `watching` tells the watchers, `leases` the time.
"""

import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import apsw
import structlog
from anyio import to_thread

from windlass.adapters.store import sqlite_statements as sql
from windlass.adapters.store.commits import Committed
from windlass.adapters.store.leases import Leases
from windlass.adapters.store.sqlite_schema import connect_reader, connect_writer, migrate, migrations
from windlass.adapters.store.sqlite_writer import Writer, disk_full
from windlass.adapters.store.watching import WatchHub
from windlass.core.errors import Unavailable
from windlass.ports.store import Change, Expect, Item, Limits, Refused, Snapshot, Unknown, Write

log = structlog.get_logger(__name__)

T = TypeVar("T")

READERS = 2
"""A long range must not hold up a single get."""
COMPACTION_SLICE = 2_000
TIMER_SECONDS_LEAST = 0.05
ROOM_BYTES_MIN = 1 << 20
"""With less the next commits may still fit, and those after them do not."""


class SqliteStore:
    """Implements `windlass.ports.store.Store`. Made by `open`, usable inside its block."""

    limits = Limits(operations=20_000, bytes=32 << 20)

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, *, monotonic: Callable[[], float] = time.monotonic) -> AsyncIterator["SqliteStore"]:
        """Refused for a file that another process has open, that a newer version wrote, or that is no store."""
        files = await to_thread.run_sync(_Files, path)
        failure: Exception | None = None
        try:
            store = cls(files, monotonic)
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(store._end_leases_in_time, name="store-leases")
                    try:
                        yield store
                    except Exception as exc:
                        # Kept out of the task group, which would wrap it: callers see what they raised.
                        failure = exc
                    tasks.cancel_scope.cancel()
            finally:
                with anyio.CancelScope(shield=True):
                    await store._close()
        finally:
            files.close()
        if failure is not None:
            raise failure

    def __init__(self, files: "_Files", monotonic: Callable[[], float]) -> None:
        revision = sql.read_revision(files.writer)
        self._directory = os.path.dirname(files.writer.filename)
        self._leases = Leases(monotonic, sql.read_leases(files.writer))
        self._leases_changed = anyio.Event()
        self._ending = anyio.Lock()
        self._hub = WatchHub(revision, self._replay)
        self._writer = Writer(files.writer, revision, self._hub.publish)
        self._idle_readers = list(files.readers)
        self._is_closed = False
        self._reading = anyio.CapacityLimiter(len(files.readers))

    async def range(self, prefix: str, *, start: str = "", limit: int = 0) -> Snapshot:
        await self._catch_up()
        return await self._read(partial(sql.read_range, prefix=prefix, start=start, limit=limit))

    async def get(self, key: str) -> Item | None:
        await self._catch_up()
        return await self._read(partial(sql.read_item, key=key))

    async def revision(self) -> int:
        await self._catch_up()
        return self._hub.revision

    async def check_room(self) -> None:
        room = await to_thread.run_sync(os.statvfs, self._directory)
        if room.f_bavail * room.f_frsize < ROOM_BYTES_MIN:
            raise disk_full()

    async def commit(self, writes: Sequence[Write], expect: Sequence[Expect] = ()) -> int:
        if self._leases.due():
            await self._end_due_leases()
        job = partial(sql.commit, writes=writes, expect=expect, limits=self.limits)
        return await self._writer.submit(job, weight=min(len(writes), self.limits.operations) + 1)

    def watch(self, *, after: int, prefix: str = "") -> AbstractAsyncContextManager[AsyncIterator[Sequence[Change]]]:
        return self._hub.watch(after=after, prefix=prefix)

    async def compact(self, before: int) -> None:
        """In slices: commits made meanwhile pass between them. Cancelled half-way it is finished by the next call."""
        before = await self._writer.submit(partial(sql.mark_compacted, before=before))
        while await self._writer.submit(
            partial(sql.drop_history, before=before, commits_max=COMPACTION_SLICE), weight=COMPACTION_SLICE
        ):
            pass

    async def grant(self, ttl_seconds: int) -> int:
        if ttl_seconds < 1:
            raise Refused(f"a lease lasts at least a second, not {ttl_seconds}", code="store-malformed")
        lease = await self._writer.submit(partial(sql.grant, ttl_seconds=ttl_seconds))
        self._leases.add(lease, ttl_seconds)
        self._leases_changed.set()
        return lease

    async def keep_alive(self, lease: int) -> bool:
        return self._leases.keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        await self._writer.submit(partial(sql.end_lease, lease=lease))
        self._leases.forget(lease)

    async def _catch_up(self) -> None:
        """Before reading: nothing may be visible that has expired, or that a crash could still turn round."""
        if self._leases.due():
            await self._end_due_leases()
        if self._writer.in_doubt:
            await self._writer.submit(_nothing)  # whatever comes next settles it first, or is refused

    async def _read(self, query: Callable[[apsw.Connection], T]) -> T:
        if self._is_closed:
            raise Unavailable("the store is closed", code="store-closed")
        return await to_thread.run_sync(self._read_in_thread, query, limiter=self._reading)

    def _read_in_thread(self, query: Callable[[apsw.Connection], T]) -> T:
        connection = self._idle_readers.pop()  # as many as the limiter lets in
        try:
            connection.execute("BEGIN")  # one snapshot for all statements of the query
            try:
                return query(connection)
            finally:
                connection.execute("ROLLBACK")
        except apsw.Error as exc:
            raise Unavailable(f"the store could not read: {exc}", code="store-unreadable") from exc
        finally:
            self._idle_readers.append(connection)

    async def _replay(self, after: int) -> Sequence[Committed]:
        return await self._read(partial(sql.read_log, after=after))

    async def _end_due_leases(self) -> None:
        """Who comes second waits for the first, then finds nothing due."""
        async with self._ending:
            for lease in self._leases.due():
                try:
                    await self.revoke(lease)
                except (Refused, Unknown) as exc:
                    log.warning("store_lease_not_ended", lease=lease, code=exc.code)
                    self._leases.postpone(lease)

    async def _end_leases_in_time(self) -> None:
        """Watchers hear of an end although nobody calls. A clock that jumped is noticed by the next operation."""
        while True:
            self._leases_changed = anyio.Event()
            delay = self._leases.seconds_to_next()
            with anyio.move_on_after(None if delay is None else max(delay, TIMER_SECONDS_LEAST)):
                await self._leases_changed.wait()
            await self._end_due_leases()

    async def _close(self) -> None:
        self._is_closed = True
        self._hub.close()
        self._writer.stop()
        await to_thread.run_sync(self._writer.join)
        for _ in range(READERS):  # whoever still reads ends first
            await self._reading.acquire_on_behalf_of(object())


def _nothing(_tx: sql.Transaction) -> None:
    return None


class _Files:
    """The lock and the connections. Opening may migrate, so it happens in a thread."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(_locked(path.with_name(path.name + "-lock")))
            try:
                self.writer = connect_writer(path)
                stack.callback(self.writer.close)
                migrate(self.writer, migrations())
                self.readers = tuple(connect_reader(path) for _ in range(READERS))
            except apsw.Error as exc:
                raise Refused(f"{path} cannot be opened: {exc}", code="store-unreadable") from exc
            for reader in self.readers:
                stack.callback(reader.close)
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Revisions are counted and watchers told in memory, so a second process would be wrong, not just slow."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise Refused(
                f"another process has {path.name.removesuffix('-lock')} open",
                code="store-locked",
                hint="is Windlass running already on this data directory?",
            ) from exc
        yield
    finally:
        os.close(descriptor)
