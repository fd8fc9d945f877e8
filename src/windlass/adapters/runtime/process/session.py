"""The server's end of an interactive session: the port's Terminal over frames."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import anyio
from anyio.abc import ByteStream

from windlass.adapters.runtime.listening import Listening
from windlass.adapters.runtime.process import frames
from windlass.core.errors import Conflict
from windlass.ports.runtime import Stream

_CHUNK = 65_536
_STREAMS = {frames.STDOUT: Stream.STDOUT, frames.STDERR: Stream.STDERR}


class Session:
    """A Terminal over a connection to a shim."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._sending = anyio.Lock()
        self._exit_code: int | None = None
        self._is_torn = False

    async def send(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK):
            await self._send(frames.DATA, data[start : start + _CHUNK])

    async def close_input(self) -> None:
        await self._send(frames.CLOSE_INPUT)

    async def resize(self, *, rows: int, columns: int) -> None:
        await self._send(frames.RESIZE, frames.SIZE.pack(rows, columns))

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        decoder = frames.Decoder()
        while self._exit_code is None:
            try:
                data = await self._stream.receive(_CHUNK)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return
            for kind, body in decoder.feed(data):
                if kind == frames.EXITED:
                    (self._exit_code,) = frames.CODE.unpack(body)
                elif kind in _STREAMS:
                    yield _STREAMS[kind], body

    async def exit_code(self) -> int | None:
        return self._exit_code

    async def _send(self, kind: int, data: bytes = b"") -> None:
        """To one that is over it is no error, as little as to one that reads no more: the end is told with the output."""
        async with self._sending:
            if self._is_torn:
                return
            self._is_torn = True  # cancelled half-way, the next frame would be taken for the rest of this one
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._stream.send(frames.encode(kind, data))
                self._is_torn = False


class Attached:
    """A Terminal on a run's pseudo-terminal or pipes. It may be attached to before the start: a connection is made when there
    is one to be made."""

    def __init__(self, reach: Callable[[], Awaitable[ByteStream | None]], written: Callable[[], Listening]) -> None:
        """`reach` waits for the terminal, and answers None when the run is over; `written` is what it left then."""
        self._reach = reach
        self._written = written
        self._reaching = anyio.Lock()
        self._session: Session | None = None
        self._is_over = False

    async def send(self, data: bytes) -> None:
        await (await self._expected()).send(data)

    async def close_input(self) -> None:
        await (await self._expected()).close_input()

    async def resize(self, *, rows: int, columns: int) -> None:
        await (await self._expected()).resize(rows=rows, columns=columns)

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        has_come = False
        if (session := await self._reached()) is not None:
            async for stream, data in session.output():
                has_come = True
                yield stream, data
        if not has_come and await self._told_exit_code() is None:  # it ended just before we came
            async for stream, data in self._written().output():
                yield stream, data

    async def exit_code(self) -> int | None:
        code = await self._told_exit_code()
        return await self._written().exit_code() if code is None else code

    async def _told_exit_code(self) -> int | None:
        return None if self._session is None else await self._session.exit_code()

    async def _expected(self) -> Session:
        session = await self._reached()
        if session is None:
            raise Conflict("the run is over", code="not-running")
        return session

    async def _reached(self) -> Session | None:
        async with self._reaching:
            if self._session is None and not self._is_over:
                stream = await self._reach()
                self._session = Session(stream) if stream else None
                self._is_over = stream is None
        return self._session
