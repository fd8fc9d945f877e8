"""How the World's records lie in the store: one table per noun, one key per record, JSON values with a schema version.

A table that is *kept* is held in memory and rebuilt from the store; the others are only written: specs and boxes are
read at a start, answers at a repeated request, the outbox by the read model.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from windlass.core.fairness.account import Account
from windlass.core.model.audit import Deed
from windlass.core.model.burst import BurstSession
from windlass.core.model.hook import Hook
from windlass.core.model.ids import JobId, Millis, TenantId
from windlass.core.model.job import Job, JobSpec
from windlass.core.model.money import Prices
from windlass.core.model.node import Node
from windlass.core.model.pool import Growth, Pool, Worker
from windlass.core.model.run import Run
from windlass.core.model.secret import RegistryLogin, Sealed, Secret
from windlass.core.model.spending import BudgetMark, DayTotal, Segment
from windlass.core.model.tenant import Tenant
from windlass.core.model.token import IssuedToken
from windlass.core.model.volume import Volume
from windlass.core.scaling import ScalingStep


class Table(StrEnum):
    TENANTS = "tenants"
    PRICES = "prices"
    TOTALS = "totals"
    BURSTS = "bursts"
    BUDGETS = "budgets"
    GONE = "gone"
    TOKENS = "tokens"
    ACCOUNTS = "accounts"
    POOLS = "pools"
    WORKERS = "workers"
    GROWTHS = "growths"
    NODES = "nodes"
    JOBS = "jobs"
    RUNS = "runs"
    VOLUMES = "volumes"
    NAMES = "names"
    KEYS = "keys"
    HOOKS = "hooks"
    SECRETS = "secrets"
    LOGINS = "logins"
    ANSWERS = "answers"
    SPECS = "specs"
    SEALED = "sealed"
    OUTBOX = "outbox"

    __hash__ = str.__hash__  # enum's own is a function in Python, called for every look into a dictionary


ACCOUNTS: Final = Table.ACCOUNTS
JOBS: Final = Table.JOBS
OUTBOX: Final = Table.OUTBOX
RUNS: Final = Table.RUNS
SPECS: Final = Table.SPECS
TOTALS: Final = Table.TOTALS
VOLUMES: Final = Table.VOLUMES
"""What a job's life passes through, by names of their own: to find a member in its class takes ten times as long."""

KEPT: Final = (
    Table.TENANTS,
    Table.PRICES,
    Table.TOTALS,
    Table.BURSTS,
    Table.BUDGETS,
    Table.GONE,
    Table.TOKENS,
    Table.ACCOUNTS,
    Table.POOLS,
    Table.WORKERS,
    Table.GROWTHS,
    Table.NODES,
    Table.JOBS,
    Table.RUNS,
    Table.VOLUMES,
    Table.NAMES,
    Table.KEYS,
    Table.HOOKS,
    Table.SECRETS,
    Table.LOGINS,
)


class Gone(Struct, frozen=True, kw_only=True):
    """A tenant that was deleted. Its name is never given again: old tokens and history must not become somebody else's."""

    at: Millis


class Name(Struct, frozen=True, kw_only=True):
    """A name somebody chose, held from submit until the job is deleted, so that it means one thing."""

    job: JobId


class Key(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An idempotency key that was used: a retry gets the first answer again."""

    job: JobId
    fingerprint: str
    expires_at: Millis


class Answer(Struct, frozen=True):
    """The body of the first answer, beside its key but never in memory."""

    body: bytes


class JobOver(Struct, frozen=True, kw_only=True, tag="job-over", gc=False):
    """The last word on a job, on its way into the history."""

    job: Job


class RunOver(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="run-over", gc=False):
    """The last word on a run, and what it cost: decided once, with its end."""

    run: Run
    segments: tuple[Segment, ...] = ()


class JobErased(Struct, frozen=True, kw_only=True, tag="job-erased"):
    """Somebody deleted it: its history goes as well."""

    job: JobId
    tenant: TenantId
    at: Millis


class HookOver(Struct, frozen=True, kw_only=True, tag="hook-over"):
    """A webhook was heard, or given up: nothing more is owed."""

    hook: Hook


class Deeds(Struct, frozen=True, kw_only=True, tag="deeds"):
    """Who asked for what: the audit of all decisions that one commit made durable, oldest first."""

    records: tuple[Deed, ...]


class WorkerOver(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="worker-over"):
    """The last word on a worker: nothing of it is left; and what its being there cost."""

    worker: Worker
    at: Millis
    segments: tuple[Segment, ...] = ()


class VolumeStored(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="volume-stored"):
    """A volume was judged, or its job moved on: what its having been stored there cost."""

    volume: Volume
    at: Millis
    segments: tuple[Segment, ...] = ()


Outgoing = JobOver | RunOver | JobErased | HookOver | Deeds | ScalingStep | WorkerOver | VolumeStored
Money = Prices | DayTotal | BurstSession | BudgetMark
Owner = Tenant | Gone | IssuedToken
Place = Pool | Worker | Growth | Node
Guarded = Secret | RegistryLogin | Sealed
Record = (
    Owner | Money | Guarded | Account | Place | Job | Run | Volume | Name | Key | Hook | Answer | JobSpec | Outgoing
)

_TYPES: Final[dict[Table, Any]] = {
    Table.TENANTS: Tenant,
    Table.PRICES: Prices,
    Table.TOTALS: DayTotal,
    Table.BURSTS: BurstSession,
    Table.BUDGETS: BudgetMark,
    Table.GONE: Gone,
    Table.TOKENS: IssuedToken,
    Table.ACCOUNTS: Account,
    Table.POOLS: Pool,
    Table.WORKERS: Worker,
    Table.GROWTHS: Growth,
    Table.NODES: Node,
    Table.JOBS: Job,
    Table.RUNS: Run,
    Table.VOLUMES: Volume,
    Table.NAMES: Name,
    Table.KEYS: Key,
    Table.HOOKS: Hook,
    Table.SECRETS: Secret,
    Table.LOGINS: RegistryLogin,
    Table.ANSWERS: Answer,
    Table.SPECS: JobSpec,
    Table.SEALED: Sealed,
    Table.OUTBOX: Outgoing,
}
_BY_NAME: Final = {table.value: table for table in Table}
_DECODERS: Final = {table: msgspec.json.Decoder(kind) for table, kind in _TYPES.items()}
_ENCODER: Final = msgspec.json.Encoder()

PRICES_KEY: Final = "current"
"""There is one list of prices."""

ROOT: Final = "w/"
NUMBER_KEY: Final = "w/number"
"""Epoch and number of the newest decision in the store: what an uncertain commit is judged by."""


def store_key(table: Table, key: str) -> str:
    return f"{ROOT}{table}/{key}"


def table_prefix(table: Table) -> str:
    return f"{ROOT}{table}/"


def parse_key(key: str) -> tuple[Table, str] | None:
    """The table and key of a store key, or None for keys that are not the World's."""
    if not key.startswith(ROOT):
        return None
    table, slash, rest = key[len(ROOT) :].partition("/")
    known = _BY_NAME.get(table)
    return (known, rest) if slash and known is not None else None


def encode(record: Record) -> bytes:
    return _ENCODER.encode(record)


def decode(table: Table, value: bytes) -> Any:
    """The record; unknown fields are ignored on reading, so that a newer writer does not stop an older reader."""
    return _DECODERS[table].decode(value)


class Mark(Struct, frozen=True):
    """The value under NUMBER_KEY, written with every commit."""

    epoch: int
    number: int
    at: Millis = Millis(0)
    """When the commit was made: the moment of changes that have none of their own. 0 in commits of older versions."""
