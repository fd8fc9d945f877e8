"""What simulation found about dispatch."""

import pytest

from windlass.control.dispatch import Dispatch
from windlass.control.specs import Specs
from windlass.core.model.facts import RunEnded
from windlass.core.model.ids import LOCAL_TENANT, Millis, NodeId
from windlass.core.model.run import Run, RunState
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.ports.failpoints import NONE
from windlass.testing.builders import a_job_id, a_submission, a_world
from windlass.testing.store import MemoryStore

NOW = Millis(2_000_000)


def settle(world: World, dispatch: Dispatch) -> None:
    """As the committer does once a batch is on disk."""
    entries = world.journal.take(1000)
    world.journal.settle()
    if entries:
        dispatch.committed(entries, 1)


def a_placed_run(world: World, specs: Specs) -> Run:
    job, spec = submit(world, LOCAL_TENANT, a_submission(), job=a_job_id(), now=NOW)
    specs.note(job.id, spec)
    (run,) = place(world, now=NOW)
    return run


@pytest.mark.anyio
async def test_a_run_whose_end_is_not_on_disk_yet_stays_in_its_nodes_set() -> None:
    world, specs = a_world(), Specs(MemoryStore())
    dispatch = Dispatch(world, specs, NONE)
    run = a_placed_run(world, specs)
    settle(world, dispatch)
    observe(world, RunEnded(run=run.id, token=run.token, state=RunState.EXITED, exit_code=0), now=NOW)

    async with dispatch.assignments(NodeId("n1")) as sets:
        told = await anext(sets)

    assert [assignment.run for assignment in told.runs] == [run.id]


@pytest.mark.anyio
async def test_two_connections_of_one_node_both_hear_of_a_change() -> None:
    world, specs = a_world(), Specs(MemoryStore())
    dispatch = Dispatch(world, specs, NONE)
    async with dispatch.assignments(NodeId("n1")) as older, dispatch.assignments(NodeId("n1")) as newer:
        assert [(await anext(older)).runs, (await anext(newer)).runs] == [(), ()]
        run = a_placed_run(world, specs)
        settle(world, dispatch)
        heard = [(await anext(older)).runs[0].run, (await anext(newer)).runs[0].run]
    assert heard == [run.id, run.id]


@pytest.mark.anyio
async def test_a_set_carries_the_number_of_the_state_it_shows() -> None:
    world, specs = a_world(), Specs(MemoryStore())
    dispatch = Dispatch(world, specs, NONE)
    async with dispatch.assignments(NodeId("n1")) as sets:
        numbers = [(await anext(sets)).number]
        for _ in range(2):
            a_placed_run(world, specs)
            settle(world, dispatch)
            numbers.append((await anext(sets)).number)
    assert numbers == sorted(set(numbers))
