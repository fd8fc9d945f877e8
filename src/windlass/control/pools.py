"""Pools and nodes as admins change them: each verb decides, waits for the disk, and only then answers."""

from collections.abc import Callable

from msgspec.structs import replace

from windlass.control.brain import Brain
from windlass.control.tallies import Tallies
from windlass.core.model.ids import Millis, NodeId, PoolId, TenantId
from windlass.core.model.money import PriceBook
from windlass.core.model.node import Node
from windlass.core.model.pool import Pool, Worker
from windlass.core.scaling import PoolFigures, ScalingStep, Seen
from windlass.core.world import growth, pools, workers
from windlass.core.world.ground import SLICE
from windlass.core.world.world import World
from windlass.ports.runtime import Machine

Edit = Callable[[Pool, PriceBook | None], tuple[Pool, PriceBook | None]]


class Pools:
    def __init__(self, brain: Brain, machine: Machine, tallies: Tallies) -> None:
        self._brain = brain
        self._machine = machine
        self._tallies = tallies

    @property
    def _world(self) -> World:
        return self._brain.world

    def all(self) -> list[Pool]:
        """In the order of their names."""
        known = self._world.tables.fleet.pools
        return [known[name] for name in sorted(known)]

    def find(self, pool: PoolId) -> Pool:
        return pools.find_pool(self._world, pool)

    def prices(self, pool: PoolId) -> PriceBook | None:
        return self._world.tables.prices.pools.get(pool)

    def workers(self, pool: PoolId) -> list[Worker]:
        return sorted(self._world.tables.fleet.workers_of(pool), key=lambda worker: worker.id)

    def running(self, worker: Worker) -> int:
        """Runs that are on it now."""
        slot = self._world.tables.places.slot(worker.id)
        return 0 if slot is None else slot.runs

    def nodes(self, pool: PoolId) -> list[Node]:
        return sorted((one for one in self._world.tables.nodes.values() if one.pool == pool), key=lambda node: node.id)

    def seen(self, pool: Pool) -> Seen | None:
        """What the autoscaler would look at now; None for a static pool."""
        if pool.scaling is None:
            return None
        return growth.look(self._world, pool, pool.scaling, now=self._brain.clock.now())

    def lacks(self, pool: Pool) -> str:
        """What its workers do without on this machine, and why; nothing when they have all."""
        if pool.provisioner != SLICE or not self._machine.slices_lack:
            return ""
        return f"its workers have no cgroup of their own, each run only its own limits: {self._machine.slices_lack}"

    def figures(self) -> list[PoolFigures]:
        """Of dynamic pools, as they are now and what they did since the server started."""
        return [
            PoolFigures(pool=pool.id, workers_max=pool.scaling.workers_max, seen=seen, tally=self._tallies.of(pool.id))
            for pool in self.all()
            if pool.scaling is not None and (seen := self.seen(pool)) is not None
        ]

    async def create(self, pool: Pool, prices: PriceBook | None) -> tuple[Pool, int]:
        made = self._equipped(pool)
        return await self._brain.decide(lambda now: pools.create_pool(self._world, made, prices, now=now))

    async def change(self, pool: PoolId, edit: Edit) -> tuple[Pool, int]:
        """`edit` gets the pool as it is and gives it as it shall be; nothing comes between the two."""

        def verb(now: Millis) -> Pool:
            changed, prices = edit(self.find(pool), self.prices(pool))
            return growth.change_pool(self._world, self._equipped(changed), prices, now=now)

        return await self._brain.decide(verb)

    async def delete(self, pool: PoolId) -> tuple[list[TenantId], int]:
        """Whose quotas named it until now."""
        return await self._brain.decide(lambda now: pools.delete_pool(self._world, pool, now=now))

    async def scale(self, pool: PoolId, workers: int) -> tuple[ScalingStep, int]:
        return await self._brain.decide(lambda now: growth.scale_by_hand(self._world, pool, workers, now=now))

    async def cordon(self, node: NodeId) -> tuple[Node, int]:
        return await self._brain.decide(lambda now: workers.cordon(self._world, node, now=now))

    async def uncordon(self, node: NodeId) -> tuple[Node, int]:
        return await self._brain.decide(lambda now: workers.uncordon(self._world, node, now=now))

    async def drain(self, node: NodeId) -> tuple[Node, int]:
        return await self._brain.decide(lambda now: growth.drain(self._world, node, now=now))

    def _equipped(self, pool: Pool) -> Pool:
        """A slice runs what its machine runs."""
        return replace(pool, runtimes=(self._machine.kind,)) if pool.is_dynamic else pool
