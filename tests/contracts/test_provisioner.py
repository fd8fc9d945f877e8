"""What every provisioner does: make once, end wholly, say what is there; over repetitions and, where it is kept, restarts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from windlass.adapters.provisioner.slice import SliceProvisioner
from windlass.core.model.ids import NodeId, PoolId
from windlass.core.model.resources import Resources
from windlass.ports.provisioner import Provisioner, WorkerOrder
from windlass.testing.provisioner import MemoryProvisioner

pytestmark = pytest.mark.anyio


def an_order(name: str) -> WorkerOrder:
    return WorkerOrder(worker=NodeId(name), pool=PoolId("p"), capacity=Resources(cpu_millis=100))


class Served:
    """Who is being a worker right now."""

    def __init__(self) -> None:
        self.now: list[str] = []
        self.held: set[NodeId] = set()
        """Slices whose runs something still holds together."""
        self.changed = anyio.Event()

    async def serve(self, order: WorkerOrder, directory: Path) -> None:
        self._note(lambda: self.now.append(order.worker))
        try:
            await anyio.sleep_forever()
        finally:
            self._note(lambda: self.now.remove(order.worker))

    async def clear(self, worker: NodeId) -> None:
        self.held.discard(worker)

    async def uncleared(self) -> tuple[NodeId, ...]:
        return tuple(sorted(self.held))

    def _note(self, act: object) -> None:
        act()  # type: ignore[operator]
        self.changed.set()
        self.changed = anyio.Event()

    async def until(self, *names: str) -> None:
        with anyio.fail_after(60):
            while sorted(self.now) != sorted(names):
                await self.changed.wait()


@asynccontextmanager
async def slices(directory: Path, served: Served) -> AsyncIterator[SliceProvisioner]:
    provisioner = SliceProvisioner(directory, served)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(provisioner.run)
        yield provisioner
        tasks.cancel_scope.cancel()


@pytest.fixture(params=["memory", "slice"])
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Provisioner]:
    if request.param == "memory":
        yield MemoryProvisioner()
        return
    async with slices(tmp_path / "slices", Served()) as provisioner:
        yield provisioner


async def test_what_is_asked_for_is_there_once_however_often_it_is_asked_for(subject: Provisioner) -> None:
    assert await subject.list() == ()
    await subject.ask(an_order("a"))
    await subject.ask(an_order("a"))
    await subject.ask(an_order("b"))
    assert sorted(await subject.list()) == ["a", "b"]


async def test_what_is_ended_is_gone_however_often_it_is_ended(subject: Provisioner) -> None:
    await subject.ask(an_order("a"))
    await subject.ask(an_order("b"))
    for _ in range(2):
        await subject.end(NodeId("a"))
    await subject.end(NodeId("never"))
    assert await subject.list() == ("b",)
    await subject.ask(an_order("a"))
    assert sorted(await subject.list()) == ["a", "b"]


async def test_slices_come_back_with_the_server_and_end_with_themselves(tmp_path: Path) -> None:
    directory, served = tmp_path / "slices", Served()
    async with slices(directory, served) as first:
        await first.ask(an_order("a"))
        await first.ask(an_order("b"))
        await served.until("a", "b")
    assert served.now == []
    async with slices(directory, served) as second:
        await served.until("a", "b")
        await second.end(NodeId("a"))
        assert served.now == ["b"]
    assert [path.name for path in directory.iterdir()] == ["b"]


async def test_what_held_a_slice_together_goes_with_it_and_is_listed_even_when_its_order_is_gone(
    tmp_path: Path,
) -> None:
    served = Served()
    async with slices(tmp_path / "slices", served) as provisioner:
        await provisioner.ask(an_order("a"))
        served.held |= {NodeId("a"), NodeId("of-a-lost-order")}
        assert sorted(await provisioner.list()) == ["a", "of-a-lost-order"]
        await provisioner.end(NodeId("a"))
        await provisioner.end(NodeId("of-a-lost-order"))
        assert await provisioner.list() == ()
    assert served.held == set()


async def test_a_slice_whose_making_was_cut_short_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "slices" / "half").mkdir(parents=True)
    (tmp_path / "slices" / "half" / ".order.json.new").write_bytes(b"{")
    async with slices(tmp_path / "slices", Served()) as provisioner:
        assert await provisioner.list() == ()
    assert list((tmp_path / "slices").iterdir()) == []
