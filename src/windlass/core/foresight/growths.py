"""Pools that grow, driven ahead inside a trial as their autoscalers will drive them: by the same rule, and workers come and go.

A worker comes as soon as those of its pool usually did, by those that are there; of a pool that has none, at once. What only a
schedule asks for is not foreseen: schedules are wall time, which the World does not know.
"""

from heapq import heapify, heappop, heappush
from itertools import count

from msgspec.structs import replace

from windlass.core.model.ids import Millis, NodeId, PoolId
from windlass.core.model.pool import Growth, Measure, Pool, WorkerState
from windlass.core.scaling import Seen, grows_again_at
from windlass.core.world.growth import look, scale
from windlass.core.world.workers import bury, is_busy, join_node
from windlass.core.world.world import World


class Growths:
    def __init__(self, world: World, now: Millis) -> None:
        fleet = world.tables.fleet
        self._world = world
        self._pools = [
            pool
            for _, pool in sorted(fleet.pools.items())
            if pool.scaling is not None and not pool.is_paused and fleet.ground is not None
        ]
        self._order = count()
        self._coming = [
            (Millis(max(now, worker.asked_at + self._usual_ms(pool.id))), next(self._order), worker.id, pool.id)
            for pool in self._pools
            for worker in fleet.workers_of(pool.id)
            if worker.is_coming
        ]
        heapify(self._coming)
        self.brought: dict[NodeId, PoolId] = {}
        """Workers that joined in the trial, by their pool. Their names are not what they will be called."""

    def ask(self, now: Millis) -> None:
        """After what could be placed was: an autoscaler's look."""
        for pool in self._pools:
            self._bury(pool.id, now)
            step = scale(self._world, pool.id, now=now)
            if step is not None and step.verdict.by > 0:
                at = Millis(now + self._usual_ms(pool.id))
                for name in step.workers:
                    heappush(self._coming, (at, next(self._order), NodeId(name), pool.id))

    def come(self, now: Millis) -> int:
        """Workers that are due join. How many did."""
        came = 0
        while self._coming and self._coming[0][0] <= now:
            _, _, name, of = heappop(self._coming)
            came += self._join(name, of, now)
        return came

    def next_at(self, now: Millis) -> Millis | None:
        """When one comes, or a pool that wants to grow may, or will want to because somebody has waited so long."""
        moments = [self._coming[0][0]] if self._coming else []
        for pool in self._pools:
            moments += self._moments(pool, now)
        return min((at for at in moments if at > now), default=None)

    def _moments(self, pool: Pool, now: Millis) -> list[Millis]:
        scaling = pool.scaling
        assert scaling is not None
        seen = look(self._world, pool, scaling, now=now)
        if not seen.needed or seen.size + seen.ending >= scaling.workers_max:
            return []
        past = self._world.tables.fleet.growths.get(pool.id, Growth()).changes
        opens_at = grows_again_at(scaling, past, now)
        waits = [
            Millis(now + trigger.up - _waited(seen)) for trigger in scaling.triggers if trigger.measure is Measure.WAIT
        ]
        return [*([opens_at] if opens_at is not None else []), *waits]

    def _join(self, name: NodeId, pool: PoolId, now: Millis) -> bool:
        worker = self._world.tables.fleet.workers.get(name)
        to_come = self._world.tables.places.worker_to_come(pool)
        if worker is None or worker.state is not WorkerState.ASKED or to_come is None:
            return False
        join_node(self._world, replace(to_come, id=name), now=now)
        self.brought[name] = pool
        return True

    def _bury(self, pool: PoolId, now: Millis) -> None:
        """Those that are done make room for others below the maximum."""
        for worker in self._world.tables.fleet.workers_of(pool):
            if worker.state is WorkerState.ENDING and not is_busy(self._world, worker.id):
                bury(self._world, worker.id, now=now)

    def _usual_ms(self, pool: PoolId) -> int:
        workers = self._world.tables.fleet.workers_of(pool)
        took = [one.ready_at - one.asked_at for one in workers if one.ready_at is not None]
        return sum(took) // len(took) if took else 0


def _waited(seen: Seen) -> int:
    return dict(seen.measures).get(Measure.WAIT, 0)
