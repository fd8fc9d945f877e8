"""How soon a pool comes to rest (R-30), on virtual time, though half of all acts of its provider fail: at most three cooldowns."""

from random import Random

import pytest

from tests.core.pool_home import GROW, START, a_growing_world, node_of, over, wants
from windlass.core.model.ids import Millis
from windlass.core.model.pool import Change, Measure, Trigger, WorkerState
from windlass.core.model.resources import Resources
from windlass.core.world.growth import give_up, scale
from windlass.core.world.place import place
from windlass.core.world.workers import bury, is_busy, join_node
from windlass.core.world.world import World
from windlass.testing.builders import GIB

COOLDOWNS_MAX = 3
SECOND = 1_000
SMALL = Resources(cpu_millis=500, memory_bytes=GIB)
TRACKED = (
    Trigger(measure=Measure.DEPTH, up=1, down=0, target=1),
    Trigger(measure=Measure.CPU, up=800, down=300, target=600),
)
SHAPES = {
    "quick, three workers of two jobs": (3, 2, Millis(30_000), Resources(cpu_millis=2000, memory_bytes=4 * GIB), 1000),
    "the cooldown by default, twelve workers of one": (12, 1, Millis(120_000), SMALL, 500),
}


class Pool:
    """A pool, its autoscaler and a provider of which every other act fails, a second at a time."""

    def __init__(self, seed: int, workers_max: int, cooldown: Millis, worker: Resources) -> None:
        self.world: World = a_growing_world(
            workers_max=workers_max,
            worker=worker,
            triggers=TRACKED,
            cooldown_up_ms=cooldown,
            cooldown_down_ms=cooldown,
            ready_within_ms=Millis(60_000),
        )
        self.now = START
        self.cooldown = cooldown
        self.changes: list[Change] = []
        self._chance = Random(seed)

    @property
    def size(self) -> int:
        """As decided: what is asked for counts, what is being given back does not."""
        workers = self.world.tables.fleet.workers.values()
        return sum(worker.state is not WorkerState.ENDING for worker in workers)

    def until(self, is_at_rest: object) -> float:
        """The time it took, in cooldowns."""
        began = self.now
        while not is_at_rest() and self.now - began <= 20 * self.cooldown:  # type: ignore[operator]
            self._second()
        return (self.now - began) / self.cooldown

    def _second(self) -> None:
        self.now = Millis(self.now + SECOND)
        give_up(self.world, GROW, now=self.now)
        step = scale(self.world, GROW, now=self.now)
        if step is not None and step.verdict.by:
            self.changes.append(Change(at=self.now, by=step.verdict.by))
        for worker in list(self.world.tables.fleet.workers.values()):
            if self._chance.random() < 0.5:
                continue
            if worker.state is WorkerState.ASKED:
                join_node(self.world, node_of(worker, self.world), now=self.now)
            elif worker.state is WorkerState.ENDING and not is_busy(self.world, worker.id):
                bury(self.world, worker.id, now=self.now)
        place(self.world, now=self.now)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(10))
def test_a_pool_is_at_rest_within_three_cooldowns_of_a_load_and_of_its_end(shape: str, seed: int) -> None:
    workers_max, each, cooldown, worker, cpu = SHAPES[shape]
    pool = Pool(seed, workers_max, cooldown, worker)
    tables = pool.world.tables
    wants(pool.world, each * workers_max, now=pool.now, cpu=cpu)
    place(pool.world, now=pool.now)
    assert pool.until(lambda: pool.size == workers_max) <= COOLDOWNS_MAX
    pool.until(lambda: len(tables.runs) == each * workers_max)
    assert len(tables.runs) == each * workers_max, "and what was asked for comes, and is used"
    for run in list(tables.runs.values()):
        over(pool.world, run, pool.now)
    assert pool.until(lambda: pool.size == 0) <= COOLDOWNS_MAX
    pool.until(lambda: not tables.fleet.workers)
    assert tables.fleet.workers == {}, "and what was given back goes"
    for first, second in zip(pool.changes, pool.changes[1:], strict=False):
        assert second.at - first.at >= cooldown or (first.by < 0 < second.by)
