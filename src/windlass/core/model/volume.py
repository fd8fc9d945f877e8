"""Named storage of a job (`artifacts-<job>`): outlives its run, has its own TTL, is found by uid alone."""

from enum import StrEnum

from msgspec import Struct

from windlass.core.model.ids import JobId, Millis, NodeId, PoolId, TenantId, VolumeId
from windlass.core.model.job import Input
from windlass.core.model.naming import VOLUME_PREFIX


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
    stored_at: Millis | None = None
    """Since when it is paid for: from when its node had it until it is judged or moved. None: it is not."""
    size_bytes: int = 0
    """What is paid for: as its job asked for it."""
    hour_price: int = 0
    """Micro-units a stored GB-hour, fixed then, as is"""
    pool: PoolId = PoolId("")
    """the pool of the node it lies on."""

    @property
    def job_name(self) -> str:
        """For people."""
        return self.name.removeprefix(VOLUME_PREFIX)


def doomed_on(volume: Volume) -> frozenset[NodeId]:
    """The nodes that are told to drop it, or what is left of it there."""
    is_dropping = volume.state is VolumeState.DROPPING
    here = {volume.node} if is_dropping and volume.node is not None else set()
    return frozenset(here | set(volume.left_on if is_dropping or volume.expires_at is not None else ()))
