"""How long a stream to a pod is waited for in silence, by what it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpcore2
import pytest
from httpx2.websockets import AsyncWebSocketSession

from windlass.client.kube.streams import SILENCE_SECONDS, open_stream
from windlass.core.errors import Unavailable
from windlass.ports.runtime import Stream

DEADLINE_SECONDS = 60
SUCCESS = b'\x03{"status": "Success"}'


class Socket:
    """Asked once, it says that it is over."""

    def __init__(self) -> None:
        self.patience: float | None = -1.0
        self.stream = HalfClosed()

    async def receive_bytes(self, seconds: float | None) -> bytes:
        self.patience = seconds
        return SUCCESS


class HalfClosed:
    """The way to an API server that takes nothing in any more, as when the run is over, and has not said everything yet."""

    def __init__(self, *frames: bytes) -> None:
        self._frames = list(frames)
        self._is_refused = anyio.Event()
        self.is_closed = False

    async def read(self, bytes_max: int, timeout: float | None = None) -> bytes:
        await self._is_refused.wait()
        if self.is_closed or not self._frames:
            raise httpcore2.ReadError("closed")
        data = self._frames.pop(0)
        return bytes((0x82, len(data))) + data  # a whole binary message, unmasked as a server's are

    async def write(self, data: bytes, timeout: float | None = None) -> None:
        self._is_refused.set()
        raise httpcore2.WriteError("broken pipe")

    async def aclose(self) -> None:
        self.is_closed = True

    def get_extra_info(self, info: str) -> None:
        return None


class Http:
    def __init__(self, socket: Any) -> None:
        self._socket = socket

    @asynccontextmanager
    async def websocket(self, *_: Any, **__: Any) -> AsyncIterator[Socket]:
        yield self._socket


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("command", "tty", "patience"),
    [
        pytest.param(("true",), False, SILENCE_SECONDS, id="a command of ours"),
        pytest.param(("sh",), True, None, id="somebody at a terminal"),
        pytest.param((), True, None, id="a run with a terminal"),
        pytest.param((), False, None, id="a run with input"),
    ],
)
async def test_a_run_may_be_silent_for_as_long_as_it_likes(
    command: tuple[str, ...], tty: bool, patience: float | None
) -> None:
    socket = Socket()
    http: Any = Http(socket)
    async with open_stream(http, "pod", "default", command, has_input=True, tty=tty) as stream:
        assert [said async for said in stream.output()] == []
    assert socket.patience == patience


@pytest.mark.anyio
async def test_what_a_run_says_after_it_has_stopped_reading_is_heard() -> None:
    way: Any = HalfClosed(b"\x01y\n", b"\x01enough\n", SUCCESS)
    with anyio.fail_after(DEADLINE_SECONDS):
        async with AsyncWebSocketSession(way) as session:
            http: Any = Http(session)
            async with open_stream(http, "pod", "default", (), has_input=True, tty=False) as stream:
                with pytest.raises(Unavailable):
                    await stream.send(b"y\n" * 1000)
                said = [said async for said in stream.output()]
    assert said == [(Stream.STDOUT, b"y\n"), (Stream.STDOUT, b"enough\n")]


@pytest.mark.anyio
async def test_a_way_that_closes_without_a_last_word_is_an_error_and_not_waited_for() -> None:
    way: Any = HalfClosed(b"\x01y\n")
    with anyio.fail_after(DEADLINE_SECONDS):
        async with AsyncWebSocketSession(way) as session:
            http: Any = Http(session)
            async with open_stream(http, "pod", "default", (), has_input=True, tty=False) as stream:
                with pytest.raises(Unavailable):
                    await stream.send(b"y\n")
                heard = stream.output()
                assert await anext(heard) == (Stream.STDOUT, b"y\n")
                with pytest.raises(Unavailable):
                    await anext(heard)
