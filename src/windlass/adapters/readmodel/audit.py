"""The audit in the read model: one row per record, in the order of commits."""

from typing import Any, Final

import apsw

from windlass.core.model.audit import Act, AuditQuery, Author, Deed
from windlass.core.model.ids import Millis

PUT: Final = "INSERT OR IGNORE INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_COLUMNS: Final = (
    "number, at, subject, actor, token, address, request, verb, kind, name, uid, tenant, others, refused, skipped"
)
_EQUAL: Final = ("subject", "verb", "kind", "name", "request", "token")


def row(deed: Deed) -> tuple[Any, ...]:
    act, author = deed.act, deed.act.author
    return (
        deed.number, deed.at, author.subject, author.tenant, author.token, act.address, act.request, act.verb, deed.kind,
        deed.name, deed.uid, deed.tenant, " ".join(deed.others), deed.refused, deed.skipped,
    )  # fmt: skip


def asked(db: apsw.Connection, query: AuditQuery) -> dict[str, Any]:
    """The page's items, and whether more come after them."""
    order = "DESC" if query.newest_first else "ASC"
    where, common = _conditions(query)
    parts, values = list[str](), list[Any]()
    for branch, own in _branches(query):
        parts.append(
            f"SELECT * FROM (SELECT {_COLUMNS} FROM audit WHERE {branch} AND {where} ORDER BY number {order} LIMIT ?)"  # noqa: S608 — constants only
        )
        values += [*own, *common, query.limit + 1]
    rows = db.execute(
        f"{' UNION ALL '.join(parts)} ORDER BY number {order} LIMIT ?", (*values, query.limit + 1)
    ).fetchall()
    return {"items": tuple(_deed(*one) for one in rows[: query.limit]), "has_more": len(rows) > query.limit}


def _deed(
    number: Any, at: Any, subject: Any, actor: Any, token: Any, address: Any, request: Any, verb: Any, kind: Any,
    name: Any, uid: Any, tenant: Any, others: Any, refused: Any, skipped: Any,
) -> Deed:  # fmt: skip
    return Deed(
        number=number,
        at=Millis(at),
        act=Act(Author(subject, actor, token), address, request, verb),
        kind=kind,
        name=name,
        uid=uid,
        tenant=tenant,
        others=tuple(others.split()),
        refused=refused,
        skipped=skipped,
    )


def _branches(query: AuditQuery) -> list[tuple[str, list[Any]]]:
    """Where a question has two ways to be true, each is asked by itself, along an index of its own; no record is in both."""
    tenants = [("actor = ?", [query.tenant]), ("tenant = ? AND actor <> tenant", [query.tenant])]
    things = [("uid = ?", [query.uid]), ("others <> '' AND instr(others, ?)", [query.uid])]
    everything: list[tuple[str, list[Any]]] = [("1", [])]
    return [
        (f"{one} AND {other}", [*mine, *theirs])
        for one, mine in (tenants if query.tenant else everything)
        for other, theirs in (things if query.uid else everything)
    ]


def _conditions(query: AuditQuery) -> tuple[str, list[Any]]:
    """Constant SQL with one placeholder per value."""
    clauses: list[str] = ["1"]
    values: list[Any] = []

    def add(clause: str, *given: Any) -> None:
        clauses.append(clause)
        values.extend(given)

    for column in _EQUAL:
        if value := getattr(query, column):
            add(f"{column} = ?", value)
    if query.is_refused is not None:
        add("refused <> ''" if query.is_refused else "refused = ''")
    if query.since is not None:
        add("at >= ?", query.since)
    if query.until is not None:
        add("at < ?", query.until)
    if query.after:
        add("number < ?" if query.newest_first else "number > ?", query.after)
    return " AND ".join(clauses), values
