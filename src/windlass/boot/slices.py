"""The nodes of this machine: its own, and the slices cut from it, each with an agent of its own on one runtime.

They share volumes, logs and blobs, so that files, terminals and logs of a job on a slice are found where any other job's are.
"""

from dataclasses import dataclass
from pathlib import Path

from windlass.adapters.provisioner.slice import SliceProvisioner
from windlass.agent.agent import Agent
from windlass.agent.journal import Journal
from windlass.control.observer import NodeLink
from windlass.control.plane import ControlPlane
from windlass.core.model.ids import NodeId, RunId
from windlass.core.model.node import Node
from windlass.ports.blobs import Blobs
from windlass.ports.clock import Clock
from windlass.ports.failpoints import Failpoints
from windlass.ports.logs import Logs
from windlass.ports.provisioner import WorkerOrder
from windlass.ports.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class Nodes:
    plane: ControlPlane
    home: Node
    runtime: Runtime
    blobs: Blobs
    logs: Logs
    clock: Clock
    failpoints: Failpoints

    def agent(self, node: Node, journal: Journal) -> Agent:
        plane = self.plane
        return Agent(
            node,
            link=NodeLink(plane.brain, plane.dispatch, plane.secrets, node.id),
            runtime=self.runtime,
            blobs=self.blobs,
            logs=self.logs,
            journal=journal,
            clock=self.clock,
            failpoints=self.failpoints,
            starts_max=max(2, 2 * node.capacity.cpu_millis // 1000),
            home=self.home.id,
            owns=lambda run: self._whose(run) == node.id,
        )

    def _whose(self, run: RunId) -> NodeId:
        """What nobody knows of is the machine's own node's to sweep."""
        known = self.plane.brain.world.tables.runs.get(run)
        return known.node if known is not None else self.home.id


class Slices:
    """The provisioner, which is there before the plane it serves."""

    def __init__(self, directory: Path) -> None:
        self.nodes: Nodes | None = None
        self.provisioner = SliceProvisioner(directory, self)

    async def serve(self, order: WorkerOrder, directory: Path) -> None:
        assert self.nodes is not None, "run only once the plane is there"
        node = Node(id=order.worker, pool=order.pool, capacity=order.capacity, runtimes=order.runtimes)
        journal = Journal(directory / "journal")
        try:
            await self.nodes.agent(node, journal).run()
        finally:
            journal.close()

    async def clear(self, worker: NodeId) -> None:
        assert self.nodes is not None
        await self.nodes.runtime.end_slice(worker)

    async def uncleared(self) -> tuple[NodeId, ...]:
        assert self.nodes is not None
        return await self.nodes.runtime.slices()
