"""Nodes and workers as they come, serve and go: joining, cordon and drain, the end of a worker.

A worker is given back only when nothing runs on it; what its runs left behind stays with the machine it was on.
"""

from typing import Final

from msgspec.structs import replace

from windlass.core.errors import Conflict, NotFound
from windlass.core.metering import worker_segments
from windlass.core.model.ids import Millis, NodeId, TenantId
from windlass.core.model.node import Node, NodeState
from windlass.core.model.pool import Pool, Worker, WorkerState
from windlass.core.world.ground import SLICE
from windlass.core.world.records import Table, WorkerOver
from windlass.core.world.spending import bill_worker
from windlass.core.world.world import World

_HELD_BACK: Final = frozenset({NodeState.CORDONED, NodeState.DRAINING})
_HANDED_A_TIME: Final = 64


def join_node(world: World, node: Node, *, now: Millis) -> int:
    """It says what it is. An admin's cordon or drain outlives its restart; a worker nobody asked for is not let in."""
    tables = world.tables
    known, worker = tables.nodes.get(node.id), tables.fleet.workers.get(node.id)
    pool = tables.fleet.pools.get(node.pool)
    if pool is not None and pool.is_dynamic and (worker is None or (worker.state is WorkerState.ENDING and not known)):
        raise Conflict(f"pool {node.pool!r} asked for no worker {node.id!r}", code="worker-unknown")
    if known is not None and known.state in _HELD_BACK:
        node = replace(node, state=known.state)
    ground = tables.fleet.ground
    if ground is not None and ground.node == node.id:
        node = replace(node, capacity=ground.capacity - tables.fleet.reserved(SLICE))
    with world.decision(now):
        world.set_node(node, now=now)
        if worker is not None and worker.state is WorkerState.ASKED:
            world.put(Table.WORKERS, worker.id, _ready(world, worker, pool, now))
    return world.number


def fit_ground(world: World, now: Millis) -> None:
    """The machine's own node keeps what no slice has or may ever take, so that nothing is promised twice. Part of a decision."""
    ground = world.tables.fleet.ground
    node = world.tables.nodes.get(ground.node) if ground is not None else None
    if ground is not None and node is not None:
        world.set_node(replace(node, capacity=ground.capacity - world.tables.fleet.reserved(SLICE)), now=now)


def cordon(world: World, node: NodeId, *, now: Millis) -> Node:
    """No new runs; what runs goes on. One that is draining stays so."""
    found = _node(world, node)
    return found if found.state in _HELD_BACK else _set_state(world, found, NodeState.CORDONED, now)


def uncordon(world: World, node: NodeId, *, now: Millis) -> Node:
    found, worker = _node(world, node), world.tables.fleet.workers.get(node)
    if worker is not None and worker.state is WorkerState.ENDING:
        raise Conflict(
            f"node {node} is being given back", code="worker-ending", hint="its pool asks for another when it needs one"
        )
    return _set_state(world, found, NodeState.ACTIVE, now) if found.state in _HELD_BACK else found


def drain(world: World, node: NodeId, *, now: Millis) -> Node:
    """No new runs, for good: a worker is given back after its last, any other node is idle then, until it is uncordoned."""
    found, worker = _node(world, node), world.tables.fleet.workers.get(node)
    with world.decision(now):
        if worker is not None:
            end_worker(world, worker, now=now)
            return world.tables.nodes[node]
        return _set_state(world, found, NodeState.DRAINING, now)


def end_worker(world: World, worker: Worker, *, now: Millis, problem: str = "") -> None:
    """Part of a decision. From here on it takes no run, and counts against its pool's maximum until it is gone."""
    if worker.state is not WorkerState.ENDING:
        ending = replace(worker, state=WorkerState.ENDING, since=now, problem=problem or worker.problem)
        world.put(Table.WORKERS, worker.id, ending)
    node = world.tables.nodes.get(worker.id)
    if node is not None and node.state is not NodeState.DRAINING:
        _set_state(world, node, NodeState.DRAINING, now)


def note_problem(world: World, worker: NodeId, problem: str, *, now: Millis) -> int:
    """What its provisioner said when it could not."""
    found = world.tables.fleet.workers.get(worker)
    with world.decision(now):
        if found is not None and found.problem != problem:
            world.put(Table.WORKERS, worker, replace(found, problem=problem, problem_at=now))
    return world.number


def is_busy(world: World, worker: NodeId) -> bool:
    """Also when it never joined: a run may be known from before."""
    runs = world.tables.runs_on.get(worker, ())
    return any(not world.tables.runs[run].is_over for run in runs)


def bury(world: World, worker: NodeId, *, now: Millis) -> bool:
    """Its provisioner has taken it back. A part at a time; True when nothing of it is left."""
    tables = world.tables
    found = tables.fleet.workers.get(worker)
    if found is None:
        return True
    if found.state is not WorkerState.ENDING or is_busy(world, worker):
        raise Conflict(f"worker {worker} is still in use", code="node-busy", hint="drain it first")
    with world.decision(now):
        kept = sorted(tables.runs_on.get(worker, ()))
        for run in kept[:_HANDED_A_TIME]:
            world.put(Table.RUNS, run, replace(tables.runs[run], node=found.home))
        if len(kept) > _HANDED_A_TIME:
            return False
        if worker in tables.nodes:
            world.drop(Table.NODES, worker)
        world.drop(Table.WORKERS, worker)
        fit_ground(world, now)
        parts = worker_segments(found, now)
        world.put(Table.OUTBOX, f"worker-{worker}", WorkerOver(worker=found, at=now, segments=parts))
        if found.payer and parts:
            bill_worker(world, found, parts, now)
    return True


def _ready(world: World, worker: Worker, pool: Pool | None, now: Millis) -> Worker:
    """With what its being there costs, and whom: the one that the pool is for, or else nobody."""
    payer = pool.tenants[0] if pool is not None and len(pool.tenants) == 1 else TenantId("")
    owner = world.tables.tenants.get(payer) if payer else None
    book = world.tables.book(payer, worker.pool)
    return replace(
        worker,
        state=WorkerState.READY,
        since=now,
        problem="",
        ready_at=now,
        hour_price=book.worker_hour,
        payer=payer if owner is not None else TenantId(""),
    )


def _node(world: World, node: NodeId) -> Node:
    found = world.tables.nodes.get(node)
    if found is None:
        raise NotFound(f"no node {node!r}", hint="`windlass get nodes` lists them")
    return found


def _set_state(world: World, node: Node, state: NodeState, now: Millis) -> Node:
    world.set_node(replace(node, state=state), now=now)
    return world.tables.nodes[node.id]
