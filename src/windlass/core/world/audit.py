"""The audit of decisions: who asked for one is written into it, so that neither is ever stored without the other.

What was changed is read from the decision itself, not from what a door says of it: no door can forget it or get it wrong.
"""

from collections.abc import Sequence
from typing import Any, Final

from windlass.core.model.audit import Act, Deed
from windlass.core.model.ids import JobId, Millis
from windlass.core.model.job import Job
from windlass.core.model.pool import Worker
from windlass.core.model.token import IssuedToken
from windlass.core.scaling import ScalingStep
from windlass.core.world.entry import Entry
from windlass.core.world.records import Deeds, JobErased, Table
from windlass.core.world.world import World

_KINDS: Final = {
    Table.TENANTS: "Tenant",
    Table.TOKENS: "Token",
    Table.JOBS: "Job",
    Table.SPECS: "Job",
    Table.POOLS: "Pool",
    Table.NODES: "Node",
    Table.WORKERS: "Pool",
    Table.GROWTHS: "Pool",
    Table.OUTBOX: "Job",
    Table.VOLUMES: "Volume",
    Table.SECRETS: "Secret",
    Table.LOGINS: "RegistryLogin",
}
_RANKS: Final = {table: rank for rank, table in enumerate((*_KINDS, *(one for one in Table if one not in _KINDS)))}
"""A decision changes several records; the lowest names what it was about."""


def sign(world: World, act: Act, *, since: int, now: Millis) -> None:
    """Name who asked for the newest decision, whose changes begin at place `since` of the journal."""
    entries = world.journal.tail(since)
    chief, others = _chief(entries)
    kind, name, uid, tenant = _subject(world, chief, entries)
    world.journal.sign(
        Deed(number=world.number, at=now, act=act, kind=kind, name=name, uid=uid, tenant=tenant, others=others)
    )


def note(world: World, act: Act, *, now: Millis, **what: Any) -> int:
    """A record of its own, of an act that changes nothing stored: a terminal, a refusal. `what` are fields of the Deed."""
    with world.decision(now) as number:
        deed = Deed(number=number, at=now, act=act, **what)
        world.put(Table.OUTBOX, deeds_key(number), Deeds(records=(deed,)))
    return world.number


def deeds_key(number: int) -> str:
    return f"audit-{number:016}"


def _chief(entries: Sequence[Entry]) -> tuple[Entry, tuple[str, ...]]:
    """The change that says what the decision was about, and the keys of its like. Plain loops: every submit passes here."""
    chief, rank, alike = entries[0], _RANKS[entries[0].table], 0
    for entry in entries:
        other = _RANKS[entry.table]
        if other < rank:
            chief, rank, alike = entry, other, 0
        alike += other == rank
    if alike == 1:
        return chief, ()
    keys = dict.fromkeys(one.key for one in entries if one.table is chief.table)
    return chief, tuple(key for key in keys if key != chief.key)


def _subject(world: World, chief: Entry, entries: Sequence[Entry]) -> tuple[str, str, str, str]:
    """Kind, name, id and owner of what the decision was about."""
    table, record = chief.table, chief.new if chief.new is not None else chief.old
    if isinstance(record, Job):
        return "Job", record.name, record.id, record.tenant
    kind = _KINDS.get(table) or table.value.removesuffix("s").capitalize()
    if table is Table.TENANTS:
        return kind, chief.key, "", chief.key
    if table in (Table.POOLS, Table.NODES, Table.GROWTHS):
        return kind, chief.key, "", ""
    if isinstance(record, Worker | ScalingStep):
        return "Pool", record.pool, "", ""  # workers are the pool's own doing: who asked, asked the pool
    if isinstance(record, IssuedToken):
        return kind, record.subject, record.id, record.tenant
    if table is Table.SPECS:
        record = world.tables.jobs.get(JobId(chief.key))
    if table is Table.OUTBOX and isinstance(record, JobErased):
        held = next((one.key for one in entries if one.table is Table.NAMES), "")
        return kind, held.partition("/")[2], record.job, record.tenant
    tenant = "" if table in (Table.SECRETS, Table.LOGINS) else getattr(record, "tenant", "")
    if tenant or "/" not in chief.key:
        return kind, getattr(record, "name", ""), chief.key, tenant
    owner, _, name = chief.key.partition("/")  # such tables are keyed by tenant and name
    return kind, name, "", owner
