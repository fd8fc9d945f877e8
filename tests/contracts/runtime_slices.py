"""What every runtime does with the runs of a slice: held together while there is one, and nothing left of it afterwards."""

from functools import partial

import pytest

from tests.contracts.runtime_acts import DEADLINE_SECONDS, put_files, soon, started
from tests.contracts.runtime_behaviours import Await, Exit, Harness
from tests.parts.failures import MissingPart
from tests.parts.waiting import wait_until
from windlass.core.errors import Unavailable
from windlass.core.model.assignment import Slice
from windlass.core.model.ids import NodeId
from windlass.core.model.resources import Resources
from windlass.ports.runtime import Runtime

CUT = Slice(node=NodeId("pool-7-1"), capacity=Resources(cpu_millis=750, memory_bytes=192 << 20))


class Slices:
    async def test_a_slice_is_there_while_a_run_is_in_it_and_leaves_nothing(self, harness: Harness) -> None:
        if why_not := (await harness.runtime.machine()).slices_lack:
            raise MissingPart(f"a slice has no cgroup of its own here: {why_not}")
        assert await harness.runtime.slices() == ()
        first = await started(harness, "one", Await("go"), Exit(0), slice=CUT)
        second = await started(harness, "two", Await("go"), Exit(0), slice=CUT)
        assert await harness.runtime.slices() == (CUT.node,)
        await put_files(harness, first.volume, "", {"go": b""})
        await soon(harness.runtime.wait(first.run))
        with pytest.raises(Unavailable):
            await harness.runtime.end_slice(CUT.node)
        async with harness.open() as successor:
            assert await successor.slices() == (CUT.node,)
            await put_files(harness, second.volume, "", {"go": b""})
            await soon(successor.wait(second.run))
            await wait_until(partial(is_ended, successor, CUT.node), DEADLINE_SECONDS, "the slice to be empty")
            assert await successor.slices() == ()
        for name in (CUT.node, NodeId("never-was")):
            await harness.runtime.end_slice(name)

    async def test_all_that_is_removed_takes_the_slices_along(self, harness: Harness) -> None:
        await started(harness, "busy", Await("never"), slice=CUT)
        await harness.runtime.remove_all()
        async with harness.open() as successor:
            assert await successor.slices() == ()


async def is_ended(runtime: Runtime, node: NodeId) -> bool:
    """An engine may be a moment behind its own word that a container is over: its group goes last."""
    try:
        await runtime.end_slice(node)
    except Unavailable:
        return False
    return True
