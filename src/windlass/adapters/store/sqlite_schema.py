"""The SQLite store's file: how connections are set up, and how an older file becomes the newest in numbered steps.

Each step is one transaction that also moves `user_version`, so a kill at any statement leaves the file at a step's border.
"""

import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import apsw
from msgspec import Struct

from windlass.ports.store import Refused

APPLICATION_ID = 0x57_4C_53_53
"""`WLSS` in the file's header: `file(1)` and we know whose it is."""

BUSY_MILLISECONDS = 5_000
_STATEMENTS_KEPT = 192
"""Prepared: one for every number of rows that a commit may put at once, and the others."""


class Migration(Struct, frozen=True):
    number: int
    statements: str


def migrations() -> tuple[Migration, ...]:
    """All steps, in order, without a hole."""
    folder = files("windlass.adapters.store.migrations")
    found = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    steps = tuple(Migration(int(entry.name.removesuffix(".sql")), entry.read_text("utf-8")) for entry in found)
    assert [step.number for step in steps] == list(range(1, len(steps) + 1)), "migrations are numbered 1, 2, 3, …"
    return steps


def connect_writer(path: Path) -> apsw.Connection:
    """The one connection that writes. The file is made readable for its owner alone: sealed secrets lie in it."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = _connect(path)
    _check_ours(connection)  # before the first pragma that writes
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("cache_size", -32_768)
    # After a commit of many megabytes the log shrinks again.
    connection.pragma("journal_size_limit", 64 << 20)
    return connection


def connect_reader(path: Path) -> apsw.Connection:
    connection = _connect(path)
    connection.pragma("query_only", True)
    return connection


def migrate(connection: apsw.Connection, steps: Sequence[Migration]) -> None:
    """Bring the file to the newest step; refuse one that a newer Windlass wrote."""
    version = connection.pragma("user_version")
    if version > len(steps):
        raise Refused(
            f"the store was written by a newer Windlass (schema {version}, this one knows {len(steps)})",
            code="store-too-new",
            hint="start the newer version again, or restore a backup made before the upgrade",
        )
    for step in steps[version:]:
        _take(connection, step)


def _take(connection: apsw.Connection, step: Migration) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # apsw runs a script's statements as they are fetched: without fetching, only the first.
        connection.execute(step.statements).fetchall()
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", step.number)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_ours(connection: apsw.Connection) -> None:
    is_empty = connection.execute("SELECT count(*) FROM sqlite_schema").get == 0
    if connection.pragma("application_id") != APPLICATION_ID and not is_empty:
        raise Refused("the file is not a Windlass store", code="store-foreign", hint="choose another data directory")


def _connect(path: Path) -> apsw.Connection:
    connection = apsw.Connection(os.fspath(path), statementcachesize=_STATEMENTS_KEPT)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    connection.pragma("temp_store", "memory")
    return connection
