"""Provisioners for tests: one that only remembers, and one that makes another one unreliable."""

from collections.abc import Iterator
from itertools import cycle

import anyio
import anyio.lowlevel

from windlass.core.errors import Unavailable
from windlass.core.model.ids import NodeId
from windlass.ports.provisioner import Provisioner, WorkerOrder


class MemoryProvisioner:
    """Its workers never join."""

    def __init__(self) -> None:
        self.there: dict[NodeId, WorkerOrder] = {}

    async def ask(self, order: WorkerOrder) -> None:
        self.there.setdefault(order.worker, order)

    async def end(self, worker: NodeId) -> None:
        self.there.pop(worker, None)

    async def list(self) -> tuple[NodeId, ...]:
        return tuple(self.there)


class FlakyProvisioner:
    """Half of its acts fail, some of them after they were done; others are done twice. `most` is the most it ever had."""

    def __init__(self, real: Provisioner) -> None:
        self._real = real
        self._moods: Iterator[str] = cycle(("refuse", "twice", "do and refuse", "slow"))
        self.asked = 0
        self.failed = 0
        self.most = 0

    async def ask(self, order: WorkerOrder) -> None:
        self.asked += 1
        mood = next(self._moods)
        await self._before(mood)
        await self._real.ask(order)
        if mood == "twice":
            await self._real.ask(order)
        self.most = max(self.most, len(await self._real.list()))
        self._after(mood)

    async def end(self, worker: NodeId) -> None:
        mood = next(self._moods)
        await self._before(mood)
        await self._real.end(worker)
        if mood == "twice":
            await self._real.end(worker)
        self._after(mood)

    async def list(self) -> tuple[NodeId, ...]:
        return await self._real.list()

    async def _before(self, mood: str) -> None:
        if mood == "refuse":
            self.failed += 1
            raise Unavailable("no machine to be had")
        for _ in range(20 if mood == "slow" else 0):
            await anyio.lowlevel.checkpoint()

    def _after(self, mood: str) -> None:
        if mood == "do and refuse":
            self.failed += 1
            raise Unavailable("the answer was lost")
