"""A machine with an agent on it, and the pool that counts it as a worker."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from windlass.core.model.ids import Millis, NodeId, PoolId
from windlass.core.model.resources import Resources


class NodeState(StrEnum):
    ACTIVE = "active"
    NOT_READY = "NotReady"
    INACTIVE = "Inactive"
    CORDONED = "cordoned"
    DRAINING = "draining"
    REMOVED = "removed"


ACTIVE: Final = NodeState.ACTIVE
"""By a name of its own, as `PENDING`."""


class Node(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: NodeId
    pool: PoolId
    capacity: Resources
    gpu_ids: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ("container",)
    """What it can run: `container`, `process`."""
    labels: tuple[tuple[str, str], ...] = ()
    hands_on_labels: bool = False
    """It stands for a cluster, whose own scheduler looks for the labels: here they refuse no job that names the pool."""
    state: NodeState = NodeState.ACTIVE
    since: Millis = Millis(0)
    runs_max: int = 10_000
    """Runs at once, whatever they ask for."""

    @property
    def takes_runs(self) -> bool:
        return self.state is ACTIVE
