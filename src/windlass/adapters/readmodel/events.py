"""The record of what happened in the read model: one row per event, in the order of commits, found by job, node, pool or tenant."""

from collections.abc import Iterable
from typing import Any, Final, cast

import apsw
from msgspec import json

from windlass.core.model.views import Event, EventQuery

PUT: Final = "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)"
NODE_EVENTS_MAX: Final = 1_000
"""Of one node, pool or budget; its oldest go. A job's events go with the job."""
FLEET_EVENTS_MAX: Final = 20_000
"""Of all nodes, workers and pools together: workers come and go, each under a name of its own."""
_TRIM: Final = """DELETE FROM events WHERE subject = ?1 AND (revision, ordinal) <= (
                    SELECT revision, ordinal FROM events WHERE subject = ?1
                    ORDER BY revision DESC, ordinal DESC LIMIT 1 OFFSET ?2)"""
_TRIM_FLEET: Final = """DELETE FROM events WHERE tenant = '' AND (revision, ordinal) <= (
                    SELECT revision, ordinal FROM events WHERE tenant = ''
                    ORDER BY revision DESC, ordinal DESC LIMIT 1 OFFSET ?)"""
_event = json.Decoder(Event)


def row(event: Event, ordinal: int) -> tuple[Any, ...]:
    """`ordinal` grows over a batch, so that two events of one revision keep their order."""
    return (event.revision, ordinal, subject(event), event.tenant, json.encode(event))


def subject(event: Event) -> str:
    """What it is found by."""
    return event.job or event.node or (f"pool/{event.pool}" if event.pool else f"tenant/{event.tenant}")


def trim(db: apsw.Connection, subjects: Iterable[str]) -> None:
    """Those of anything but jobs. Inside the caller's transaction."""
    for one in subjects:
        db.execute(_TRIM, (one, NODE_EVENTS_MAX))
    db.execute(_TRIM_FLEET, (FLEET_EVENTS_MAX,))


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
