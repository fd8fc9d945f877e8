"""The port's Terminal on a run that was started without one: there is no input, and the output is its log, from the start."""

from collections.abc import AsyncIterator, Awaitable, Callable

from windlass.core.errors import Conflict
from windlass.ports.runtime import LogLine, Stream


class Listening:
    def __init__(self, lines: AsyncIterator[LogLine], exit_code: Callable[[], Awaitable[int | None]]) -> None:
        self._lines = lines
        self._exit_code = exit_code

    async def send(self, data: bytes) -> None:
        raise Conflict("this run takes no input", code="no-terminal", hint="start it with input: windlass run -i")

    async def close_input(self) -> None:
        return

    async def resize(self, *, rows: int, columns: int) -> None:
        return

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        async for line in self._lines:
            yield line.stream, written(line)

    async def exit_code(self) -> int | None:
        return await self._exit_code()


def written(line: LogLine) -> bytes:
    """As the run wrote it."""
    return line.text + (b"" if line.is_partial else b"\n")
