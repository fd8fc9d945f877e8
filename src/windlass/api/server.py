"""Listening: uvicorn on uvloop and httptools, with bounds that it does not have by itself."""

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import anyio
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from windlass.api.bodies import WHOLE
from windlass.api.outgoing import OFFER, Outgoing, WholeCycle
from windlass.api.sse import ENDLESS
from windlass.core.errors import Unavailable

HEAD_BYTES_MAX: Final = 32 * 1024
"""Of the address and all header fields of one request."""
HEAD_SECONDS_MAX: Final = 20.0
"""For the head of a request, and from the connection to the first: who opens sockets and says nothing is shown out."""
GRACE_SECONDS: Final = 3
_WEBSOCKET_FRAME_MAX: Final = 1 << 20
_BACKLOG: Final = 2048
_PING_SECONDS: Final = 20.0
"""Keeps the way open through what forgets a silent connection."""
_KEEP_ALIVE_SECONDS: Final = 65
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


async def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    listener: socket.socket | None = None,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Until cancelled; then open requests have GRACE_SECONDS. Reports the port it listens on once it does. Who would rather know
    first that the address can be had brings the listener.

    Signals are the caller's: `boot` decides what ends a process.
    """
    listener = listener or listen(host, port)
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
        raise Unavailable(
            f"cannot listen on {host}:{port}: {exc.strerror}", code="address", hint=_way_out(exc, port)
        ) from exc
    listener.setblocking(False)
    return listener


def _way_out(refusal: OSError, port: int) -> str | None:
    if isinstance(refusal, socket.gaierror) or refusal.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address: give --host one of its own (ip address), or 0.0.0.0 for all of them"
    if refusal.errno == errno.EACCES:
        return "ports below 1024 are for root: choose another --port"
    return "choose another --port, or see who has it: ss -ltnp" if port else None


class BoundedHttpProtocol(HttpToolsProtocol):
    """Bounds the head of a request in bytes and in time; the parser itself takes any number of headers, however slowly."""

    _head_bytes = 0
    _is_in_head = True
    _patience: asyncio.TimerHandle | None = None
    _idle_since: float | None = None
    _is_fresh = False
    """The head has come with the data that is being read: nobody can have taken anything of the body yet."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(cast(asyncio.Transport, Outgoing(transport, self.loop)))
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        self._is_in_head = True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._head_bytes += len(url)
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """As uvicorn's, and counted. Without a call of it: every header of every request passes here."""
        size = len(name) + len(value)
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse_head(size)
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if self._head_bytes > HEAD_BYTES_MAX:
            return
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            self.cycle.__class__ = WholeCycle  # uvicorn names its own where it makes one; its task has not begun yet
            self.scope["extensions"] = OFFER
            self._is_fresh = True

    def on_message_complete(self) -> None:
        if self._is_fresh and len(self.cycle.body) <= HIGH_WATER_LIMIT:
            self.scope["state"][WHOLE] = bytes(self.cycle.body)
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._is_fresh = False
        # Most heads come whole: only one that has begun and is not yet there is waited for.
        if not self._is_in_head:
            self._stop_waiting()
        elif self._patience is None:
            self._wait_for_head()

    def on_response_complete(self) -> None:
        """As uvicorn's, but for the timer: one a connection, that looks when it was last used, instead of one an answer."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._close_when_idle()

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def _close_when_idle(self) -> None:
        idle = self.loop.time() - self._idle_since if self._idle_since is not None else 0.0
        if idle >= self.timeout_keep_alive:
            self.timeout_keep_alive_handler()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive - idle, self._close_when_idle)

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

    def _refuse_head(self, last: int) -> None:
        """Once: when the last piece took it over the bound."""
        if self._head_bytes - last <= HEAD_BYTES_MAX:
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def _wait_for_head(self) -> None:
        self._patience = self.loop.call_later(HEAD_SECONDS_MAX, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


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
        ws_ping_interval=_PING_SECONDS,
        ws_ping_timeout=None,  # an answer waits behind input that nobody takes: one that is slow is not gone; TCP tells those
        backlog=_BACKLOG,
    )
