"""From a runtime's stream of lines into a log: whatever has gathered goes out at once, in one write."""

from collections.abc import AsyncIterator

import anyio

from windlass.core.model.ids import RunId
from windlass.ports.logs import Logs, LogWriter
from windlass.ports.runtime import LogLine, Runtime

_GATHERED_MAX = 8192


class _Gathered:
    """Lines between their reader and their writer: a list and two flags, because a flood passes here line by line."""

    def __init__(self) -> None:
        self._lines: list[LogLine] = []
        self._is_over = False
        self._some = anyio.Event()
        self._room = anyio.Event()

    async def read(self, lines: AsyncIterator[LogLine]) -> None:
        try:
            async for line in lines:
                self._lines.append(line)
                if len(self._lines) == 1:
                    self._some.set()
                elif len(self._lines) >= _GATHERED_MAX:
                    self._room = anyio.Event()
                    await self._room.wait()
        finally:
            self._is_over = True
            self._some.set()

    async def take(self) -> list[LogLine]:
        """All there are, as soon as there are any; empty at the end."""
        while not self._lines and not self._is_over:
            self._some = anyio.Event()
            await self._some.wait()
        taken, self._lines = self._lines, []
        self._room.set()
        return taken


async def drain(run: RunId, runtime: Runtime, logs: Logs) -> None:
    """All that a run which is over wrote and nobody has copied yet."""
    async with logs.writer(run) as writer:
        await copy_lines(runtime.logs(run, after=writer.position), writer)
        await writer.seal()


async def copy_lines(lines: AsyncIterator[LogLine], writer: LogWriter) -> None:
    """Ends with the stream. A failure of the stream surfaces after what was read has been written."""
    gathered = _Gathered()

    async def write() -> None:
        while batch := await gathered.take():
            await writer.append(batch)

    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        try:
            await gathered.read(lines)
        except Exception as error:  # what was read first reaches the file, then the failure its caller
            failure = error
    if failure is not None:
        raise failure
