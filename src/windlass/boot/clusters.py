"""A cluster as a pool of this server: its runtime, its one node, and the agent that keeps the runs there."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import structlog
from msgspec import structs

from windlass.adapters.guests.kubernetes import KubernetesGuests
from windlass.adapters.keys.directory import KeyDirectory
from windlass.adapters.runtime.kubernetes import KubernetesRuntime
from windlass.adapters.runtime.kubernetes.machine import machine_of
from windlass.agent.agent import Agent
from windlass.agent.journal import Journal
from windlass.boot.installation import Identity
from windlass.boot.settings import KubernetesSettings, Settings
from windlass.boot.slices import Nodes
from windlass.control.guests import GuestDoor
from windlass.control.plane import ControlPlane
from windlass.core.errors import Invalid, NotFound, WindlassError
from windlass.core.model.ids import Millis, NodeId, PoolId
from windlass.core.model.node import Node
from windlass.core.model.pool import Pool
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.world.pools import create_pool
from windlass.core.world.workers import join_node
from windlass.ports.clock import Clock
from windlass.ports.guests import Guests
from windlass.ports.runtime import Machine
from windlass.wire.kube.pod import PodPolicy
from windlass.wire.kube.taints import read_selector, read_tolerations
from windlass.wire.quantities import read_bytes, read_cores

if TYPE_CHECKING:
    from windlass.client.kube.api import KubeApi

MANAGER: Final = "windlass"
LOOK_SECONDS: Final = 60.0
KIND: Final = "container"
MISSING: Final = "a cluster as a pool needs two more packages"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Open, and not yet a pool: the plane comes in between."""

    settings: KubernetesSettings
    runtime: KubernetesRuntime
    guests: tuple[Guests, ...]
    """One for each place that is looked at."""

    @property
    def name(self) -> str:
        return self.settings.pool

    async def join(self, nodes: Nodes, stack: AsyncExitStack, directory: Path) -> "ClusterPool":
        """A static pool that is there by itself, like that of the machine; an admin sets its price and who may use it."""
        plane, pool = nodes.plane, PoolId(self.name)
        world, now = plane.brain.world, plane.clock.now()
        node = await self.node(plane)
        plane.pool_runtimes[pool] = KIND
        if pool not in world.tables.fleet.pools:
            create_pool(world, Pool(id=pool), world.tables.prices.pools.get(pool), now=now)
        join_node(world, node, now=now)
        plane.brain.committer.nudge()
        journal = Journal(directory / "journal")
        stack.callback(journal.close)
        agent = replace(nodes, home=node, runtime=self.runtime).agent(node, journal)
        doors = tuple(GuestDoor(plane, guests, pool) for guests in self.guests)
        return ClusterPool(cluster=self, plane=plane, agent=agent, doors=doors)

    async def node(self, plane: ControlPlane) -> Node:
        """A cluster that does not answer has what it had: a server that starts meanwhile does not take its runs for lost."""
        name = NodeId(self.name)
        known = plane.brain.world.tables.nodes.get(name)
        try:
            machine = await self.runtime.machine()
        except WindlassError as exc:
            log.warning("kubernetes.unavailable", code=exc.code, why=exc.message)
            return structs.replace(known, hands_on_labels=True) if known else _node(self.settings, NOTHING, ())
        plane.runtime_names[name] = machine.runtime
        return _node(self.settings, *_offered(self.settings, machine))


@dataclass(frozen=True, kw_only=True)
class ClusterPool:
    cluster: Cluster
    plane: ControlPlane
    agent: Agent
    doors: tuple[GuestDoor, ...]

    async def run(self) -> None:
        """The agent, and a look now and then at what the cluster has."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.agent.run)
            tasks.start_soon(self._keep_capacity)
            for door in self.doors:
                tasks.start_soon(door.run)

    async def _keep_capacity(self) -> None:
        while True:
            await anyio.sleep(LOOK_SECONDS)
            node = await self.cluster.node(self.plane)
            known = self.plane.brain.world.tables.nodes.get(node.id)
            if known is not None and (known.capacity, known.gpu_ids) != (node.capacity, node.gpu_ids):
                await self.plane.brain.decide(partial(self._join, node))

    def _join(self, node: Node, now: Millis) -> int:
        return join_node(self.plane.brain.world, node, now=now)


@asynccontextmanager
async def open_cluster(settings: Settings, who: Identity, clock: Clock, keys: Path) -> AsyncIterator[Cluster | None]:
    """None where none is configured. The API server may be away at that moment; a configuration that cannot be read is said."""
    if settings.kubernetes is None:
        yield None
        return
    wanted = settings.kubernetes
    async with open_api(wanted) as api, open_runtime(api, wanted, who, clock, keys) as runtime:
        places = (wanted.tenant_namespaces or ("",)) if wanted.tenants else ()
        guests = (KubernetesGuests(api, clock, own_namespace=wanted.namespace, namespace=place) for place in places)
        yield Cluster(settings=wanted, runtime=runtime, guests=tuple(guests))


@asynccontextmanager
async def open_kubernetes(
    settings: KubernetesSettings, who: Identity, clock: Clock, keys: Path
) -> AsyncIterator[KubernetesRuntime]:
    async with open_api(settings) as api, open_runtime(api, settings, who, clock, keys) as runtime:
        yield runtime


@asynccontextmanager
async def open_api(settings: KubernetesSettings) -> AsyncIterator["KubeApi"]:
    try:
        # Here and not above: a server without a cluster does without these packages, and starts sooner.
        from windlass.client.kube.api import KubeApi, read_config
    except ImportError as exc:
        raise Invalid(MISSING, code="settings", hint="pip install 'windlass[k8s]'") from exc
    async with KubeApi(read_config(settings.kubeconfig, settings.context), manager=MANAGER) as api:
        yield api


def open_runtime(
    api: "KubeApi", settings: KubernetesSettings, who: Identity, clock: Clock, keys: Path
) -> AbstractAsyncContextManager[KubernetesRuntime]:
    async def sign(payload: bytes) -> str:
        return await anyio.to_thread.run_sync(KeyDirectory(keys).sign, payload)

    return KubernetesRuntime.open(
        api,
        namespace=settings.namespace,
        installation=who.installation,
        node=settings.pool,
        clock=clock,
        side_image=settings.side_image,
        policy=_policy(settings),
        sign=sign if settings.tenants else None,
        guest_namespaces=settings.tenant_namespaces,
    )


async def examine(settings: KubernetesSettings) -> tuple[str, str]:
    """What the cluster has, and what to do about it if it is not fit; for `doctor`."""
    try:
        from windlass.client.kube.api import JOBS, NODES, KubeApi, read_config

        async with KubeApi(read_config(settings.kubeconfig, settings.context), manager=MANAGER) as api:
            machine = machine_of(await api.list(NODES), _policy(settings))
            await api.version(JOBS, settings.namespace)
    except ImportError:
        return MISSING, "pip install 'windlass[k8s]'"
    except NotFound:
        return (
            "the cluster does not know EphemeralAccelerationJob",
            "put the operator into it: windlass operator install",
        )
    except WindlassError as exc:
        return exc.message, exc.hint or "see that it answers: kubectl get nodes"
    has = machine.capacity
    return f"{machine.runtime} · {has.cpu_millis / 1000:g} cores · {has.memory_bytes / (1 << 30):.1f} GiB", ""


def _policy(settings: KubernetesSettings) -> PodPolicy:
    """As far as it is the operator's too."""
    return PodPolicy(
        gpu_resource=settings.gpu_resource,
        node_selector=read_selector(settings.node_selector),
        tolerations=read_tolerations(settings.tolerations),
        gpu_tolerations=read_tolerations(settings.gpu_tolerations),
    )


def _offered(settings: KubernetesSettings, machine: Machine) -> tuple[Resources, tuple[str, ...]]:
    """What the settings say, else what the nodes can give."""
    has, gpus = machine.capacity, machine.gpu_ids
    if settings.gpus is not None:
        gpus = tuple(f"{settings.gpu_resource}-{n}" for n in range(settings.gpus))
    capacity = structs.replace(
        has,
        cpu_millis=has.cpu_millis if settings.cpu is None else read_cores(settings.cpu),
        memory_bytes=has.memory_bytes if settings.memory is None else read_bytes(settings.memory),
        gpus=len(gpus),
    )
    return capacity, gpus


def _node(settings: KubernetesSettings, capacity: Resources, gpu_ids: tuple[str, ...]) -> Node:
    return Node(
        id=NodeId(settings.pool),
        pool=PoolId(settings.pool),
        capacity=capacity,
        gpu_ids=gpu_ids,
        runtimes=(KIND,),
        hands_on_labels=True,
    )
