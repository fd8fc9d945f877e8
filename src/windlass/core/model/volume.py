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


class Volume(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    id: VolumeId
    tenant: TenantId
    name: str
    """`artifacts-<job>`, what people see."""
    job: JobId | None = None
    """None: made by copy-file for a job that has not come yet."""
    node: NodeId | None = None
    left_on: tuple[NodeId, ...] = ()
    """Where earlier attempts of its job left a copy; those nodes drop theirs when the job is over."""
    state: VolumeState = VolumeState.WAITING
    since: Millis = Millis(0)
    inputs: tuple[Input, ...] = ()
    """Files copied in before the job came; it takes them over when it does."""
    expires_at: Millis | None = None
    """None while its job lives; then finished_at plus the volume TTL."""


def doomed_on(volume: Volume) -> frozenset[NodeId]:
    """The nodes that are told to drop it, or what is left of it there."""
    is_dropping = volume.state is VolumeState.DROPPING
    here = {volume.node} if is_dropping and volume.node is not None else set()
    return frozenset(here | set(volume.left_on if is_dropping or volume.expires_at is not None else ()))


def volume_name(job_name: str) -> str:
    """What people see and say, on every home."""
    return f"artifacts-{job_name}"
