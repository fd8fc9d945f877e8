"""Who is to be looked at, and when: each key once, never by two workers at a time, the sooner of two wishes."""

import heapq
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

K = TypeVar("K")


class WorkQueue(Generic[K]):
    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._busy: set[K] = set()
        self._count = 0
        self._changed = anyio.Event()
        self._turn = anyio.Lock()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: K, *, delay: float = 0) -> None:
        due = anyio.current_time() + delay
        if self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        if key not in self._busy:
            self._push(due, key)

    async def work(self, handle: Callable[[K], Awaitable[None]]) -> None:
        """One worker, for ever; start as many as there should be. `handle` lets no error out."""
        while True:
            key = await self._next()
            try:
                await handle(key)
            finally:
                self._busy.discard(key)
                if key in self._due:  # asked for meanwhile
                    self._push(self._due[key], key)

    async def _next(self) -> K:
        async with self._turn:  # one waits for what comes, the others for their turn: news wakes one worker, not all
            while True:
                changed, now = self._changed, anyio.current_time()
                if (key := self._due_by(now)) is not None:
                    return key
                with anyio.move_on_after(self._heap[0][0] - now if self._heap else None):
                    await changed.wait()

    def _due_by(self, now: float) -> K | None:
        while self._heap:
            due, _, key = self._heap[0]
            if key in self._busy or self._due.get(key) != due:
                heapq.heappop(self._heap)  # overtaken, or its worker brings it back
            elif due <= now:
                heapq.heappop(self._heap)
                del self._due[key]
                self._busy.add(key)
                return key
            else:
                break
        return None

    def _push(self, due: float, key: K) -> None:
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, key))
        self._changed.set()
        self._changed = anyio.Event()
