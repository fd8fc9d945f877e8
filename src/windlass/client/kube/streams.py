"""A command in a pod, or the pod's own first process, as a duplex stream on an event loop: the port's Terminal.

By websocket and Kubernetes' channels: the first byte of a frame says which stream the rest belongs to. `door` speaks the same
from threads.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import httpx2
from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError
from msgspec import Struct

from windlass.core.errors import Unavailable
from windlass.core.model.unrunnable import read_unrunnable
from windlass.ports.runtime import Stream
from windlass.wire.kube.kinds import PODS
from windlass.wire.kube.names import CONTAINER, Document

SILENCE_SECONDS: Final = 600.0
"""How long a command in a pod may say nothing before the connection is given up. Somebody at a terminal may think
for longer, and a run may work for longer."""
PROTOCOL: Final = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, VERDICT, SIZE, CLOSE = 0, 1, 2, 3, 4, 255
FRAME: Final = 1 << 17
BROKEN: Final = (httpx2.HTTPError, HTTPXWSException)
END_OF_INPUT: Final = b"\x04"
"""What a terminal has instead of an end of file."""


class _Way:
    """The connection under the socket. One that can no longer be written to may still be read, and the socket would give up both
    at once, without a word to who listens: so it is not told."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.read, self.aclose, self.get_extra_info = stream.read, stream.aclose, stream.get_extra_info
        self.refusal: Exception | None = None
        """Why nothing is taken in any more."""

    async def write(self, data: bytes, timeout: float | None = None) -> None:
        if self.refusal is not None:
            return
        try:
            await self._stream.write(data, timeout)
        except Exception as exc:  # whatever it is called by who carries it
            self.refusal = exc


class PodStream:
    def __init__(self, socket: Any, *, has_terminal: bool, silence_seconds: float | None) -> None:
        self._socket = socket
        self._way = socket.stream = _Way(socket.stream)
        self._silence_seconds = silence_seconds
        self._has_terminal = has_terminal
        self._exit_code: int | None = None

    async def send(self, data: bytes) -> None:
        for at in range(0, len(data), FRAME):
            await self._send(STDIN, data[at : at + FRAME])

    async def close_input(self) -> None:
        if self._has_terminal:
            await self.send(END_OF_INPUT)
        else:
            await self._send(CLOSE, bytes((STDIN,)))

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        while True:
            try:
                frame: bytes = await self._socket.receive_bytes(self._silence_seconds)
            except (*BROKEN, TimeoutError) as exc:
                raise broken(exc) from exc
            channel, data = frame[0], frame[1:]
            if channel == VERDICT:
                verdict = read_verdict(json.loads(data))
                if verdict.words:
                    yield Stream.STDERR, verdict.words
                self._exit_code = verdict.exit_code
                return
            if channel in (STDOUT, STDERR) and data:
                yield Stream.STDERR if channel == STDERR else Stream.STDOUT, data

    async def resize(self, *, rows: int, columns: int) -> None:
        size = json.dumps({"Height": rows, "Width": columns}).encode()
        await self._send(SIZE, size)

    async def exit_code(self) -> int | None:
        return self._exit_code

    async def _send(self, channel: int, data: bytes) -> None:
        """To one that is over it is no error: the end is told with the output."""
        if self._exit_code is not None:
            return
        try:
            await self._socket.send_bytes(bytes((channel,)) + data)
        except Exception as exc:  # also the protocol's own, of a socket that the other side has closed meanwhile
            raise broken(exc) from exc
        if self._way.refusal is not None:
            raise broken(self._way.refusal)


@asynccontextmanager
async def open_stream(
    http: httpx2.AsyncClient, pod: str, namespace: str, command: Sequence[str], *, has_input: bool, tty: bool
) -> AsyncIterator[PodStream]:
    """`command` are words, never a shell's text; none of them: the pod's first process is joined."""
    query: dict[str, Any] = {"container": CONTAINER, "stdout": "true", "stdin": str(has_input).lower()}
    query |= {"tty": str(tty).lower(), "stderr": str(not tty).lower()}
    query |= {"command": list(command)} if command else {}
    path = PODS.path(namespace, pod, "exec" if command else "attach")
    try:
        async with open_socket(http, path, query) as socket:
            silence_seconds = SILENCE_SECONDS if command and not tty else None
            yield PodStream(socket, has_terminal=tty, silence_seconds=silence_seconds)
    except BROKEN as exc:
        raise broken(exc) from exc
    except BaseExceptionGroup as group:  # the socket's task group wraps whatever passes through it
        raise innermost(group) from None


def open_socket(http: httpx2.AsyncClient, path: str, query: Mapping[str, Any]) -> AbstractAsyncContextManager[Any]:
    """An answer to a ping waits behind the bytes that are under way, for minutes where the link is slow: one that is slow is not
    gone. TCP tells those, as long as it has a ping to deliver."""
    return http.websocket(path, subprotocols=[PROTOCOL], params=query, keepalive_ping_timeout_seconds=None)


def innermost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    only: BaseException = group
    while isinstance(only, BaseExceptionGroup) and len(only.exceptions) == 1:
        only = only.exceptions[0]
    return broken(only) if isinstance(only, BROKEN) else only


class Verdict(Struct, frozen=True):
    """How a command ended; `words` for its stderr, where it could not be begun and said nothing itself."""

    exit_code: int
    words: bytes = b""


def read_verdict(document: Document) -> Verdict:
    if document.get("status") == "Success":
        return Verdict(0)
    for cause in document.get("details", {}).get("causes", []):
        if cause.get("reason") == "ExitCode":
            return Verdict(int(cause["message"]))
    message = str(document.get("message", "the command could not be run"))
    if unrunnable := read_unrunnable(message):
        return Verdict(unrunnable.exit_code, f"{unrunnable.words}\n".encode())
    raise Unavailable(message, code="kube-unavailable")


def broken(exc: Exception) -> Unavailable:
    if isinstance(exc, WebSocketUpgradeError):
        words = f"the Kubernetes API server opens no stream to the pod: it answers {exc.response.status_code}"
        return Unavailable(words, code="kube-unavailable")
    return Unavailable(
        f"the Kubernetes API server does not answer: {str(exc)[:200] or type(exc).__name__}", code="kube-unavailable"
    )
