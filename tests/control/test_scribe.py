"""The tables that a scribe writes and the server reads: the same answers, the same refusals, and no change taken in twice."""

import fcntl
import os
import signal
import subprocess
from pathlib import Path

import pytest

from windlass.adapters.readmodel.scribe import Apply, Open, Order, Scribe, ScribeLost, forked
from windlass.adapters.readmodel.sqlite import SqliteReadTables
from windlass.adapters.readmodel.written import WrittenTables
from windlass.core.errors import Unavailable
from windlass.core.model.ids import Millis
from windlass.core.model.views import EventQuery, JobView
from windlass.core.world.records import Table, encode, store_key
from windlass.ports.store import Change
from windlass.testing.builders import a_node

EVERYTHING = EventQuery(tenants=None, limit=100)


def a_change(revision: int) -> Change:
    return Change(revision=revision, key=store_key(Table.NODES, f"n{revision}"), value=encode(a_node(f"n{revision}")))


def test_what_the_scribe_took_in_is_read_beside_it(tmp_path: Path) -> None:
    with forked() as scribe:
        tables = WrittenTables(tmp_path / "history.db", scribe)
        tables.apply([a_change(1)], 1)
        tables.apply([a_change(2)], 2, tells=False)
        tables.forget_audit(Millis(1))
        tables.forget_scaling(Millis(1))
        assert (tables.revision(), len(tables.events(EVERYTHING))) == (2, 2)
        tables.close()
    again = SqliteReadTables(tmp_path / "history.db")
    assert again.revision() == 2
    again.close()


def test_a_damaged_file_is_refused_in_the_same_words(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(Unavailable) as alone:
        SqliteReadTables(path)
    with forked() as scribe, pytest.raises(Unavailable) as beside:
        WrittenTables(path, scribe)
    assert (
        (beside.value.code, beside.value.hint)
        == (alone.value.code, alone.value.hint)
        == ("history-damaged", alone.value.hint)
    )
    assert beside.value.message == alone.value.message


def test_what_cannot_be_written_is_said_with_a_way_on(tmp_path: Path) -> None:
    with forked() as scribe:
        tables = WrittenTables(tmp_path / "history.db", scribe)
        spoiler = SqliteReadTables(tmp_path / "history.db")
        spoiler._db.execute("DROP TABLE events")
        with pytest.raises(Unavailable) as refused:
            tables.apply([a_change(1)], 1)
        assert refused.value.code == "history-unwritable"
        assert refused.value.hint
        assert tables.revision() == 0
        spoiler.close()
        tables.close()


def test_one_that_stands_still_is_ended_and_its_work_taken_over(tmp_path: Path) -> None:
    with forked() as scribe:
        tables = WrittenTables(tmp_path / "history.db", scribe)
        os.kill(scribe.pid, signal.SIGSTOP)
        scribe._channel.settimeout(0.2)
        tables.apply([a_change(1)], 1)
        assert (tables.revision(), len(tables.events(EVERYTHING))) == (1, 1)
        with pytest.raises(ProcessLookupError):
            os.kill(scribe.pid, 0)
        tables.close()


def test_one_that_was_stopped_before_its_server_died_is_ended_by_the_next(tmp_path: Path) -> None:
    with forked() as old, forked() as new:
        WrittenTables(tmp_path / "history.db", old).close()
        os.kill(old.pid, signal.SIGSTOP)
        old._channel.close()
        old._answers.close()
        tables = WrittenTables(tmp_path / "history.db", new)
        tables.apply([a_change(1)], 1)
        assert tables.revision() == 1
        assert tables._own is None, "the new scribe writes, not the server in its stead"
        assert os.waitid(os.P_PID, old.pid, os.WEXITED | os.WNOWAIT).si_status == signal.SIGKILL  # type: ignore[union-attr]
        tables.close()


def test_a_process_that_only_has_the_pid_of_a_lock_is_left_alone(tmp_path: Path) -> None:
    """The lock's note is of a holder before this one; its pid has come to somebody who has nothing to do with it."""
    lock = tmp_path / "history.db-lock"
    other = subprocess.Popen(["sleep", "600"])
    holder = lock.open("w")
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        holder.write(f"{other.pid} 1".ljust(64))
        holder.flush()
        with forked() as scribe:
            scribe._channel.settimeout(0.5)
            with pytest.raises(ScribeLost):
                scribe.call(Open(str(tmp_path / "history.db")))
            assert other.poll() is None
            os.kill(scribe.pid, signal.SIGKILL)
    finally:
        holder.close()
        other.kill()
        other.wait()


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_an_order_without_an_answer_is_carried_out_once(tmp_path: Path, is_carried_out: bool) -> None:
    tables = WrittenTables(tmp_path / "history.db", _Mute(tmp_path / "history.db", is_carried_out=is_carried_out))
    tables.apply([a_change(1)], 1)
    tables.apply([a_change(2)], 2)
    assert [event.revision for event in tables.events(EVERYTHING)] == [1, 2]
    assert tables.revision() == 2
    tables.close()


class _Mute(Scribe):
    """Opens, and is lost at the next order, after it or before."""

    def __init__(self, path: Path, *, is_carried_out: bool) -> None:
        self.pid = 0
        self._is_closed = True
        self._tables = SqliteReadTables(path)
        self._is_carried_out = is_carried_out

    def call(self, order: Order) -> tuple[JobView, ...]:
        if isinstance(order, Open):
            return ()
        if self._is_carried_out and isinstance(order, Apply):
            self._tables.apply(order.changes, order.revision)
        self._tables.close()
        raise ScribeLost("made so")
