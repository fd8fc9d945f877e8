"""Tenants, their tokens and the audit, as people read them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windlass.cli.render.fit import columns
from windlass.cli.render.table import Cell, Row
from windlass.cli.render.values import age, clock_time, memory, money, seconds_of, span
from windlass.client.documents import AuditRecord, IssuedToken, TenantManifest

TENANTS = columns(
    ("NAME", "TIER", "WEIGHT", "POLICY", "CPU", "MEMORY", "GPU", "JOBS", "QUEUED", "AGE"),
    "AGE",
    ("NAME", 16),
    "TIER",
    "GPU",
    "WEIGHT",
    "POLICY",
    ("NAME", 8),
)
TOKENS = columns(
    ("ID", "SUBJECT", "ROLE", "ISSUED", "ENDS IN", "STATE"), ("SUBJECT", 10), "ISSUED", "ROLE", "ENDS IN", "SUBJECT"
)
AUDIT = columns(
    ("AT", "WHO", "TENANT", "VERB", "KIND", "NAME", "OUTCOME", "ADDRESS", "REQUEST"),
    "REQUEST",
    "ADDRESS",
    ("NAME", 16),
    ("WHO", 10),
    "TENANT",
    ("OUTCOME", 12),
    "KIND",
    ("NAME", 10),
)
NO_LIMIT = "∞"

_OPEN_TO_ALL = frozenset({"tenants", "pools"})
"""Where an empty list leaves nobody out."""


def tenant_rows(tenants: Iterable[TenantManifest], now: float) -> list[Row]:
    return [_tenant_row(tenant, now) for tenant in tenants]


_MONEY = frozenset({"quota.costPerDay", "budget.perMonth"})


def tenant_lines(tenant: TenantManifest, now: float) -> list[str]:
    """The page about one: what it may, and what it has."""
    spec = tenant["spec"]
    rows = [
        ("name", tenant["metadata"].get("name", "-")),
        ("age", age(tenant["metadata"].get("creationTimestamp"), now)),
        *((name, money(int(value)) if name in _MONEY and value.isdecimal() else value) for name, value in flat(spec)),
        *(("now " + name, value) for name, value in flat(tenant["status"])),
    ]
    width = max(len(name) for name, _ in rows)
    return [f"{name.ljust(width)}  {value}" for name, value in rows]


def token_rows(tokens: Iterable[IssuedToken], now: float) -> list[Row]:
    return [
        (
            token["id"],
            token.get("subject") or "-",
            token.get("role") or "-",
            age(token.get("issuedAt"), now),
            _left(token, now),
            _token_state(token, now),
        )
        for token in tokens
    ]


def audit_rows(records: Iterable[AuditRecord]) -> list[Row]:
    return [audit_row(record) for record in records]


def audit_row(record: AuditRecord) -> Row:
    outcome = record.get("code") or "done"
    more = len(record.get("others", ()))
    return (
        clock_time(record["at"]),
        record["subject"],
        record["tenant"],
        record["verb"],
        record["kind"] or "-",
        (record["name"] or record["uid"] or "-") + (f" +{more}" if more else ""),
        Cell(outcome, "red" if record.get("code") else "green"),
        record["address"] or "-",
        record["request"],
    )


def _tenant_row(tenant: TenantManifest, now: float) -> Row:
    spec, status = tenant["spec"], tenant["status"]
    quota, held = spec.get("quota", {}), status.get("held", {})
    counted = "jobs" if spec.get("policy") == "reject" else "runs"  # the others let jobs wait outside the quota
    return (
        tenant["metadata"].get("name", "-"),
        spec.get("tier", "-"),
        f"{status.get('weight', 1):g}",
        spec.get("policy", "-"),
        _of(held.get("cpu"), quota.get("cpu")),
        _of(memory(held.get("memory", "-")), None if quota.get("memory") is None else memory(quota["memory"])),
        _of(held.get("gpu"), quota.get("gpu")),
        _of(status.get(counted), quota.get("jobs")),
        str(status.get("queued", 0)),
        age(tenant["metadata"].get("creationTimestamp"), now),
    )


def _of(used: Any, limit: Any) -> str:
    return f"{used} of {NO_LIMIT if limit is None else limit}"


def flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield from ((f"{prefix}{name}", _listed(one)) for one in value)
        elif isinstance(value, list):
            yield prefix + name, ", ".join(map(str, value)) or ("any" if name in _OPEN_TO_ALL else "none")
        else:
            yield prefix + name, _shown(value)


def _listed(document: Mapping[str, Any]) -> str:
    """One of several, on a line: `measure cpu, up 80, down 30`."""
    return ", ".join(f"{name} {value}" for name, value in document.items() if value is not None)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _left(token: IssuedToken, now: float) -> str:
    ends = seconds_of(token.get("expiresAt"))
    return "-" if ends is None or ends <= now else span(max(10.0, ends - now))


def _token_state(token: IssuedToken, now: float) -> Cell:
    if token.get("revokedAt"):
        return Cell("revoked", "red")
    ends = seconds_of(token.get("expiresAt"))
    return Cell("over", "bright_black") if ends is not None and ends <= now else Cell("holds", "green")
