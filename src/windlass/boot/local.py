"""The composition root of the local home: control plane, node and page in one process, on SQLite."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import anyio
import structlog

from windlass.adapters.blobs.directory import DirectoryBlobs
from windlass.adapters.clock.service import ServiceClock
from windlass.adapters.failpoints.environment import from_environment
from windlass.adapters.fetcher.http import HttpFetcher
from windlass.adapters.ids.system import SystemIds
from windlass.adapters.logs.files import FileLogs
from windlass.adapters.readmodel.scribe import Scribe
from windlass.adapters.readmodel.sqlite import SqliteReadTables
from windlass.adapters.readmodel.written import WrittenTables
from windlass.adapters.runtime.docker.finding import Found, find_engine
from windlass.adapters.runtime.docker.runtime import DockerRuntime
from windlass.adapters.runtime.docker.subnets import Addresses
from windlass.adapters.runtime.process.runtime import ProcessRuntime
from windlass.adapters.secrets.directory import KeyFiles
from windlass.adapters.store.sqlite import SqliteStore
from windlass.agent.agent import Agent
from windlass.agent.journal import Journal
from windlass.boot.clusters import ClusterPool, open_cluster
from windlass.boot.installation import Identity, Installation
from windlass.boot.settings import NO_NETWORKS, Settings
from windlass.boot.slices import Nodes, Slices
from windlass.control.assemble import assemble
from windlass.control.janitor import Retention
from windlass.control.plane import ControlPlane
from windlass.control.readmodel import one_thread
from windlass.core.errors import Conflict, Unavailable
from windlass.core.model.ids import LOCAL_TENANT, Millis, NodeId, PoolId
from windlass.core.model.node import Node
from windlass.core.model.pool import Pool
from windlass.core.model.tenant import Tenant
from windlass.core.world.ground import SLICE, Ground
from windlass.core.world.policy import Policy
from windlass.core.world.pools import create_pool
from windlass.core.world.prices import follow_setting
from windlass.core.world.workers import join_node
from windlass.ports.fetcher import Fetcher
from windlass.ports.runtime import Machine, Runtime

log = structlog.get_logger()

LOCAL_POOL = PoolId("local")
_DAY_MS = 86_400_000
_GATHERING_SECONDS = 0.04
"""Some commits' worth: a third of what taking them in costs the machine is saved, and nobody has looked meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Local:
    plane: ControlPlane
    agent: Agent
    slices: Slices
    cluster: ClusterPool | None
    clock: ServiceClock
    machine: Machine
    fetcher: Fetcher
    found: Found | None
    """What was tried for a container engine; None when none was wanted."""

    async def run(self) -> None:
        """Until it is cancelled, or something breaks."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.plane.run)
            tasks.start_soon(self.clock.run)
            tasks.start_soon(self.agent.run)
            tasks.start_soon(self.slices.provisioner.run)
            if self.cluster is not None:
                tasks.start_soon(self.cluster.run)


@asynccontextmanager
async def open_local(
    settings: Settings, installation: Installation, environ: Mapping[str, str], scribe: Scribe | None = None
) -> AsyncIterator[Local]:
    """Everything opened and wired, nothing running yet. Without a scribe this process writes the read model itself."""
    ids = SystemIds()
    who = installation.identity(ids.uuid7())
    clock = ServiceClock(installation.clock)
    async with AsyncExitStack() as stack:
        runtime, found = await stack.enter_async_context(open_runtime(settings, installation, who, clock, environ))
        machine = await runtime.machine()
        cluster = await stack.enter_async_context(open_cluster(settings, who, clock, installation.keys))
        store = await stack.enter_async_context(SqliteStore.open(installation.store))
        path = installation.read_model
        tables = WrittenTables(path, scribe) if scribe is not None else SqliteReadTables(path)
        stack.callback(tables.close)
        blobs = await DirectoryBlobs.open(installation.blobs)
        fetcher = HttpFetcher(allowed_networks=settings.fetch_networks)
        logs = FileLogs(installation.logs)
        journal = Journal(installation.node / "journal")
        stack.callback(journal.close)
        failpoints = from_environment(environ)
        slices = Slices(installation.node / "slices")
        plane = await assemble(
            store=store,
            tables=tables,
            blobs=blobs,
            logs=logs,
            fetcher=fetcher,
            runtime=runtime,
            machine=machine,
            others={} if cluster is None else {NodeId(cluster.name): cluster.runtime},
            clock=clock,
            ids=ids,
            sealer=KeyFiles(installation.keys),
            guard=journal,
            failpoints=failpoints,
            offload=one_thread(),
            writing=one_thread() if scribe is not None else None,
            gathering_seconds=_GATHERING_SECONDS,
            policy=_policy(settings, machine),
            retention=Retention(
                history_ms=Millis(settings.retention_days * _DAY_MS), audit_ms=Millis(settings.audit_days * _DAY_MS)
            ),
            epoch_seen=journal.epoch,
            provisioners={SLICE: slices.provisioner},
        )
        _check_runs(plane, machine.kind, elsewhere=frozenset(plane.runtimes.others))
        node = _node(who, machine)
        _make_own_tenant(plane)
        _follow_prices(plane, settings)
        _set_ground(plane, node)
        slices.nodes = nodes = Nodes(
            plane=plane, home=node, runtime=runtime, blobs=blobs, logs=logs, clock=clock, failpoints=failpoints
        )
        agent = nodes.agent(node, journal)
        pool = None if cluster is None else await cluster.join(nodes, stack, installation.node / "cluster")
        yield Local(
            plane=plane,
            agent=agent,
            slices=slices,
            cluster=pool,
            clock=clock,
            machine=machine,
            fetcher=fetcher,
            found=found,
        )


@asynccontextmanager
async def open_runtime(
    settings: Settings, installation: Installation, who: Identity, clock: ServiceClock, environ: Mapping[str, str]
) -> AsyncIterator[tuple[Runtime, Found | None]]:
    """The engine that was named, or used before, or answers; plain processes only where there never was one."""
    named = settings.docker_host or environ.get("DOCKER_HOST") or next(reversed(installation.engines()), None)
    found = None if settings.runtime == "process" else await find_engine(environ, named)
    if found is not None and found.docker_host is not None:
        installation.note_engine(found.docker_host)
        async with DockerRuntime.open(
            found.docker_host,
            installation=who.installation,
            node=who.node,
            clock=clock,
            environ=environ,
            addresses=addresses(settings),
            failpoints=from_environment(environ),
        ) as runtime:
            yield runtime, found
        return
    if found is not None and (settings.runtime == "docker" or named):
        # Falling back would declare dead what still runs in an engine that is only away.
        raise Unavailable(
            "no container engine answers: " + "; ".join(f"{one.address}: {one.why_not}" for one in found.tried),
            code="engine-absent",
            hint="start it, name another with --docker-host, or run plain processes: windlass up --runtime process",
        )
    async with ProcessRuntime.open(installation.processes, who.installation, who.node) as runtime:
        yield runtime, found


def addresses(settings: Settings) -> Addresses | None:
    if settings.network_range == NO_NETWORKS:
        return None
    return Addresses(settings.network_range, settings.network_size)


def _check_runs(plane: ControlPlane, kind: str, *, elsewhere: frozenset[NodeId]) -> None:
    """Runs of another runtime would look as if they had vanished."""
    tables = plane.brain.world.tables
    here = [run for run in tables.runs.values() if not run.is_over and run.node not in elsewhere]
    strange = [run for run in here if tables.jobs[run.job].shape.runtime != kind]
    if strange:
        raise Conflict(
            f"{len(strange)} of this installation's jobs run on another runtime than {kind}",
            code="runtime-differs",
            hint="start with the runtime you had, or end them first: windlass down",
        )


def _set_ground(plane: ControlPlane, node: Node) -> None:
    """The machine: a static pool of its own that is there by itself, and what slices are cut from."""
    world, now = plane.brain.world, plane.clock.now()
    world.tables.fleet.ground = Ground(node=node.id, capacity=node.capacity)
    if LOCAL_POOL not in world.tables.fleet.pools:
        create_pool(world, Pool(id=LOCAL_POOL), world.tables.prices.pools.get(LOCAL_POOL), now=now)
    join_node(world, node, now=now)
    plane.brain.committer.nudge()


def _follow_prices(plane: ControlPlane, settings: Settings) -> None:
    said = settings.prices
    if said is not None:
        setting = said.model_dump_json(exclude_unset=True)
        now = plane.clock.now()
        follow_setting(plane.brain.world, setting, every=said.book(), tiers=said.thousandths(), now=now)


def _make_own_tenant(plane: ControlPlane) -> None:
    """Once: its quota is the machine and what is beyond waits, until an admin says otherwise, which holds from then on."""
    world = plane.brain.world
    if LOCAL_TENANT not in world.tables.tenants:
        world.set_tenant(Tenant(id=LOCAL_TENANT, is_tier_weight=True), now=plane.clock.now())


def _policy(settings: Settings, machine: Machine) -> Policy:
    seconds = settings.default_timeout_seconds
    return Policy(
        only_tenant=LOCAL_TENANT if machine.kind == "process" else None,
        burst_reserve=settings.burst_reserve_percent * 10,
        boost_cap=settings.boost_percent * 10,
        default_timeout_ms=None if seconds is None else Millis(seconds * 1000),
        unclaimed_volume_ttl_ms=Millis(settings.unclaimed_volume_seconds * 1000),
    )


def _node(who: Identity, machine: Machine) -> Node:
    return Node(
        id=who.node, pool=LOCAL_POOL, capacity=machine.capacity, gpu_ids=machine.gpu_ids, runtimes=(machine.kind,)
    )
