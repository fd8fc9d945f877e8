"""A POST whose connection becomes a duplex byte stream: attach and exec.

By hand over a plain socket, because an HTTP client's response cannot half-close, and the end of a person's input is a
half-closed stream.
"""

import ssl
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlencode

import anyio
import anyio.abc
import msgspec

from windlass.adapters.runtime import unix
from windlass.adapters.runtime.docker.address import Address
from windlass.adapters.runtime.docker.refusals import refusal
from windlass.core.errors import Unavailable

HEAD_MAX: Final = 65_536
_ARRIVED_SECONDS: Final = 0.05
"""For what was sent to have arrived."""


class Hijacked:
    """Bytes both ways. `receive` gives b"" at the end."""

    def __init__(self, stream: anyio.abc.ByteStream, early: bytes) -> None:
        self._stream = stream
        self._early = early

    async def send(self, data: bytes) -> None:
        try:
            await self._stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as exc:
            raise Unavailable("the other end of the terminal is gone", code="terminal-closed") from exc

    async def end(self) -> None:
        """Of a stream that nothing is read from: half-closed, or closed where that cannot be."""
        try:
            await self._stream.send_eof()
        except NotImplementedError:
            await self.aclose()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            return

    async def send_eof(self) -> None:
        """Half-close. Over TLS there is no such thing: there the whole stream ends with `aclose` only."""
        try:
            await self._stream.send_eof()
        except (NotImplementedError, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            return

    async def receive(self) -> bytes:
        if self._early:
            early, self._early = self._early, b""
            return early
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return b""

    async def prepend(self, make: Callable[[bytes], bytes]) -> None:
        """What has come until now is what `make` makes of it."""
        early = self._early
        self._early = b""
        with anyio.move_on_after(_ARRIVED_SECONDS):
            early += await self.receive()
        self._early = make(early)

    async def aclose(self) -> None:
        with anyio.move_on_after(5, shield=True):
            await self._stream.aclose()


async def hijack(
    address: Address, tls: ssl.SSLContext | None, path: str, *, params: Mapping[str, str], body: object
) -> Hijacked:
    """Raises what the engine refuses as `refusals` says; connection errors as they come."""
    stream = await _connect(address, tls)
    try:
        await stream.send(_request(path, params=params, body=body))
        head, early = await _head(stream)
        status = int(head.split(b" ", 2)[1])
        if status not in (101, 200):
            raise refusal(status, await _rest(stream, head, early))
    except BaseException:
        with anyio.move_on_after(5, shield=True):
            await stream.aclose()
        raise
    return Hijacked(stream, early)


async def _connect(address: Address, tls: ssl.SSLContext | None) -> anyio.abc.ByteStream:
    if address.socket:
        return await unix.connect(address.socket)
    if tls is not None:
        return await anyio.connect_tcp(address.host, address.port, ssl_context=tls, tls_standard_compatible=False)
    return await anyio.connect_tcp(address.host, address.port)


def _request(path: str, *, params: Mapping[str, str], body: object) -> bytes:
    payload = b"" if body is None else msgspec.json.encode(body)
    head = (
        f"POST {path}?{urlencode(params)} HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
    )
    return head.encode() + payload


async def _head(stream: anyio.abc.ByteStream) -> tuple[bytes, bytes]:
    """Everything up to the empty line, and what came after it in the same packet."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > HEAD_MAX:
            raise ConnectionError("the engine's answer has no end to its headers")
        data += await stream.receive()
    head, _, early = data.partition(b"\r\n\r\n")
    return head, early


async def _rest(stream: anyio.abc.ByteStream, head: bytes, early: bytes) -> bytes:
    """The body of a refusal; what a few seconds bring of it is enough for its sentence."""
    length = next(
        (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), HEAD_MAX
    )
    with anyio.move_on_after(2):
        while len(early) < min(length, HEAD_MAX):
            try:
                early += await stream.receive()
            except anyio.EndOfStream:
                break
    return early
