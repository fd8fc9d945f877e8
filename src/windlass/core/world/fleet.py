"""Pools and their workers, with what follows from them: who may use a closed pool, since when a worker has nothing to do."""

from collections import defaultdict

from windlass.core.model.ids import Millis, NodeId, PoolId, TenantId
from windlass.core.model.node import Node
from windlass.core.model.pool import Growth, Pool, Scaling, Worker
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.model.run import Run
from windlass.core.placement.nodes import Nodes
from windlass.core.world.ground import Ground


class Fleet:
    def __init__(self, places: Nodes) -> None:
        self._places = places
        self.ground: Ground | None = None
        """Told at the start, where there is one; not a record."""
        self.pools: dict[PoolId, Pool] = {}
        self.workers: dict[NodeId, Worker] = {}
        self.growths: dict[PoolId, Growth] = {}
        # derived
        self.admitted: dict[TenantId, tuple[PoolId, ...]] = {}
        """Of tenants that closed pools name: which, sorted. What their jobs' shapes should say."""
        self.has_changed = False
        """A pool has, since the last placement: what found no place may find one, or may no more."""
        self._workers_of: defaultdict[PoolId, dict[NodeId, Worker]] = defaultdict(dict)
        self._idle_since: dict[NodeId, Millis] = {}
        """Measured, not derived: after a restart a worker counts as idle from then on."""

    def workers_of(self, pool: PoolId) -> list[Worker]:
        found = self._workers_of.get(pool)
        return list(found.values()) if found is not None else []

    def reserved(self, provisioner: str, *, besides: PoolId | None = None) -> Resources:
        """What the pools of that provisioner may come to together, or have come to already: a bound may be lowered below that."""
        mine = (pool for pool in self.pools.values() if pool.provisioner == provisioner and pool.id != besides)
        return sum((self._reach(pool) for pool in mine), NOTHING)

    def _reach(self, pool: Pool) -> Resources:
        if pool.scaling is None:
            return NOTHING
        return pool.scaling.worker * max(pool.scaling.workers_max, len(self._workers_of.get(pool.id, ())))

    def idle_since(self, worker: Worker) -> Millis:
        """Of one that is idle."""
        return max(worker.since, self._idle_since.get(worker.id, Millis(0)))

    def home_of(self, node: NodeId) -> NodeId:
        """Where what a run on it leaves behind lies."""
        worker = self.workers.get(node)
        return worker.home if worker is not None else node

    def note_idle(self, run: Run, now: Millis) -> None:
        """A run on it is over; whether there is another, who asks looks."""
        if run.node in self.workers:
            self._idle_since[run.node] = now

    # — what the tables are told —

    def replace_pool(self, key: PoolId, new: Pool | None) -> Pool | None:
        old = self.pools.pop(key, None)
        if new is not None:
            self.pools[key] = new
        if new is not None:
            self._places.set_pool(key, worker=_worker_to_come(new), is_closed=bool(new.tenants), labels=new.labels)
        else:
            self._places.set_pool(key, worker=None, is_closed=False)
        for tenant in {*(old.tenants if old is not None else ()), *(new.tenants if new is not None else ())}:
            self._readmit(tenant)
        self.has_changed = True
        return old

    def replace_worker(self, key: NodeId, new: Worker | None) -> Worker | None:
        old = self.workers.pop(key, None)
        if old is not None:
            self._workers_of[old.pool].pop(key)
            if not self._workers_of[old.pool]:
                del self._workers_of[old.pool]
        if new is not None:
            self.workers[key] = self._workers_of[new.pool][key] = new
        else:
            self._idle_since.pop(key, None)
        return old

    def replace_growth(self, key: PoolId, new: Growth | None) -> Growth | None:
        old = self.growths.pop(key, None)
        if new is not None:
            self.growths[key] = new
        return old

    def _readmit(self, tenant: TenantId) -> None:
        pools = tuple(sorted(pool.id for pool in self.pools.values() if tenant in pool.tenants))
        if pools:
            self.admitted[tenant] = pools
        else:
            self.admitted.pop(tenant, None)


def _worker_to_come(pool: Pool) -> Node | None:
    """None for a pool that has no worker to come, ever."""
    return worker_like(pool, pool.scaling) if pool.scaling is not None and pool.scaling.workers_max else None


def worker_like(pool: Pool, scaling: Scaling) -> Node:
    """What a worker of it would be: a node without a name."""
    return Node(
        id=NodeId(""),
        pool=pool.id,
        capacity=scaling.worker,
        gpu_ids=tuple(str(one) for one in range(scaling.worker.gpus)),
        runtimes=pool.runtimes,
    )
