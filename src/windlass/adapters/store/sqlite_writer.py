"""The SQLite store's one writer: a thread that owns the write connection and commits in groups.

Jobs that wait share one transaction and so one fsync. Answers cross back to the event loop once per batch. Which errors
are certain and which are not is decided here:

- A job that fails before its first write (an expectation that does not hold) has left no trace; the batch goes on.
- A later error, or one that says COMMIT could not write everything (full, busy, read-only, a failed write): the transaction
  cannot be in the WAL. It is rolled back and each job tried again in a transaction of its own, so that only the culprit is
  refused. This is what savepoints would be for; they cost a sixth of a small commit, and a full disk takes them along.
- Any other failure of COMMIT, such as a failed fsync, may have left a complete transaction in the WAL: invisible now, but
  there after a crash. The next durable commit overwrites it, so we try one at once. When that succeeds the answer is
  Refused, else Unknown, and until one does nothing else is written and nothing is read (`in_doubt`).
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import apsw
import structlog
from msgspec import Struct

from windlass.adapters.store import sqlite_statements as sql
from windlass.adapters.store.commits import Committed
from windlass.adapters.store.sqlite_schema import BUSY_MILLISECONDS
from windlass.adapters.store.sqlite_statements import Transaction
from windlass.core.errors import Unavailable, WindlassError
from windlass.ports.store import Refused, Unknown

log = structlog.get_logger(__name__)

T = TypeVar("T")
Job = Callable[[Transaction], T]

BATCH_JOBS_MAX = 1_024
BATCH_WEIGHT_MAX = 20_000
"""Writes in one transaction, so that a small commit never waits for more than one large batch."""
WAITING_WEIGHT_MAX = 500_000
"""Writes accepted but not durable yet. Beyond this we refuse instead of growing."""

CHECKPOINT_PAGES = 2_000
RESTART_PAGES = 40_000
"""Readers can keep the WAL from starting over; past this size a checkpoint waits for them a moment."""
RESTART_MILLISECONDS = 200


class _Task(Struct):
    job: Job[Any]
    weight: int
    answer: asyncio.Future[Any]


class _Outcome(Struct):
    task: _Task
    result: Any = None
    error: Exception | None = None


class _RolledBack(Exception):
    """The whole transaction is gone, surely without effect. Its cause says why."""


class Writer:
    def __init__(
        self, connection: apsw.Connection, revision: int, publish: Callable[[Sequence[Committed]], None]
    ) -> None:
        self.in_doubt = False
        """A failed COMMIT may have executed; set by the thread, read by the loop."""
        self._connection = connection
        self._revision = revision
        self._publish = publish
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._waiting_weight = 0
        self._held_over: _Task | None = None
        self._wal_pages = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        connection.set_wal_hook(self._note_wal_pages)
        self._thread.start()

    async def submit(self, job: Job[T], *, weight: int = 1) -> T:
        """Run `job` in the next batch; answers when it is durable. Jobs run in the order of submission."""
        if self._is_closed:
            raise Refused("the store is closed", code="store-closed")
        if self._waiting_weight + weight > WAITING_WEIGHT_MAX:
            raise Refused("too many writes wait for the disk", code="store-overloaded")
        answer: asyncio.Future[T] = self._loop.create_future()
        self._waiting_weight += weight
        self._waiting.put(_Task(job, weight, answer))
        return await answer

    def stop(self) -> None:
        """Take nothing more; what waits is still written."""
        if not self._is_closed:
            self._is_closed = True
            self._waiting.put(None)

    def join(self) -> None:
        """Blocks until the thread has ended: call it in another one."""
        self._thread.join()

    # On the loop: one call per batch.

    def _deliver(self, outcomes: Sequence[_Outcome], committed: Sequence[Committed]) -> None:
        self._publish(committed)
        for outcome in outcomes:
            self._waiting_weight -= outcome.task.weight
            answer = outcome.task.answer
            if answer.done():  # whoever asked was cancelled
                continue
            if outcome.error is None:
                answer.set_result(outcome.result)
            else:
                answer.set_exception(outcome.error)

    # In the thread, from here on.

    def _run(self) -> None:
        while batch := self._gather():
            outcomes, committed = self._write(batch)
            self._loop.call_soon_threadsafe(self._deliver, outcomes, committed)
            self._checkpoint_when_due()

    def _gather(self) -> list[_Task]:
        """Everything that waits, within the batch's bounds; waits for the first. Empty: the end."""
        task, self._held_over = self._held_over, None
        if task is None:
            task = self._waiting.get()
        batch: list[_Task] = []
        weight = 0
        while task is not None:
            weight += task.weight
            if batch and (weight > BATCH_WEIGHT_MAX or len(batch) == BATCH_JOBS_MAX):
                self._held_over = task
                return batch
            batch.append(task)
            try:
                task = self._waiting.get_nowait()
            except queue.Empty:
                return batch
        if batch:  # the end was reached behind them: come back for it
            self._waiting.put(None)
        return batch

    def _write(self, batch: Sequence[_Task]) -> tuple[list[_Outcome], list[Committed]]:
        if self.in_doubt and not self._settle():
            return _all_fail(batch, Refused("the disk does not take writes", code="store-in-doubt")), []
        try:
            return self._write_together(batch)
        except _RolledBack as exc:
            if len(batch) == 1:
                cause = exc.__cause__
                return [_Outcome(batch[0], error=cause if isinstance(cause, WindlassError) else _refused(cause))], []
        except Exception as exc:
            log.error("store_commit_failed", jobs=len(batch), error=repr(exc))  # no traceback: it would carry values
            return self._resolve_doubt(batch, exc), []
        parts = [self._write([task]) for task in batch]
        return [outcome for part, _ in parts for outcome in part], [commit for _, part in parts for commit in part]

    def _write_together(self, batch: Sequence[_Task]) -> tuple[list[_Outcome], list[Committed]]:
        tx = Transaction(self._connection, self._revision)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes = [self._run_job(task, tx) for task in batch]
        except Exception as exc:
            self._roll_back()
            raise _RolledBack from exc
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as exc:
            if not _is_certain(exc):
                raise
            self._roll_back()
            raise _RolledBack from exc
        self._revision = tx.revision
        return outcomes, tx.committed

    def _run_job(self, task: _Task, tx: Transaction) -> _Outcome:
        """An error before the job's first write is its own; after it, or when the transaction is gone, it is the batch's."""
        changes_before = tx.connection.total_changes()
        try:
            return _Outcome(task, result=task.job(tx))
        except WindlassError as exc:
            if tx.connection.total_changes() != changes_before:
                raise
            return _Outcome(task, error=exc)

    def _resolve_doubt(self, batch: Sequence[_Task], exc: Exception) -> list[_Outcome]:
        self.in_doubt = True
        if self._settle():
            return _all_fail(batch, _refused(exc))
        return _all_fail(batch, Unknown(f"the disk failed while committing: {exc}"))

    def _settle(self) -> bool:
        """Make one commit durable that means nothing: with it, whatever a failed COMMIT left in the WAL is overwritten."""
        self._roll_back()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            sql.settle(self._connection)
            self._connection.execute("COMMIT")
        except apsw.Error as exc:
            log.warning("store_in_doubt", error=str(exc))
            self._roll_back()
            return False
        self.in_doubt = False
        return True

    def _roll_back(self) -> None:
        # A failed COMMIT, or a full disk, has often rolled back already.
        with suppress(apsw.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _note_wal_pages(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint_when_due(self) -> None:
        """After the answers have left, so that nobody waits for it. A failure only lets the WAL grow for a while."""
        if self._wal_pages < CHECKPOINT_PAGES:
            return
        mode = apsw.SQLITE_CHECKPOINT_RESTART if self._wal_pages > RESTART_PAGES else apsw.SQLITE_CHECKPOINT_PASSIVE
        try:
            self._connection.set_busy_timeout(RESTART_MILLISECONDS)
            self._connection.wal_checkpoint(mode=mode)
        except apsw.Error as exc:
            log.warning("store_checkpoint_failed", error=str(exc), wal_pages=self._wal_pages)
        finally:
            self._connection.set_busy_timeout(BUSY_MILLISECONDS)


def _is_certain(exc: apsw.Error) -> bool:
    """Whether a failed COMMIT surely left no complete transaction behind: its last page was never written."""
    if isinstance(exc, apsw.IOError):
        return getattr(exc, "extendedresult", None) == apsw.SQLITE_IOERR_WRITE
    return isinstance(exc, apsw.FullError | apsw.BusyError | apsw.ReadOnlyError)


def _all_fail(batch: Sequence[_Task], error: Unavailable) -> list[_Outcome]:
    """An error object each: they are raised in different tasks, and tracebacks grow on them."""
    return [_Outcome(task, error=type(error)(error.message, code=error.code, hint=error.hint)) for task in batch]


def disk_full() -> Refused:
    return Refused("the store's disk is full", code="store-disk-full", hint="free some space; writes resume")


def _refused(exc: BaseException | None) -> Refused:
    match exc:
        case apsw.FullError():
            return disk_full()
        case apsw.ReadOnlyError():
            return Refused("the store's disk is read-only", code="store-read-only")
        case apsw.BusyError():
            return Refused("another process holds the store's file", code="store-busy")
        case _:
            return Refused(f"the store could not write: {exc}")
