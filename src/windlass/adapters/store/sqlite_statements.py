"""Every SQL statement of the SQLite store, as functions over one open transaction. No threads, no loop, no rules.

Writing functions take the `Transaction` of the writer's batch; reading ones a connection of their own.
"""

from collections.abc import Sequence
from functools import cache

import apsw
import msgspec

from windlass.adapters.store.commits import Committed, check_commit, encode_key, expectation_failed, range_bounds
from windlass.ports.store import Change, Compacted, Delete, Deposed, Expect, Item, Limits, Put, Refused, Snapshot, Write

PAGE_COMMITS = 256
PAGE_BYTES = 4 << 20
"""How much of the log one page of a replay brings into memory."""

_PUT = """
    INSERT INTO items (key, value, created, modified, lease) VALUES {rows}
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, modified = excluded.modified, lease = excluded.lease
"""
_ROWS_AT_ONCE = 128
"""Each statement that is run lets go of the interpreter and has to get it back: most commits are put by one."""
_RANGE = "SELECT key, value, created, modified FROM items WHERE key {first} ?1 {end} ORDER BY key LIMIT ?3"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]]).decode


class Transaction:
    """What the jobs of one batch share: the connection, and the revisions they have taken so far."""

    def __init__(self, connection: apsw.Connection, revision: int) -> None:
        self.connection = connection
        self.revision = revision
        self.committed: list[Committed] = []

    def record(self, changes: tuple[Change, ...], size: int) -> None:
        """Give these changes the next revision. They carry it already: see `next_revision`."""
        self.revision += 1
        logged = _encode([(change.key, change.value) for change in changes])
        self.connection.execute("INSERT INTO log (revision, changes) VALUES (?, ?)", (self.revision, logged))
        self.committed.append(Committed(self.revision, changes, size))

    @property
    def next_revision(self) -> int:
        return self.revision + 1


def commit(tx: Transaction, writes: Sequence[Write], expect: Sequence[Expect], limits: Limits) -> int:
    size = check_commit(writes, expect, limits)
    for expectation in expect:
        _check_expectation(tx.connection, expectation)
    puts = [write for write in writes if type(write) is Put]
    _check_leases(tx.connection, puts)
    revision = tx.next_revision
    absent = {write.key for write in writes if type(write) is Delete and not _delete(tx.connection, write.key)}
    _put_all(tx.connection, puts, revision)
    changes = tuple(
        Change(revision=revision, key=write.key, value=write.value if type(write) is Put else None)
        for write in writes
        if write.key not in absent
    )
    if changes:
        tx.record(changes, size)
    return tx.revision


def _put_all(connection: apsw.Connection, puts: Sequence[Put], revision: int) -> None:
    for at in range(0, len(puts), _ROWS_AT_ONCE):
        part = puts[at : at + _ROWS_AT_ONCE]
        values: list[apsw.SQLiteValue] = []
        for put in part:
            values += (put.key.encode(), put.value, revision, revision, put.lease)
        connection.execute(_put_statement(len(part)), values)


@cache
def _put_statement(rows: int) -> str:
    return _PUT.format(rows=", ".join(["(?, ?, ?, ?, ?)"] * rows))


def grant(tx: Transaction, ttl_seconds: int) -> int:
    tx.connection.execute("INSERT INTO leases (ttl_seconds) VALUES (?)", (ttl_seconds,))
    return tx.connection.last_insert_rowid()


def end_lease(tx: Transaction, lease: int) -> None:
    """Remove a lease and, in a commit of its own, the keys that hang on it."""
    tx.connection.execute("DELETE FROM leases WHERE id = ?", (lease,))
    keys = [
        bytes(key).decode()
        for (key,) in tx.connection.execute(
            "SELECT key FROM items WHERE lease = ? AND lease != 0 ORDER BY key", (lease,)
        )
    ]
    if keys:
        tx.connection.execute("DELETE FROM items WHERE lease = ? AND lease != 0", (lease,))
        revision = tx.next_revision
        tx.record(tuple(Change(revision=revision, key=key, value=None) for key in keys), sum(len(key) for key in keys))


def mark_compacted(tx: Transaction, before: int) -> int:
    """Promise that nobody will ask below `before` any more; answers the mark that now holds. The newest row stays."""
    before = min(before, tx.revision)
    tx.connection.execute("UPDATE marks SET value = max(value, ?) WHERE name = 'compacted'", (before,))
    return read_compacted(tx.connection)


def drop_history(tx: Transaction, before: int, commits_max: int) -> bool:
    """Delete some of the log below `before`; whether there is more. In slices, so that commits pass between them."""
    tx.connection.execute(
        "DELETE FROM log WHERE revision IN (SELECT revision FROM log WHERE revision < ? ORDER BY revision LIMIT ?)",
        (before, commits_max),
    )
    return tx.connection.changes() == commits_max


def settle(connection: apsw.Connection) -> None:
    """A change that means nothing, for the sake of the COMMIT that follows."""
    connection.execute("UPDATE marks SET value = value + 1 WHERE name = 'settled'")


def read_range(connection: apsw.Connection, prefix: str, start: str, limit: int) -> Snapshot:
    first, is_after, end = range_bounds(prefix, start)
    query = _RANGE.format(first=">" if is_after else ">=", end="AND key < ?2" if end is not None else "AND ?2 IS NULL")
    rows = connection.execute(query, (first, end, limit or -1))
    items = tuple(_item(key, value, created, modified) for key, value, created, modified in rows)
    return Snapshot(revision=read_revision(connection), items=items)


def read_item(connection: apsw.Connection, key: str) -> Item | None:
    query = "SELECT key, value, created, modified FROM items WHERE key = ?"
    for row in connection.execute(query, (encode_key(key),)):
        return _item(*row)
    return None


def read_log(connection: apsw.Connection, after: int) -> tuple[Committed, ...]:
    """A page of commits above `after`, in order; none at the log's end."""
    compacted = read_compacted(connection)
    if after + 1 < compacted:
        raise Compacted(f"changes below revision {compacted} are gone, asked for {after + 1}")
    page, size = [], 0
    query = "SELECT revision, changes FROM log WHERE revision > ? ORDER BY revision LIMIT ?"
    for revision, logged in connection.execute(query, (after, PAGE_COMMITS)):
        changes = tuple(Change(revision=revision, key=key, value=value) for key, value in _decode(logged))
        page.append(Committed(revision, changes, len(logged)))
        size += len(logged)
        if size > PAGE_BYTES:
            break
    return tuple(page)


def read_revision(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(revision), 0) FROM log").get)


def read_compacted(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT value FROM marks WHERE name = 'compacted'").get)


def read_leases(connection: apsw.Connection) -> dict[int, int]:
    rows = connection.execute("SELECT id, ttl_seconds FROM leases")
    return {int(lease): int(ttl_seconds) for lease, ttl_seconds in rows}


def _check_expectation(connection: apsw.Connection, expectation: Expect) -> None:
    query = "SELECT created, modified FROM items WHERE key = ?"
    created, modified = connection.execute(query, (encode_key(expectation.key),)).get or (0, 0)
    if expectation_failed(expectation, created, modified):
        raise Deposed(f"{expectation.key!r} is not as expected: created at {created}, modified at {modified}")


def _check_leases(connection: apsw.Connection, puts: Sequence[Put]) -> None:
    for lease in {put.lease for put in puts if put.lease}:
        if connection.execute("SELECT 1 FROM leases WHERE id = ?", (lease,)).get is None:
            raise Refused(f"lease {lease} is gone", code="store-lease-gone")


def _delete(connection: apsw.Connection, key: str) -> bool:
    connection.execute("DELETE FROM items WHERE key = ?", (key.encode(),))
    return connection.changes() > 0


def _item(key: bytes, value: bytes, created: int, modified: int) -> Item:
    return Item(key=key.decode(), value=value, created=created, modified=modified)
