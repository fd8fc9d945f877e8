"""The read model's tables as the server sees them when a scribe writes: it reads them itself and hands every writing on."""

from collections.abc import Sequence
from pathlib import Path

import structlog

from windlass.adapters.readmodel.scribe import (
    Apply,
    DropCosts,
    ForgetAudit,
    ForgetScaling,
    Open,
    Order,
    Reset,
    Scribe,
    ScribeLost,
)
from windlass.adapters.readmodel.sqlite import SqliteReadTables
from windlass.core.model.calendar import Day
from windlass.core.model.ids import Millis
from windlass.core.model.views import JobView
from windlass.ports.store import Change

log = structlog.get_logger()


class WrittenTables(SqliteReadTables):
    """Reading and writing go side by side, each in a thread of its own: a scribe that is slow delays no answer.

    If it is lost, its work is taken over, by a second connection: slower, and said so, but nothing else changes.
    """

    def __init__(self, path: Path, scribe: Scribe) -> None:
        self._path = path
        self._scribe = scribe
        self._own: SqliteReadTables | None = None
        self._order(Open(str(path)))
        super().__init__(path)

    def apply(self, changes: Sequence[Change], revision: int, *, tells: bool = True) -> tuple[JobView, ...]:
        views = self._order(Apply(tuple(changes), revision, tells))
        if views is not None:
            return views
        own = self._taken_over()
        if revision <= own.revision():  # carried out, and lost before it could say so
            return own.views_in(changes) if tells else ()
        return own.apply(changes, revision, tells=tells)

    def reset(self, changes: Sequence[Change], revision: int) -> None:
        if self._order(Reset(tuple(changes), revision)) is None:
            self._taken_over().reset(changes, revision)

    def forget_audit(self, before: Millis) -> None:
        if self._order(ForgetAudit(before)) is None:
            self._taken_over().forget_audit(before)

    def forget_scaling(self, before: Millis) -> None:
        if self._order(ForgetScaling(before)) is None:
            self._taken_over().forget_scaling(before)

    def drop_costs(self, before: Day) -> None:
        if self._order(DropCosts(before)) is None:
            self._taken_over().drop_costs(before)

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
        super().close()

    def _order(self, order: Order) -> tuple[JobView, ...] | None:
        """None when there is nobody to order."""
        if self._own is not None:
            return None
        try:
            return self._scribe.call(order)
        except ScribeLost as lost:
            log.error("readmodel.scribe-lost", pid=self._scribe.pid, reason=str(lost), next="the server writes itself")
            self._scribe.close(patience_seconds=0)
            self._taken_over()
            return None

    def _taken_over(self) -> SqliteReadTables:
        if self._own is None:
            self._own = SqliteReadTables(self._path)
        return self._own
