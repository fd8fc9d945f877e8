"""What makes the workers of a dynamic pool and takes them back: slices of this machine, later spare machines and pods.

A worker is on record before `ask` is called and until `end` has returned. Both may be repeated, also after a crash in between;
`list` says what is really there, so that whatever nobody knows of can be ended.
"""

from typing import Protocol

from msgspec import Struct

from windlass.core.model.ids import NodeId, PoolId
from windlass.core.model.resources import Resources


class WorkerOrder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What its node will say that it is when it joins."""

    worker: NodeId
    pool: PoolId
    capacity: Resources
    runtimes: tuple[str, ...] = ()


class Provisioner(Protocol):
    async def ask(self, order: WorkerOrder) -> None:
        """Make it. For one that is there, or on its way, nothing happens. Unavailable: ask again."""
        ...

    async def end(self, worker: NodeId) -> None:
        """Returns when nothing of it is left. One that never was is fine. Unavailable: ask again."""
        ...

    async def list(self) -> tuple[NodeId, ...]:
        """All that are there or on their way. Unavailable is not the same as none."""
        ...
