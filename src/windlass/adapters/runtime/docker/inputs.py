"""The connections by which runs with input and no terminal are given theirs: one for each container, shared by all who give."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from windlass.adapters.runtime.docker.engine import Engine
from windlass.adapters.runtime.docker.hijack import Hijacked
from windlass.adapters.runtime.giving import Giver, SharedInput


class Inputs:
    """Of one engine's containers, by their ids."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._opening = anyio.Lock()
        self._shared: dict[str, _Shared] = {}

    @asynccontextmanager
    async def giver(self, container: str) -> AsyncIterator[Giver]:
        async with self._opening:
            shared = self._shared.get(container)
            if shared is None:
                shared = self._shared[container] = _Shared(await _open(self._engine, container))
            giver = shared.input.join()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(shared.throw_away)
                yield giver
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:  # the task group wraps whatever passes through it
            raise group.exceptions[0] from None
        finally:
            if shared.input.leave(giver):
                del self._shared[container]  # before anything is waited for: who comes now opens another
                await shared.stream.aclose()
            else:
                await shared.input.end_if_all_have()


class _Shared:
    def __init__(self, stream: Hijacked) -> None:
        self.stream = stream
        self.input = SharedInput(stream)
        self._reading = anyio.Lock()

    async def throw_away(self) -> None:
        """One of the givers' tasks at a time; another takes over when that one goes."""
        async with self._reading:
            while await self.stream.receive():
                pass


async def _open(engine: Engine, container: str) -> Hijacked:
    """Podman's monitor sends the output to everybody who is attached, and stands still with the container when one is not read:
    there it is asked for, to be thrown away."""
    return await engine.attach(container, "stdin", *(("stdout", "stderr") if await engine.is_podman() else ()))
