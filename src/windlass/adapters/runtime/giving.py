"""What is given to a run with input and no terminal, by several at once. An engine ends a run's input with the first connection
that gave any; so all who give share one, and it ends when the last of them has ended it or gone."""

from contextlib import suppress
from typing import Protocol

import anyio

from windlass.core.errors import Unavailable


class Sink(Protocol):
    """One connection's way in."""

    async def send(self, data: bytes) -> None:
        """Unavailable where nobody takes it any more."""
        ...

    async def end(self) -> None:
        """The same."""
        ...


class SharedInput:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._sending = anyio.Lock()
        self._givers: list[Giver] = []
        self._is_ended = False

    def join(self) -> "Giver":
        giver = Giver(self)
        self._givers.append(giver)
        return giver

    def leave(self, giver: "Giver") -> bool:
        """Whether it was the last: then the connection is to be closed, else `end_if_all_have`."""
        self._givers.remove(giver)
        return not self._givers

    async def send(self, data: bytes) -> None:
        with suppress(Unavailable):  # it reads no more, as `head` does; what it prints is still to come
            async with self._sending:
                if not self._is_ended:
                    await self._sink.send(data)

    async def end_if_all_have(self) -> None:
        if all(giver.has_ended for giver in self._givers):
            with suppress(Unavailable):
                async with self._sending:
                    self._is_ended = True
                    await self._sink.end()


class Giver:
    """One of those who give."""

    def __init__(self, shared: SharedInput) -> None:
        self._shared = shared
        self.has_ended = False

    async def send(self, data: bytes) -> None:
        await self._shared.send(data)

    async def end(self) -> None:
        self.has_ended = True
        await self._shared.end_if_all_have()
