"""Old files become new ones in whole steps, and files we must not touch are left alone (R-26)."""

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tests.store.migrating import OLD_ROWS, STEPS
from windlass.adapters.store.sqlite import SqliteStore
from windlass.adapters.store.sqlite_schema import connect_writer, migrate, migrations
from windlass.ports.store import Put, Refused

ROOT = Path(__file__).parents[2]


def test_the_released_steps_are_numbered_without_a_hole() -> None:
    assert [step.number for step in migrations()] == list(range(1, len(migrations()) + 1))


def test_each_step_is_taken_once_and_in_order(tmp_path: Path) -> None:
    connection = connect_writer(tmp_path / "store.db")
    migrate(connection, STEPS[:1])
    assert connection.pragma("user_version") == 1
    migrate(connection, STEPS)
    migrate(connection, STEPS)
    assert connection.pragma("user_version") == len(STEPS)
    assert connection.execute("SELECT count(*) FROM new").get == OLD_ROWS


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    connection = connect_writer(tmp_path / "store.db")
    migrate(connection, STEPS[:1])
    broken = STEPS[1].__class__(2, STEPS[1].statements + "; SELECT * FROM nowhere")
    with pytest.raises(apsw.SQLError):
        migrate(connection, [STEPS[0], broken])
    assert connection.pragma("user_version") == 1
    assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("old",)]


def test_a_kill_at_any_statement_of_a_migration_is_harmless(tmp_path: Path) -> None:
    """Killed before statement 1, 2, 3, … of a new file, until one gets through; each is finished by the next start."""
    killed = []
    for statement in range(1, 100):
        path = tmp_path / f"{statement}.db"
        command = [sys.executable, "-m", "tests.store.migrating", str(path), str(statement)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr
        killed.append(check_whole(path))
        migrate(connect_writer(path), STEPS)
        assert check_whole(path) == len(STEPS)
    assert len(killed) > 10
    assert set(killed) == {0, 1, 2}


def check_whole(path: Path) -> int:
    """The step the file stands at; everything in it must belong to that step."""
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    version = int(connection.pragma("user_version"))
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == {0: set(), 1: {"old"}, 2: {"new"}, 3: {"new", "other"}}[version]
    if version > 1:
        assert connection.execute("SELECT count(*) FROM new").get == OLD_ROWS
    connection.close()
    return version


@pytest.mark.anyio
async def test_a_file_of_a_newer_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SqliteStore.open(path) as store:
        await store.commit([Put("/a", b"1")])
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 9_999)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Refused) as refusal:
        async with SqliteStore.open(path):
            pass
    assert refusal.value.code == "store-too-new"
    assert refusal.value.hint is not None
    assert path.read_bytes() == before


@pytest.mark.anyio
async def test_a_foreign_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Refused) as refusal:
        async with SqliteStore.open(path):
            pass
    assert refusal.value.code == "store-foreign"
    assert path.read_bytes() == before


@pytest.mark.anyio
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"not a database at all " * 100)
    with pytest.raises(Refused) as refusal:
        async with SqliteStore.open(path):
            pass
    assert refusal.value.code == "store-unreadable"
    assert path.read_bytes() == b"not a database at all " * 100
