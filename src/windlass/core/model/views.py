"""What the read model answers with: the inside shapes, joined. `wire` turns them into manifests."""

from collections.abc import Mapping

from msgspec import Struct

from windlass.core.model.ids import Millis, TenantId
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
    revision: int = 0


class JobQuery(Struct, frozen=True, kw_only=True):
    """`tenant` None is the admin's view of all."""

    tenant: TenantId | None
    states: tuple[JobState, ...] = ()
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


class JobEvent(Struct, frozen=True, kw_only=True):
    """One thing that happened to a job, derived from its changes in the store."""

    revision: int
    job: str
    at: Millis
    kind: str
    """Accepted, Scheduled, Starting, Running, Succeeded, Failed, TimedOut, Cancelled, Retried, Suspended, Released …"""
    reason: str = ""
    message: str = ""
    attempt: int = 0
    node: str = ""


class VolumeView(Struct, frozen=True, kw_only=True):
    volume: Volume
    job_name: str = ""


class NodeView(Struct, frozen=True, kw_only=True):
    node: Node
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
