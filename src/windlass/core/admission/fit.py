"""A job that can fit no node ever is refused at the door, with the node that comes nearest and what that one lacks.

A pool that is closed to its tenant is refused in the words for one that is not there: names are not to be guessed.
"""

from collections.abc import Mapping

from windlass.core.errors import Fault, Invalid
from windlass.core.model.amounts import BYTES, MILLICORES, spoken
from windlass.core.model.ids import PoolId
from windlass.core.model.job import Job
from windlass.core.model.node import Node
from windlass.core.model.pool import Pool
from windlass.core.model.shape import Shape
from windlass.core.placement.nodes import Nodes

_FIELDS = {
    "gpu": "spec.resources.gpu",
    "cpu": "spec.resources.cpu",
    "memory": "spec.resources.memory",
    "pool": "spec.pool",
    "pool not allowed": "spec.pool",
    "runtime": "spec.image",
}
_POOL = frozenset({"pool", "pool not allowed"})
_LOST = "an admin's `windlass tenants quota {tenant} --pool any` lets it use those there are"


def check_fit(job: Job, nodes: Nodes, pools: Mapping[PoolId, Pool]) -> None:
    """`pools`: those on record; one that cannot grow, or has lost its nodes, is there all the same."""
    shape = job.shape
    missing = nodes.could_ever_fit(shape)
    if not missing:
        return
    nearest, is_lost = nodes.nearest(shape), _is_lost(job, nodes, pools)
    faults = [
        Fault(_FIELDS.get(what, "spec.nodeSelector"), _explain(what, shape, nearest, nodes, is_lost=is_lost))
        for what in missing
    ]
    hint = _LOST.format(tenant=job.tenant) if is_lost and set(missing) & _POOL else _hint(missing)
    raise Invalid("no node could ever run this job", code="fits-nowhere", faults=faults, hint=hint)


def _is_lost(job: Job, nodes: Nodes, pools: Mapping[PoolId, Pool]) -> bool:
    """Its tenant's quota names pools, and none of them is there: whatever it asks for, it is refused."""
    there = nodes.pools(job.shape) | {pool.id for pool in pools.values() if pool.admits(job.tenant)}
    return bool(job.shape.allowed) and there.isdisjoint(job.shape.allowed)


def _explain(what: str, shape: Shape, nearest: Node | None, nodes: Nodes, *, is_lost: bool) -> str:
    if nearest is None:
        return "there is no node yet"
    who = f"node {nearest.id}" if nearest.id else "a worker to come"
    there, needs = f"the nearest fit, {who} of pool {nearest.pool}, has", shape.needs
    if what == "gpu":
        return f"asks for {needs.gpus} GPU; {there} {nearest.capacity.gpus}"
    if what == "cpu":
        return _apart(needs.cpu_millis, nearest.capacity.cpu_millis, MILLICORES, there)
    if what == "memory":
        return _apart(needs.memory_bytes, nearest.capacity.memory_bytes, BYTES, there)
    if what == "runtime":
        return f"needs a {shape.runtime} runtime; no node has one"
    if what == "pool":
        pools = sorted(nodes.pools(shape))
        return f"no node is in pool {' or '.join(shape.pools)}; there are: {', '.join(pools)}"
    if what == "pool not allowed" and is_lost:
        are = "is" if len(shape.allowed) == 1 else "are"
        return f"its tenant may use only pool {' or '.join(shape.allowed)}, which {are} not there any more"
    if what == "pool not allowed":
        asked = f"pool {' or '.join(shape.pools)}" if shape.pools else "any other"
        return f"its tenant may use pool {' or '.join(shape.allowed)}, not {asked}"
    return f"no node matches: {what}"


def _apart(asked: int, there: int, unit: str, who_has: str) -> str:
    (more, less), name = spoken((asked, there), unit)
    return f"asks for {more} {name}; {who_has} {less}"


def _hint(missing: tuple[str, ...]) -> str:
    if set(missing) & _POOL:
        return "name another pool, or none; `windlass get pools` shows those you may use"
    if "node" in missing:
        return "no node is there that you may use; `windlass get nodes` shows them once there are"
    if "gpu" in missing:
        return "there is no such GPU here: ask for none with --gpu 0 (resources.gpu: 0)"
    if "runtime" in missing:
        return "start the server with a container engine, or run without an image: windlass run -- CMD"
    if not set(missing) <= _FIELDS.keys():
        return "ask for labels that a node has, or for none; `windlass get nodes -o yaml` shows them"
    return "ask for less; `windlass get nodes` shows what the nodes have"
