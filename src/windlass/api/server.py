"""Listening: uvicorn on uvloop and httptools, with bounds that it does not have by itself."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import anyio
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from windlass.api.bodies import WHOLE
from windlass.api.sse import ENDLESS
from windlass.core.errors import Unavailable

HEAD_BYTES_MAX: Final = 32 * 1024
"""Of the address and all header fields of one request."""
HEAD_SECONDS_MAX: Final = 20.0
"""For the head of a request, and from the connection to the first: who opens sockets and says nothing is shown out."""
GRACE_SECONDS: Final = 3
_HELD_BYTES_MAX: Final = 64 * 1024
_WEBSOCKET_FRAME_MAX: Final = 1 << 20
_BACKLOG: Final = 2048
_KEEP_ALIVE_SECONDS: Final = 65
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


async def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Until cancelled; then open requests have GRACE_SECONDS. Reports the port it listens on once it does.

    Signals are the caller's: `boot` decides what ends a process.
    """
    listener = listen(host, port)
    server = _Server(_config(app))
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve_out, listener)
            await server.is_up.wait()
            task_status.started(listener.getsockname()[1])
            try:
                await anyio.sleep_forever()
            finally:
                server.should_exit = True
    finally:
        listener.close()


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; Unavailable with the reason in words when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol by name: event loops switch Nagle's delay off (40 ms on a kept-alive connection) only where they see it.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as exc:
        listener.close()
        hint = "choose another --port, or see who has it: ss -ltnp" if port else None
        raise Unavailable(f"cannot listen on {host}:{port}: {exc.strerror}", code="address", hint=hint) from exc
    listener.setblocking(False)
    return listener


class BoundedHttpProtocol(HttpToolsProtocol):
    """Bounds the head of a request in bytes and in time; the parser itself takes any number of headers, however slowly."""

    _head_bytes = 0
    _is_in_head = True
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(cast(asyncio.Transport, _Outgoing(transport, self.loop)))
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        self._is_in_head = True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if self._head_bytes <= HEAD_BYTES_MAX:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.scope["state"][WHOLE] = True  # a body that came along with its head is whole before anyone asks for it
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        # Most heads come whole: only one that has begun and is not yet there is waited for.
        if not self._is_in_head:
            self._stop_waiting()
        elif self._patience is None:
            self._wait_for_head()

    def shutdown(self) -> None:
        """Followers end at once: what they wait for may never come, and they know how to come back."""
        super().shutdown()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and cycle.scope["state"].get(ENDLESS):
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started and cycle.chunked_encoding:
                self.transport.write(b"0\r\n\r\n")
            self.transport.close()

    def _count(self, size: int) -> None:
        was_within = self._head_bytes <= HEAD_BYTES_MAX
        self._head_bytes += size
        if was_within and self._head_bytes > HEAD_BYTES_MAX:
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def _wait_for_head(self) -> None:
        self._patience = self.loop.call_later(HEAD_SECONDS_MAX, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class _Outgoing:
    """A transport that holds what is written until the end of the loop's turn: the head and the body of an answer leave as one
    packet, by one call, and whoever reads them wakes once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._held_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > _HELD_BYTES_MAX:
            self._flush()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        if held and not self._transport.is_closing():
            self._transport.write(b"".join(held))


class _Server(uvicorn.Server):
    """uvicorn's server without its hands on the process's signals."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = anyio.Event()

    async def serve_out(self, listener: socket.socket) -> None:
        """To its own end: a cancelled listener still owes answers to those it let in, for the time of grace."""
        with anyio.CancelScope(shield=True):
            await self.serve([listener])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="none",  # whoever runs us has chosen the loop
        http=BoundedHttpProtocol,
        ws="websockets-sansio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        ws_max_size=_WEBSOCKET_FRAME_MAX,
        ws_ping_interval=20,
        ws_ping_timeout=20,
        backlog=_BACKLOG,
    )
