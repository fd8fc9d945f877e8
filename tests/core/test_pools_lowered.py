"""A maximum that is lowered below what a pool has: the surplus takes no run any more, and goes when it is idle."""

from msgspec.structs import replace

from tests.core.pool_home import GROW, START, a_growing_world, come, over, wants
from windlass.core.foresight.gate import GateName
from windlass.core.foresight.why import why
from windlass.core.model.ids import Millis, NodeId
from windlass.core.model.pool import WorkerState
from windlass.core.model.resources import Resources
from windlass.core.scaling import ScalingStep
from windlass.core.world.growth import change_pool, scale, scale_by_hand
from windlass.core.world.place import place
from windlass.core.world.workers import bury
from windlass.core.world.world import World
from windlass.testing.builders import GIB


def later(seconds: int) -> Millis:
    return Millis(START + seconds * 1000)


def grown(world: World, workers: int) -> None:
    scale_by_hand(world, GROW, workers, now=START)
    come(world, START)


def lower(world: World, workers_max: int, *, now: Millis, is_paused: bool = False) -> None:
    pool = world.tables.fleet.pools[GROW]
    assert pool.scaling is not None
    lowered = replace(pool, scaling=replace(pool.scaling, workers_max=workers_max), is_paused=is_paused)
    change_pool(world, lowered, None, now=now)


def ending(world: World) -> set[NodeId]:
    return {one.id for one in world.tables.fleet.workers.values() if one.state is WorkerState.ENDING}


def test_busy_workers_beyond_a_lowered_maximum_take_no_run_any_more_and_go_when_they_are_idle() -> None:
    world = a_growing_world()
    grown(world, 3)
    wants(world, 3, cpu=1100, now=START)
    runs = place(world, now=START)
    assert len({run.node for run in runs}) == 3
    lower(world, 1, now=later(1))
    assert len(ending(world)) == 2
    wants(world, 4, cpu=900, now=later(2))
    kept = {run.node for run in runs} - ending(world)
    assert {run.node for run in place(world, now=later(2))} == kept
    for run in runs:
        over(world, run, later(3))
    assert {run.node for run in place(world, now=later(3))} == kept
    for worker in ending(world):
        assert bury(world, worker, now=later(4))
    assert set(world.tables.fleet.workers) == kept


def test_of_the_surplus_those_that_are_not_there_yet_go_first_then_the_idle_then_those_with_the_fewest_runs() -> None:
    world = a_growing_world(workers_max=4, worker=Resources(cpu_millis=2000, memory_bytes=4 * GIB))
    grown(world, 3)
    wants(world, 1, cpu=1100, now=START)
    wants(world, 2, cpu=900, now=START)
    busy: dict[NodeId, int] = {}
    for run in place(world, now=START):
        busy[run.node] = busy.get(run.node, 0) + 1
    (coming,) = scale_by_hand(world, GROW, 4, now=later(1)).workers
    fullest = max(busy, key=lambda node: busy[node])
    idle = set(world.tables.fleet.workers) - {coming} - set(busy)
    (emptiest,) = set(busy) - {fullest}
    assert (sorted(busy.values()), len(idle)) == ([1, 2], 1)
    gone: set[NodeId] = set()
    for left, goes in ((3, {NodeId(coming)}), (2, idle), (1, {emptiest}), (0, {fullest})):
        lower(world, left, now=later(2))
        gone |= goes
        assert ending(world) == gone


def test_the_surplus_stands_in_the_history_and_counts_as_a_change() -> None:
    world = a_growing_world()
    grown(world, 3)
    lower(world, 1, now=later(1))
    lower(world, 1, now=later(2))
    told = [one.new for one in world.journal.take(1 << 30) if isinstance(one.new, ScalingStep)]
    assert [(one.at, one.verdict.by) for one in told] == [(START, 3), (later(1), -2)]
    assert (told[-1].verdict.rule, told[-1].verdict.wanted) == ("more than the maximum, 1", 1)
    assert set(told[-1].workers) == ending(world)
    assert told[-1].seen.ready == 3, "as it was before"
    after = scale(world, GROW, now=later(3))
    assert after is not None
    assert (after.verdict.by, after.verdict.holds) == (0, ("cooldown",))


def test_a_maximum_holds_in_a_paused_pool_too() -> None:
    world = a_growing_world()
    grown(world, 2)
    lower(world, 1, now=later(1), is_paused=True)
    assert len(ending(world)) == 1


def test_why_tells_of_workers_that_are_being_given_back() -> None:
    world = a_growing_world()
    grown(world, 2)
    wants(world, 2, cpu=2000, now=START)
    place(world, now=START)
    lower(world, 1, now=later(1))
    wants(world, 1, cpu=2000, now=later(1))
    place(world, now=later(1))
    (waiting,) = (job for job in world.tables.jobs.values() if job.node is None)
    found = why(world, waiting, now=later(1))
    assert found.gate == GateName.POOL
    assert found.says == "pool: grow has 2 workers, 1 of them being given back, and may have no more than 1"
