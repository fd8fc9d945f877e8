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
    """If the scribe is lost, its work is taken over: slower, and said so, but nothing else changes."""

    def __init__(self, path: Path, scribe: Scribe) -> None:
        self._scribe: Scribe | None = scribe
        self._order(Open(str(path)))
        super().__init__(path)

    def apply(self, changes: Sequence[Change], revision: int, *, tells: bool = True) -> tuple[JobView, ...]:
        views = self._order(Apply(tuple(changes), revision, tells))
        if views is not None:
            return views
        if revision <= self.revision():  # carried out, and lost before it could say so
            return self.views_in(changes) if tells else ()
        return super().apply(changes, revision, tells=tells)

    def reset(self, changes: Sequence[Change], revision: int) -> None:
        if self._order(Reset(tuple(changes), revision)) is None:
            super().reset(changes, revision)

    def forget_audit(self, before: Millis) -> None:
        if self._order(ForgetAudit(before)) is None:
            super().forget_audit(before)

    def forget_scaling(self, before: Millis) -> None:
        if self._order(ForgetScaling(before)) is None:
            super().forget_scaling(before)

    def drop_costs(self, before: Day) -> None:
        if self._order(DropCosts(before)) is None:
            super().drop_costs(before)

    def _order(self, order: Order) -> tuple[JobView, ...] | None:
        """None when there is nobody to order."""
        if self._scribe is None:
            return None
        try:
            return self._scribe.call(order)
        except ScribeLost as lost:
            log.error("readmodel.scribe-lost", pid=self._scribe.pid, reason=str(lost), next="the server writes itself")
            self._scribe = None
            if not isinstance(order, Open):
                self.refresh()
            return None
