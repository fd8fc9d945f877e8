"""What is given to runs with input and no terminal. The engine ends a run's input with the first connection that gave any; so
all who give share one, and it ends when the last of them has ended it or gone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio

from windlass.adapters.runtime.docker.engine import Engine
from windlass.adapters.runtime.docker.hijack import Hijacked
from windlass.core.errors import Unavailable


class Inputs:
    """Of one engine's containers, by their ids."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._opening = anyio.Lock()
        self._shared: dict[str, _Shared] = {}

    @asynccontextmanager
    async def giver(self, container: str) -> AsyncIterator["Giver"]:
        async with self._opening:
            shared = self._shared.get(container)
            if shared is None:
                shared = self._shared[container] = _Shared(await _open(self._engine, container))
            giver = shared.join()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(shared.throw_away)
                yield giver
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:  # the task group wraps whatever passes through it
            raise group.exceptions[0] from None
        finally:
            if shared.leave(giver):
                del self._shared[container]  # before anything is waited for: who comes now opens another
                await shared.stream.aclose()
            else:
                await shared.end_if_all_have()


class Giver:
    """One of those who give."""

    def __init__(self, shared: "_Shared") -> None:
        self._shared = shared
        self.has_ended = False

    async def send(self, data: bytes) -> None:
        with suppress(Unavailable):  # it reads no more, as `head` does; what it prints is still to come
            async with self._shared.sending:
                await self._shared.stream.send(data)

    async def end(self) -> None:
        self.has_ended = True
        await self._shared.end_if_all_have()


class _Shared:
    def __init__(self, stream: Hijacked) -> None:
        self.stream = stream
        self.sending = anyio.Lock()
        self._reading = anyio.Lock()
        self._givers: list[Giver] = []

    def join(self) -> Giver:
        giver = Giver(self)
        self._givers.append(giver)
        return giver

    def leave(self, giver: Giver) -> bool:
        """Whether it was the last."""
        self._givers.remove(giver)
        return not self._givers

    async def end_if_all_have(self) -> None:
        if all(giver.has_ended for giver in self._givers):
            await self.stream.end()

    async def throw_away(self) -> None:
        """One of the givers' tasks at a time; another takes over when that one goes."""
        async with self._reading:
            while await self.stream.receive():
                pass


async def _open(engine: Engine, container: str) -> Hijacked:
    """Podman's monitor sends the output to everybody who is attached, and stands still with the container when one is not read:
    there it is asked for, to be thrown away."""
    return await engine.attach(container, "stdin", *(("stdout", "stderr") if await engine.is_podman() else ()))
