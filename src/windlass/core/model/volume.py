"""Named storage of a job (`artifacts-<job>`): outlives its run, has its own TTL, is found by uid alone."""

from enum import StrEnum

from msgspec import Struct

from windlass.core.model.ids import JobId, Millis, NodeId, TenantId, VolumeId
from windlass.core.model.job import Input


class VolumeState(StrEnum):
    WAITING = "waiting"
    """Inputs may exist as blobs; no node holds it yet."""
    PRESENT = "present"
    DROPPING = "dropping"
    """Judged; listed to its node until the node says it is gone."""


class Volume(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: VolumeId
    tenant: TenantId
    name: str
    """`artifacts-<job>`, what people see."""
    job: JobId | None = None
    """None: made by copy-file for a job that has not come yet."""
    node: NodeId | None = None
    state: VolumeState = VolumeState.WAITING
    since: Millis = Millis(0)
    inputs: tuple[Input, ...] = ()
    """Files copied in before the job came; it takes them over when it does."""
    expires_at: Millis | None = None
    """None while its job lives; then finished_at plus the volume TTL."""


def volume_name(job_name: str) -> str:
    """What people see and say, on every home."""
    return f"artifacts-{job_name}"
