"""A whole local home in memory: control plane, agent and fake machine, running, for tests that need the real loops."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import anyio

from windlass.adapters.clock.service import ServiceClock
from windlass.adapters.ids.system import SystemIds
from windlass.adapters.logs.files import FileLogs
from windlass.adapters.readmodel.sqlite import SqliteReadTables
from windlass.agent.agent import Agent
from windlass.agent.journal import Journal
from windlass.control.assemble import assemble
from windlass.control.observer import NodeLink
from windlass.control.plane import ControlPlane
from windlass.control.readmodel import one_thread
from windlass.core.errors import Invalid
from windlass.core.model.ids import LOCAL_TENANT, TenantId
from windlass.core.model.tenant import Tenant
from windlass.core.world.ground import Ground
from windlass.core.world.workers import join_node
from windlass.ports.failpoints import NONE
from windlass.ports.fetcher import Fetched, Fetcher
from windlass.ports.provisioner import Provisioner
from windlass.ports.secrets import Sealer
from windlass.ports.store import Limits, Store
from windlass.testing.blobs import MemoryBlobs
from windlass.testing.builders import a_node
from windlass.testing.runtime.machine import FakeMachine
from windlass.testing.runtime.runtime import FakeRuntime
from windlass.testing.secrets import MemorySealer
from windlass.testing.store import MemoryStore

_PATIENCE_SECONDS = 60.0
"""A reader on a machine that is busy with other things sees what was written before it asked, however long that takes."""


class NoFetcher:
    """Reaches nothing."""

    def may_reach(self, url: str) -> bool:
        return True

    def get(self, url: str, *, bytes_max: int) -> AbstractAsyncContextManager[Fetched]:
        self._refuse(url)

    async def post(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> int:
        self._refuse(url)

    def _refuse(self, url: str) -> NoReturn:
        raise Invalid(f"this plane reaches nothing outside: {url}", code="address")


@dataclass(frozen=True, kw_only=True)
class MemoryHome:
    plane: ControlPlane
    store: Store
    machine: FakeMachine
    directory: Path


@asynccontextmanager
async def memory_home(
    *,
    tenants: tuple[TenantId, ...] = (LOCAL_TENANT,),
    fetcher: Fetcher | None = None,
    store: Store | None = None,
    sealer: Sealer | None = None,
    provisioners: Mapping[str, Provisioner] | None = None,
    patience_seconds: float = _PATIENCE_SECONDS,
) -> AsyncIterator[MemoryHome]:
    """Everything runs: a job submitted to it is placed, started on the fake machine, and ends."""
    with TemporaryDirectory(prefix="windlass-") as directory:
        root = Path(directory)
        clock, logs, blobs = ServiceClock(root / "clock.json"), FileLogs(root / "logs"), MemoryBlobs()
        machine = FakeMachine(clock)
        node = a_node("n1")
        runtime = FakeRuntime(machine, node=node.id)
        kept = store or MemoryStore(limits=Limits(operations=20_000, bytes=32 << 20))
        offered = await runtime.machine()
        journal = Journal(root / "journal")
        plane = await assemble(
            store=kept,
            tables=SqliteReadTables(":memory:"),
            blobs=blobs,
            logs=logs,
            fetcher=fetcher or NoFetcher(),
            runtime=runtime,
            machine=offered,
            clock=clock,
            ids=SystemIds(),
            sealer=sealer or MemorySealer(),
            guard=journal,
            failpoints=NONE,
            offload=one_thread(),
            provisioners=provisioners,
            patience_seconds=patience_seconds,
        )
        world = plane.brain.world
        world.tables.fleet.ground = Ground(node=node.id, capacity=offered.capacity)
        for tenant in tenants:
            plane.brain.world.set_tenant(Tenant(id=tenant), now=clock.now())
        node = a_node("n1", cpu=offered.capacity.cpu_millis, memory=offered.capacity.memory_bytes)
        agent = Agent(
            node,
            link=NodeLink(plane.brain, plane.dispatch, plane.secrets, node.id),
            runtime=runtime,
            blobs=blobs,
            logs=logs,
            journal=journal,
            clock=clock,
            failpoints=NONE,
            starts_max=4,
            owns=lambda run: (known := world.tables.runs.get(run)) is None or known.node == node.id,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(plane.run)
            await plane.brain.decide(lambda now: join_node(world, node, now=now))
            tasks.start_soon(agent.run)
            yield MemoryHome(plane=plane, store=kept, machine=machine, directory=root)
            tasks.cancel_scope.cancel()
        journal.close()


@asynccontextmanager
async def memory_plane(*, tenants: tuple[TenantId, ...] = (LOCAL_TENANT,)) -> AsyncIterator[ControlPlane]:
    async with memory_home(tenants=tenants) as home:
        yield home.plane
