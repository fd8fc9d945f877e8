"""A terminal into a container over a WebSocket: attach, exec, debug. Imported only when one is opened."""

import select
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as open_socket

from windlass.client import problems
from windlass.client.connection import Connection
from windlass.core.errors import Unavailable

STDOUT, STDERR = 1, 2
OPEN_SECONDS = 60
"""As long as any other answer may take: a busy server is no absent one."""
FRAME_BYTES_MAX = 1 << 22
PIECE_BYTES = 8 << 10
"""Fits into what a socket has room for when it says that it can be written to."""
LOOK_MS = 500


class Output(Struct, frozen=True):
    is_stderr: bool
    data: bytes


class ServerWord(Struct, frozen=True):
    """A text frame of the server: exactly one of the two is set."""

    exit: int | None = None
    error: problems.Problem | None = None


class Terminal:
    """Reading and writing may happen in two threads. `exit_code` is known when `output` has ended."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.exit_code: int | None = None
        self.has_spoken = False
        """Some output has come."""
        self.is_given_up = False
        self._deciding = threading.Lock()

    def output(self) -> Iterator[Output]:
        try:
            for frame in self._socket:
                if isinstance(frame, bytes):
                    if self._is_dropped():
                        return
                    if frame:
                        yield Output(frame[0] == STDERR, frame[1:])
                    continue
                word = msgspec.json.decode(frame, type=ServerWord)
                if word.error is not None:
                    raise problems.to_error(word.error)
                self.exit_code = word.exit
        except ConnectionClosed as exc:
            if self.exit_code is None and not self.is_given_up:
                raise Unavailable("the terminal's connection broke off", code="terminal-broken") from exc

    def send(self, data: bytes) -> None:
        """Waits while the other side takes none. The connection's own lock is not held meanwhile: with it, output could not be
        taken either, and where the other side waits for that, both would wait for ever."""
        with suppress(ConnectionClosed):
            for start in range(0, len(data), PIECE_BYTES):
                self._wait_for_room()
                self._socket.send(data[start : start + PIECE_BYTES])

    def resize(self, rows: int, columns: int) -> None:
        self._say({"resize": [rows, columns]})

    def end_input(self) -> None:
        self._say({"eof": True})

    def give_up(self) -> None:
        """Leave it, unless it has said something: then it goes on to its own end. Nothing is shown after this."""
        with self._deciding:
            self.is_given_up = not self.has_spoken
        if self.is_given_up:
            self.close()

    def close(self) -> None:
        self._socket.close()

    def _is_dropped(self) -> bool:
        with self._deciding:
            self.has_spoken = self.has_spoken or not self.is_given_up
            return self.is_given_up

    def _say(self, word: dict[str, object]) -> None:
        with suppress(ConnectionClosed):
            self._wait_for_room()
            self._socket.send(msgspec.json.encode(word).decode())

    def _wait_for_room(self) -> None:
        """Or until it is closed, which sending will tell."""
        raw, room = self._socket.socket, select.poll()
        with suppress(ValueError, OSError):  # closed here
            room.register(raw, select.POLLOUT)
            while not room.poll(LOOK_MS) and raw.fileno() >= 0:
                pass


@contextmanager
def connect(connection: Connection, target: str) -> Iterator[Terminal]:
    with ExitStack() as stack:
        yield Terminal(_opened(stack, connection, target))


def _opened(stack: ExitStack, connection: Connection, target: str) -> ClientConnection:
    parts = urlsplit(connection.url)
    url = f"{'wss' if parts.scheme == 'https' else 'ws'}://{parts.netloc}{target}"
    headers = {"Authorization": f"Bearer {connection.token}"} if connection.token else {}
    try:
        return stack.enter_context(
            open_socket(
                url,
                additional_headers=headers,
                max_size=FRAME_BYTES_MAX,
                proxy=None,
                compression=None,
                open_timeout=OPEN_SECONDS,
                ping_timeout=None,  # an answer waits behind output that nobody takes yet, in a pager for example
            )
        )
    except InvalidStatus as exc:
        body = bytes(exc.response.body or b"")
        raise problems.to_error(problems.read_problem(exc.response.status_code, body)) from exc
    except (OSError, InvalidHandshake, TimeoutError) as exc:
        raise Unavailable(f"no terminal at {connection.url}: {exc}", code=problems.UNREACHABLE) from exc
