"""What events were last told from, of records that no other table keeps: workers, pools, budgets and webhooks."""

from functools import cached_property
from typing import Final, cast

import apsw

_PUT: Final = "INSERT OR REPLACE INTO told VALUES (?, ?)"
_FORGET: Final = "DELETE FROM told WHERE key = ?"


class Told:
    """For one batch of changes; the batch's transaction writes it."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._changed: dict[str, bytes | None] = {}

    def swap(self, key: str, doc: bytes) -> bytes | None:
        """The record before this one; None: there was none."""
        before = self._changed[key] if key in self._changed else self._one("SELECT doc FROM told WHERE key = ?", key)
        self._changed[key] = doc
        return cast(bytes | None, before)

    def forget(self, key: str) -> None:
        self._changed[key] = None

    def is_news(self, revision: int) -> bool:
        """Of a record that stays in the outbox for a while: a snapshot brings it again, and it is told once."""
        return revision > self._taken_in

    def write(self, db: apsw.Connection) -> None:
        kept = [(key, doc) for key, doc in self._changed.items() if doc is not None]
        if kept:
            db.executemany(_PUT, kept)
        gone = [(key,) for key, doc in self._changed.items() if doc is None]
        if gone:
            db.executemany(_FORGET, gone)

    @cached_property
    def _taken_in(self) -> int:
        return cast(int, self._one("SELECT revision FROM position"))

    def _one(self, sql: str, *values: str) -> object:
        row = self._db.execute(sql, values).fetchone()
        return row[0] if row is not None else None
