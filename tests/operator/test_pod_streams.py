"""How long a stream to a pod is waited for in silence, by what it is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from windlass.client.kube.streams import SILENCE_SECONDS, open_stream

SUCCESS = b'\x03{"status": "Success"}'


class Socket:
    """Asked once, it says that it is over."""

    def __init__(self) -> None:
        self.patience: float | None = -1.0

    async def receive_bytes(self, seconds: float | None) -> bytes:
        self.patience = seconds
        return SUCCESS


class Http:
    def __init__(self, socket: Socket) -> None:
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
