"""From a runtime's stream of lines into a log: whatever has gathered goes out at once, in one write."""

from collections.abc import AsyncIterator

import anyio

from windlass.ports.logs import LogWriter
from windlass.ports.runtime import LogLine

_GATHERED_MAX = 8192


async def copy_lines(lines: AsyncIterator[LogLine], writer: LogWriter) -> None:
    """Ends with the stream. A failure of the stream surfaces after what was read has been written."""
    send, receive = anyio.create_memory_object_stream[LogLine](_GATHERED_MAX)

    async def gather() -> None:
        async with send:
            async for line in lines:
                await send.send(line)

    async def write() -> None:
        async with receive:
            async for first in receive:
                await writer.append([first, *_ready(receive.statistics().current_buffer_used)])

    def _ready(count: int) -> list[LogLine]:
        return [receive.receive_nowait() for _ in range(count)]

    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        try:
            await gather()
        except Exception as error:  # what was read first reaches the file, then the failure its caller
            failure = error
    if failure is not None:
        raise failure
