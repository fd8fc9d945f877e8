"""Answers that go on: server-sent events with a heartbeat in every silence, and bytes whose source is read as the client reads.

A stream ends as soon as its client is gone. An error before the first byte is answered like any other; one after it breaks the
connection (a cut download must not look whole) or, in an event stream, is its last event.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass.api.context import Context, shut_out
from windlass.api.problems import error_document
from windlass.core.errors import WindlassError

MEDIA_TYPE: Final = "text/event-stream"
HEARTBEAT_SECONDS: Final = 15.0
HEARTBEAT: Final = b": still here\n\n"
ENDLESS: Final = "is_endless"
"""In a request's state: a server that stops need not wait for this one."""
_PENDING_MAX: Final = 64
"""Chunks; a client slower than its source holds the source back."""
_JOIN_BYTES: Final = 64 * 1024

Emit = Callable[[bytes], Awaitable[None]]
Source = Callable[[Emit], Awaitable[None]]
"""Emits chunks until there are no more. It runs in one task and is cancelled when the client goes."""


def frame(event: str, data: Any, *, id: int | None = None) -> bytes:  # noqa: A002 — the field's own name
    """One event. JSON has no raw line ends, so its data is always one line."""
    head = f"id: {id}\nevent: {event}\ndata: " if id is not None else f"event: {event}\ndata: "
    return head.encode() + msgspec.json.encode(data) + b"\n\n"


class StreamingAnswer(Response):
    """What `source` emits, joined while the client is slow.

    The source runs in a task of its own, so that waiting for it can be cut short without breaking it off.
    """

    def __init__(
        self,
        context: Context,
        source: Source,
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
        for_an_end: bool = False,
    ) -> None:
        super().__init__(media_type=media_type, headers=headers)
        del self.headers["content-length"]
        self._context = context
        self._source = source
        self._for_an_end = for_an_end
        self._is_begun = False
        self._error: Exception | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        metrics = self._context.metrics
        with self._context.seats.taken(for_an_end=self._for_an_end):
            metrics.stream_opened()
            try:
                await self._stream(scope, receive, send)
            finally:
                metrics.stream_closed()
        if self._error is not None:
            raise self._error

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        chunks_in, chunks_out = anyio.create_memory_object_stream[bytes](_PENDING_MAX)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_disconnect, receive, tasks.cancel_scope)
            tasks.start_soon(self._pump, chunks_in, scope["state"]["request_id"])
            async with chunks_out:
                await self._write(chunks_out, scope, send)
            tasks.cancel_scope.cancel()

    async def _pump(self, chunks: MemoryObjectSendStream[bytes], request_id: str) -> None:
        async with chunks:
            try:
                await self._source(chunks.send)
            except Exception as error:
                await self._fail(error, chunks, request_id)

    async def _fail(self, error: Exception, chunks: MemoryObjectSendStream[bytes], request_id: str) -> None:
        self._error = error

    async def _write(self, chunks: MemoryObjectReceiveStream[bytes], scope: Scope, send: Send) -> None:
        while True:
            try:
                chunk = await chunks.receive()
            except anyio.EndOfStream:
                break
            self._error = self._error or shut_out(self._context, scope)
            if self._error is not None:
                break
            await self._send(_join(chunk, chunks), send)
        if self._error is None:
            await self._begin(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, body: bytes, send: Send) -> None:
        await self._begin(send)
        await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _begin(self, send: Send) -> None:
        """The head goes out with the first bytes: until then an error can still be said with a status."""
        if not self._is_begun:
            self._is_begun = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})


class EventStream(StreamingAnswer):
    """Server-sent events: begun at once, a comment in every silence, an error as the last event."""

    def __init__(self, context: Context, source: Source, *, for_an_end: bool = False) -> None:
        super().__init__(context, source, media_type=MEDIA_TYPE, for_an_end=for_an_end)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"][ENDLESS] = True
        await super().__call__(scope, receive, send)

    async def _write(self, chunks: MemoryObjectReceiveStream[bytes], scope: Scope, send: Send) -> None:
        await self._send(HEARTBEAT, send)
        while True:
            chunk = HEARTBEAT
            with anyio.move_on_after(HEARTBEAT_SECONDS):
                try:
                    chunk = await chunks.receive()
                except anyio.EndOfStream:
                    break
            error = shut_out(self._context, scope)
            if error is not None:
                await self._send(frame("error", error_document(error, scope["state"]["request_id"])), send)
                break
            await self._send(_join(chunk, chunks), send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _fail(self, error: Exception, chunks: MemoryObjectSendStream[bytes], request_id: str) -> None:
        if not isinstance(error, WindlassError):
            raise error
        await chunks.send(frame("error", error_document(error, request_id)))


def _join(first: bytes, chunks: MemoryObjectReceiveStream[bytes]) -> bytes:
    """What has piled up goes in one write: a job that prints a million lines makes no million packets."""
    parts, size = [first], len(first)
    while size < _JOIN_BYTES:
        try:
            more = chunks.receive_nowait()
        except (anyio.WouldBlock, anyio.EndOfStream):
            break
        parts.append(more)
        size += len(more)
    return b"".join(parts)


async def _until_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
