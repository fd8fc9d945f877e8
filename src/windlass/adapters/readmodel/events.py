"""The record of what happened in the read model: one row per event, in the order of commits, found by job, node or tenant."""

from collections.abc import Iterable
from typing import Any, Final, cast

import apsw
from msgspec import json

from windlass.core.model.views import Event, EventQuery

PUT: Final = "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)"
NODE_EVENTS_MAX: Final = 1_000
"""Of one node; its oldest go. A job's events go with the job."""
_TRIM: Final = """DELETE FROM events WHERE subject = ?1 AND (revision, ordinal) <= (
                    SELECT revision, ordinal FROM events WHERE subject = ?1
                    ORDER BY revision DESC, ordinal DESC LIMIT 1 OFFSET ?2)"""
_event = json.Decoder(Event)


def row(event: Event, ordinal: int) -> tuple[Any, ...]:
    """`ordinal` grows over a batch, so that two events of one revision keep their order."""
    return (event.revision, ordinal, event.job or event.node, event.tenant, json.encode(event))


def trim(db: apsw.Connection, nodes: Iterable[str]) -> None:
    """Inside the caller's transaction."""
    for node in nodes:
        db.execute(_TRIM, (node, NODE_EVENTS_MAX))


def asked(db: apsw.Connection, query: EventQuery) -> tuple[Event, ...]:
    """Oldest first. Never ends inside a commit, unless that alone is more than was asked for: it can be resumed after the last."""
    where, values = _conditions(query)
    order = "DESC" if query.is_newest else "ASC"
    sql = f"""SELECT doc FROM events WHERE {where}
              ORDER BY revision {order}, ordinal {order} LIMIT ?"""  # noqa: S608 — constants only
    rows = db.execute(sql, (*values, query.limit)).fetchall()
    events = [_event.decode(cast(bytes, doc)) for (doc,) in rows]
    if query.is_newest:
        return tuple(reversed(events))
    if len(events) == query.limit and events[0].revision != events[-1].revision:
        last = events[-1].revision
        events = [event for event in events if event.revision != last]
    return tuple(events)


def _conditions(query: EventQuery) -> tuple[str, list[Any]]:
    clauses: list[str] = ["revision > ?"]
    values: list[Any] = [query.after]
    if query.subject:
        clauses.append("subject = ?")
        values.append(query.subject)
    if query.tenants is not None:
        clauses.append(f"tenant IN ({', '.join('?' * len(query.tenants))})")
        values.extend(query.tenants)
    return " AND ".join(clauses), values
