"""What the read model answers with: the inside shapes, joined. `wire` turns them into manifests."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from windlass.core.model.hook import Hook
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.job import Job, JobKind, JobSpec, JobState
from windlass.core.model.node import Node
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run
from windlass.core.model.volume import Volume


class JobView(Struct, frozen=True, kw_only=True):
    job: Job
    spec: JobSpec
    runs: tuple[Run, ...] = ()
    """Oldest first. Empty in lists unless asked for."""
    ran_ms: Millis = Millis(0)
    """How long its runs that are over ran, together; also in lists."""
    revision: int = 0
    hook: Hook | None = None
    """How telling of its end goes, if somebody is to be told. None in lists."""


def ran_over(job: Job, runs: Sequence[Run]) -> Millis:
    """How long its runs that are over ran, together: without the backoff and the waiting between them.

    As their nodes measured it, and as it is charged: when an end was heard of says how long nobody listened, too. `runs`: all of
    them; where they are not known, from the first start to the end.
    """
    if runs:
        return Millis(sum(_ran(run) for run in runs))
    if job.started_at is None or job.finished_at is None:
        return Millis(0)
    return Millis(job.finished_at - job.started_at)


def _ran(run: Run) -> int:
    if run.ran_ms is not None:
        return run.ran_ms
    return run.ended_at - run.started_at if run.ended_at is not None and run.started_at is not None else 0


class JobQuery(Struct, frozen=True, kw_only=True):
    """`tenant` None is the admin's view of all."""

    tenant: TenantId | None
    states: tuple[JobState, ...] = ()
    """Any, where neither is said."""
    with_suspended: bool = False
    """Also those PENDING that are held back."""
    kind: JobKind | None = None
    labels: Mapping[str, str] = {}
    name_prefix: str = ""
    newest_first: bool = True
    limit: int = 100
    cursor: str = ""


class JobPage(Struct, frozen=True, kw_only=True):
    items: tuple[JobView, ...]
    next_cursor: str | None
    revision: int


class Asked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an accepted job asked for: enough to submit its like again, in another world."""

    needs: Resources
    priority: int = 0
    expected_ms: Millis | None = None
    sla_ms: Millis | None = None
    pools: tuple[PoolId, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    """Those a node must have."""


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened to a job, node, worker, pool or budget, derived from its changes in the store."""

    revision: int
    job: str = ""
    """Empty for what happened to anything else."""
    at: Millis
    kind: str
    """Accepted, Scheduled, Starting, Running, Succeeded, Failed, TimedOut, Cancelled, Retried, Released …; NodeJoined …,
    WorkerReady …, PoolGrown …, PoolLabelled, BudgetThreshold; WebhookFailed, WebhookHeard, WebhookGivenUp"""
    reason: str = ""
    message: str = ""
    attempt: int = 0
    node: str = ""
    tenant: str = ""
    name: str = ""
    """The job's."""
    asked: Asked | None = None
    """With Accepted."""
    pool: str = ""
    """Its own, or the node's,"""
    capacity: Resources | None = None
    """and what it has, when it joined or changed."""
    labels: tuple[tuple[str, str], ...] = ()
    """Of a node that joined or changed its own; of a pool, what its nodes have by it."""


class EventQuery(Struct, frozen=True, kw_only=True):
    tenants: tuple[str, ...] | None
    """Whose jobs and budgets; `""` is among them for what happened to nodes and pools. None: everybody's, and those."""
    subject: str = ""
    """A job's or node's id, `pool/NAME`, `tenant/NAME`; empty: whatever happened."""
    after: int = 0
    """A revision."""
    limit: int = 1_000
    is_newest: bool = False
    """The last ones, instead of the first after `after`."""


class VolumeView(Struct, frozen=True, kw_only=True):
    volume: Volume
    job_name: str = ""


class NodeView(Struct, frozen=True, kw_only=True):
    node: Node
    labels: dict[str, str]
    """Its own and its pool's: what a `nodeSelector` is held against."""
    free: Resources
    runs: int
    runtime: str = ""
    """What runs things there, for people: `docker 28.2`."""


class CleanupItem(Struct, frozen=True, kw_only=True):
    name: str
    action: str
    """`deleted` or `skipped`"""
    why: str


class CleanupReport(Struct, frozen=True, kw_only=True):
    deleted: int
    skipped: int
    items: tuple[CleanupItem, ...]
