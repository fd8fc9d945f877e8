"""Builders: the nouns with every field that a test does not care about filled in."""

from itertools import count

from windlass.core.model.ids import LOCAL_TENANT, JobId, Millis, NodeId, PoolId, TenantId
from windlass.core.model.job import JobSpec
from windlass.core.model.node import Node
from windlass.core.model.resources import Resources
from windlass.core.model.submission import Submission
from windlass.core.model.tenant import Tenant
from windlass.core.world.policy import Policy
from windlass.core.world.world import World

GIB = 1 << 30
_numbers = count(1)


def a_job_id() -> JobId:
    return JobId(f"01900000-0000-7000-8000-{next(_numbers):012x}")


def a_submission(
    *,
    name: str = "",
    cpu: int = 1000,
    memory: int = GIB,
    gpus: int = 0,
    command: tuple[str, ...] = ("true",),
    retries: int = 0,
    runtime: str = "container",
    image: str = "windlass-test/busybox:1",
    run_ttl_ms: int = 0,
    volume_ttl_ms: int = 3_600_000,
    timeout_ms: int | None = None,
    priority: int = 0,
    suspended: bool = False,
) -> Submission:
    return Submission(
        spec=JobSpec(image=image, command=command, needs=Resources(cpu_millis=cpu, memory_bytes=memory, gpus=gpus)),
        name=name,
        retries=retries,
        runtime=runtime,
        run_ttl_ms=Millis(run_ttl_ms),
        volume_ttl_ms=Millis(volume_ttl_ms),
        timeout_ms=Millis(timeout_ms) if timeout_ms is not None else None,
        priority=priority,
        is_suspended=suspended,
    )


def a_node(
    name: str = "n1",
    *,
    cpu: int = 4000,
    memory: int = 8 * GIB,
    gpu_ids: tuple[str, ...] = (),
    runtime: str = "container",
) -> Node:
    return Node(
        id=NodeId(name),
        pool=PoolId("local"),
        capacity=Resources(cpu_millis=cpu, memory_bytes=memory, gpus=len(gpu_ids)),
        gpu_ids=gpu_ids,
        runtimes=(runtime,),
    )


def a_world(*nodes: Node, tenants: tuple[TenantId, ...] = (LOCAL_TENANT,), policy: Policy | None = None) -> World:
    """With its nodes and tenants in it, and nothing in its journal that a test would have to skip."""
    world = World(epoch=1, policy=policy)
    now = Millis(1_000_000)
    for tenant in tenants:
        world.set_tenant(Tenant(id=tenant), now=now)
    for node in nodes or (a_node(),):
        world.set_node(node, now=now)
    return world
