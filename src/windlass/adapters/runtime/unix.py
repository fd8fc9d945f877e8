"""Streams over UNIX sockets that may be cancelled at any moment.

anyio's own answer a readiness with `Future.set_result`, unguarded: who is cancelled in the very turn of the loop in which bytes
arrive leaves an InvalidStateError to the loop's handler. Its waits for a descriptor are guarded, so these are built on them.
"""

import socket
from typing import Final

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint

_CHUNK: Final = 65_536
_FULL_SECONDS: Final = 0.01
"""Between two tries at a listener whose queue is full: there is nothing to wait for, such a socket always counts as writable."""


async def connect(path: str) -> "UnixStream":
    """Raises OSError, and waits as long as the listener's queue is full."""
    raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        while True:
            try:
                raw.connect(path)
                return UnixStream(raw)
            except BlockingIOError:
                await anyio.sleep(_FULL_SECONDS)
    except BaseException:
        raw.close()
        raise


class UnixStream(ByteStream):
    """A read that was cancelled has taken nothing; a cancelled write may have gone in part."""

    def __init__(self, raw: socket.socket) -> None:
        raw.setblocking(False)
        self._raw = raw
        self._is_closed = False
        self._reading = anyio.ResourceGuard("reading from")
        self._writing = anyio.ResourceGuard("writing to")

    async def receive(self, max_bytes: int = _CHUNK) -> bytes:
        await checkpoint()
        with self._reading:
            while True:
                try:
                    data = self._raw.recv(max_bytes)
                except BlockingIOError:
                    await anyio.wait_readable(self._raw)
                    continue
                except OSError as error:
                    raise self._gone() from error
                if not data:
                    raise anyio.EndOfStream
                return data

    async def send(self, item: bytes) -> None:
        await checkpoint()
        with self._writing:
            rest = memoryview(item)
            while rest:
                try:
                    rest = rest[self._raw.send(rest) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._raw)
                except OSError as error:
                    raise self._gone() from error

    async def send_eof(self) -> None:
        with self._writing:
            try:
                self._raw.shutdown(socket.SHUT_WR)
            except OSError as error:
                raise self._gone() from error

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            anyio.notify_closing(self._raw)
            self._raw.close()
        await checkpoint()

    def _gone(self) -> Exception:
        return anyio.ClosedResourceError() if self._is_closed else anyio.BrokenResourceError()
