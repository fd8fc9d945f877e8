"""Attached to a run on a cluster. One with input and no terminal has one connection, shared by all who are: its input ends with
the first that gave any (`stdinOnce`), and what it prints is heard by everybody from the moment in which they came."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from windlass.adapters.runtime.giving import Giver, SharedInput
from windlass.adapters.runtime.kubernetes.cluster import Cluster
from windlass.ports.runtime import Stream, Terminal

Said = tuple[Stream, bytes]
ExitCode = Callable[[], Coroutine[Any, Any, int | None]]

_WAITING_MAX: Final = 64
"""Pieces of output that one who reads slowly is behind; then all wait for it, as for the reader of a pipe."""
_CLOSE_SECONDS: Final = 5.0


class OnTerminal:
    """The port's Terminal on a run that has one. Its connection does not tell what it ended with."""

    def __init__(self, terminal: Terminal, exit_code: ExitCode) -> None:
        self.send, self.close_input = terminal.send, terminal.close_input
        self.output, self.resize, self.exit_code = terminal.output, terminal.resize, exit_code


class Attaching:
    """The shared connections, by pod. Each is kept by a task of its own: it may outlive the one who opened it."""

    def __init__(self, cluster: Cluster, namespace: str, tasks: TaskGroup) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._tasks = tasks
        self._opening = anyio.Lock()
        self._shared: dict[str, _Shared] = {}

    @asynccontextmanager
    async def joined(self, pod: str, exit_code: ExitCode) -> AsyncIterator[Terminal]:
        async with self._opening:
            known = self._shared.get(pod)
            viewer: _Viewer = known.join(exit_code) if known else await self._tasks.start(self._keep, pod, exit_code)
        shared = viewer.shared
        try:
            yield viewer
        finally:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                if shared.leave(viewer):
                    self._forget(pod, shared)  # before anything is waited for: who comes now opens another
                    await shared.close()
                else:
                    await shared.input.end_if_all_have()

    async def _keep(self, pod: str, exit_code: ExitCode, *, task_status: TaskStatus["_Viewer"]) -> None:
        """Opened with its first viewer, before anything can be heard. From then on an error is that of those who listen, and ends
        nothing else."""
        shared: _Shared | None = None
        try:
            async with self._cluster.terminal(pod, self._namespace) as stream:
                shared = self._shared[pod] = _Shared(stream)
                task_status.started(shared.join(exit_code))
                await shared.pass_on()
        except Exception as error:
            if shared is None:
                raise
            shared.failure = error
        finally:
            if shared is not None:
                self._forget(pod, shared)
                shared.over()

    def _forget(self, pod: str, shared: "_Shared") -> None:
        if self._shared.get(pod) is shared:
            del self._shared[pod]


class _Viewer:
    """The port's Terminal for one of those who share."""

    def __init__(self, shared: "_Shared", giver: Giver, exit_code: ExitCode) -> None:
        self.shared = shared
        self.giver = giver
        self.exit_code = exit_code
        self.told, self._heard = anyio.create_memory_object_stream[Said](_WAITING_MAX)

    async def send(self, data: bytes) -> None:
        await self.giver.send(data)

    async def close_input(self) -> None:
        await self.giver.end()

    async def resize(self, *, rows: int, columns: int) -> None:
        return

    async def output(self) -> AsyncIterator[Said]:
        async for said in self._heard:
            yield said
        if self.shared.failure is not None:
            raise self.shared.failure

    def leave(self) -> None:
        """Nobody waits for it any longer."""
        self._heard.close()
        self.told.close()


class _Shared:
    def __init__(self, stream: Terminal) -> None:
        self._stream = stream
        self.input = SharedInput(self)
        self.failure: Exception | None = None
        self._viewers: list[_Viewer] = []
        self._passing = anyio.CancelScope()
        self._is_over = anyio.Event()

    async def send(self, data: bytes) -> None:
        await self._stream.send(data)

    async def end(self) -> None:
        await self._stream.close_input()

    def join(self, exit_code: ExitCode) -> _Viewer:
        viewer = _Viewer(self, self.input.join(), exit_code)
        self._viewers.append(viewer)
        return viewer

    def leave(self, viewer: _Viewer) -> bool:
        """Whether it was the last."""
        self._viewers.remove(viewer)
        viewer.leave()
        return self.input.leave(viewer.giver)

    async def pass_on(self) -> None:
        """What it prints, to all who are there, until its end or until they have gone."""
        with self._passing:
            async for said in self._stream.output():
                for viewer in tuple(self._viewers):
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it goes as we speak
                        await viewer.told.send(said)

    async def close(self) -> None:
        self._passing.cancel()
        await self._is_over.wait()

    def over(self) -> None:
        for viewer in self._viewers:
            viewer.told.close()
        self._is_over.set()
