"""HTTP/1.1 as this client needs it, over a plain socket.

The standard library's `http.client` brings the whole of `email` and `ssl` along, a third of the time that `windlass get jobs`
takes to start. What is here is the part of RFC 9112 a client of one server needs: requests of a known length, answers framed by
length, by chunks or by the end of the connection. Anything else is an error, never a guess.
"""

import socket
from collections.abc import Iterator, Mapping
from typing import Protocol

LINE_BYTES_MAX = 1 << 16
HEADERS_MAX = 200
_NO_BODY = frozenset({204, 304})


class Broken(ConnectionError):
    """The other side broke off, or does not speak HTTP/1.1."""


class Body(Protocol):
    """Bytes that can be sent more than once; the length is known before the first of them."""

    @property
    def length(self) -> int: ...

    def chunks(self) -> Iterator[bytes]: ...


class Link:
    """One connection. Not for use from several threads, but `shut` may be called from another and ends a blocked read."""

    def __init__(self, host: str, port: int, *, is_tls: bool, connect_seconds: float, read_seconds: float) -> None:
        self._host = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._socket = socket.create_connection((host, port), connect_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_tls:
            self._socket = _wrapped(self._socket, host)
        self._socket.settimeout(read_seconds)
        self._reader = self._socket.makefile("rb")

    def exchange(self, method: str, target: str, headers: Mapping[str, str], body: bytes | Body | None) -> "Answer":
        head = _head(method, target, {"Host": self._host, **headers})
        if body is None or isinstance(body, bytes):
            self._socket.sendall(head + (body or b""))
        else:
            self._send_all(head, body)
        return _answer(self._reader)

    def shut(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def _send_all(self, head: bytes, body: Body) -> None:
        try:
            self._socket.sendall(head)
            for chunk in body.chunks():
                self._socket.sendall(chunk)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses an upload answers before it has read all of it. That answer is what the caller wants.
            return


class _Reader(Protocol):
    def readline(self, limit: int = -1, /) -> bytes: ...

    def read1(self, size: int = -1, /) -> bytes: ...


class Answer:
    """Status and headers are there; the body is read by its caller, to its end if the connection is to be used again."""

    def __init__(self, status: int, headers: Mapping[str, str], reader: _Reader, *, is_last: bool) -> None:
        self.status = status
        self.headers = headers
        self.is_last = is_last
        """The connection ends with it."""
        self._reader = reader
        self._is_chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        self.length = 0 if status in _NO_BODY else None if self._is_chunked else _length(headers)
        """None when the server cannot know it beforehand."""
        self._left = 0 if self._is_chunked else self.length
        self._is_over = self.length == 0
        if self.length is None and not self._is_chunked:
            self.is_last = True

    def read(self, size: int = 1 << 16, /) -> bytes:
        """What has come, at most `size`; empty only at the end. A body that breaks off is an error, never a short one."""
        if self._is_over or size == 0:
            return b""
        if self._is_chunked and not self._left:
            self._left = self._next_chunk()
            if not self._left:
                self._is_over = True
                return b""
        piece = self._reader.read1(size if self._left is None else min(size, self._left))
        self._account(piece)
        return piece

    def read_all(self) -> bytes:
        pieces = []
        while piece := self.read():
            pieces.append(piece)
        return b"".join(pieces)

    def _account(self, piece: bytes) -> None:
        if self._left is None:
            self._is_over = not piece
            return
        if not piece:
            raise Broken(f"the answer broke off, {self._left} bytes too early")
        self._left -= len(piece)
        if self._left:
            return
        if self._is_chunked:
            self._expect_line(b"")
        else:
            self._is_over = True

    def _next_chunk(self) -> int:
        size, _, _ = _line(self._reader).partition(b";")
        try:
            count = int(size.strip() or b"x", 16)
        except ValueError:
            raise Broken("an answer in chunks has a chunk without a size") from None
        if count == 0:
            while _line(self._reader):  # trailers
                pass
        return count

    def _expect_line(self, expected: bytes) -> None:
        if _line(self._reader) != expected:
            raise Broken("an answer in chunks has a chunk of the wrong size")


def _wrapped(plain: socket.socket, host: str) -> socket.socket:
    import ssl

    return ssl.create_default_context().wrap_socket(plain, server_hostname=host)


def _head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    for line in lines:
        if not line.isascii() or not line.isprintable():
            raise ValueError(f"this cannot be sent in the head of a request: {line!r}")
    return "\r\n".join([*lines, "", ""]).encode()


def _answer(reader: _Reader) -> Answer:
    status, version = _status(_line(reader))
    headers = _headers(reader)
    while 100 <= status < 200:
        status, version = _status(_line(reader))
        headers = _headers(reader)
    is_last = version == b"HTTP/1.0" or headers.get("connection", "").lower() == "close"
    return Answer(status, headers, reader, is_last=is_last)


def _status(line: bytes) -> tuple[int, bytes]:
    version, _, rest = line.partition(b" ")
    code = rest[:3]
    if not version.startswith(b"HTTP/1.") or not code.isdigit() or len(code) != 3:
        raise Broken("the answer is not HTTP/1.1")
    return int(code), version


def _headers(reader: _Reader) -> dict[str, str]:
    """Lower-case names. One that is repeated is joined, as the RFC has it, so two lengths are no length."""
    headers: dict[str, str] = {}
    for _ in range(HEADERS_MAX):
        line = _line(reader)
        if not line:
            return headers
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise Broken("the answer has a header without a name")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    raise Broken("the answer has too many headers")


def _line(reader: _Reader) -> bytes:
    line = reader.readline(LINE_BYTES_MAX + 1)
    if not line.endswith(b"\n"):
        raise Broken("the connection broke off" if len(line) <= LINE_BYTES_MAX else "the answer has an endless line")
    return line.rstrip(b"\r\n")


def _length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("content-length")
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise Broken("the answer has no single length")
    return int(text)
