"""A World with a machine that slices can be cut from, for the tests of pools."""

from msgspec.structs import replace

from windlass.core.model.facts import RunEnded
from windlass.core.model.ids import LOCAL_TENANT, Millis, NodeId, PoolId, RunId, TenantId
from windlass.core.model.node import Node
from windlass.core.model.pool import Measure, Pool, PoolKind, Scaling, Trigger, Worker
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run, RunState
from windlass.core.model.tenant import Tenant
from windlass.core.world.facts import observe
from windlass.core.world.ground import Ground
from windlass.core.world.pools import create_pool
from windlass.core.world.submit import submit
from windlass.core.world.workers import join_node
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission

START = Millis(1_000_000)
GPUS = ("g0", "g1", "g2")
MACHINE = Resources(cpu_millis=8000, memory_bytes=16 * GIB, gpus=len(GPUS))
GROW = PoolId("grow")
QUICK = (Trigger(measure=Measure.DEPTH, up=1, down=0, target=1),)


def a_ground(*tenants: TenantId) -> World:
    world = World(epoch=1)
    for tenant in (LOCAL_TENANT, *tenants):
        world.set_tenant(Tenant(id=tenant), now=START)
    world.tables.fleet.ground = Ground(node=NodeId("n1"), capacity=MACHINE)
    join_node(world, a_node("n1", cpu=MACHINE.cpu_millis, memory=MACHINE.memory_bytes, gpu_ids=GPUS), now=START)
    return world


def a_pool(
    name: str = GROW, *, labels: tuple[tuple[str, str], ...] = (), tenants: tuple[TenantId, ...] = (), **scaling: object
) -> Pool:
    said = {
        "workers_max": 3,
        "worker": Resources(cpu_millis=2000, memory_bytes=4 * GIB),
        "triggers": QUICK,
        "runs_per_worker": 0,
        **scaling,
    }
    return Pool(
        id=PoolId(name),
        kind=PoolKind.DYNAMIC,
        provisioner="slice",
        runtimes=("container",),
        labels=labels,
        tenants=tenants,
        scaling=Scaling(**said),  # type: ignore[arg-type]
    )


def a_growing_world(*tenants: TenantId, **scaling: object) -> World:
    world = a_ground(*tenants)
    create_pool(world, a_pool(**scaling), None, now=START)  # type: ignore[arg-type]
    return world


def node_of(worker: Worker, world: World) -> Node:
    pool = world.tables.fleet.pools[worker.pool]
    assert pool.scaling is not None
    return Node(id=worker.id, pool=worker.pool, capacity=pool.scaling.worker, runtimes=pool.runtimes)


def come(world: World, now: Millis) -> None:
    """Every worker that was asked for joins."""
    for worker in list(world.tables.fleet.workers.values()):
        if worker.state == "asked":
            join_node(world, node_of(worker, world), now=now)


def wants(world: World, count: int = 1, *, now: Millis, tenant: TenantId = LOCAL_TENANT, cpu: int = 1000) -> None:
    """Jobs that only the growing pool may run."""
    for _ in range(count):
        asked = replace(a_submission(cpu=cpu, memory=GIB), pools=(GROW,))
        submit(world, tenant, asked, job=a_job_id(), now=now)


def over(world: World, run: RunId | Run, now: Millis) -> None:
    found = world.tables.runs[run if isinstance(run, str) else run.id]
    observe(world, RunEnded(run=found.id, token=found.token, state=RunState.EXITED, exit_code=0), now=now)
