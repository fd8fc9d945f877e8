"""How long a stream to a pod is waited for, by what it is: in silence, and while its way is slow."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import httpcore2
import httpx2
import pytest
from aiohttp import WSMsgType, web
from anyio import to_thread
from httpx2.websockets import AsyncWebSocketSession
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster, Context, User

from windlass.client.kube import door
from windlass.client.kube.streams import PROTOCOL, SILENCE_SECONDS, open_stream
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


def hurried(config: SingleConfig, params: ConnectionParams) -> httpx2.AsyncClient:
    """Asks at once, and not after a while, whether the other side is there; and waits for the answer not at all, or for ever."""
    http: Any = AsyncClient(config, params)
    opened = http.websocket

    def websocket(*words: Any, keepalive_ping_timeout_seconds: float | None = 0.0, **options: Any) -> Any:
        seconds = None if keepalive_ping_timeout_seconds is None else 0.0
        options |= {"keepalive_ping_interval_seconds": 0.01, "keepalive_ping_timeout_seconds": seconds}
        return opened(*words, **options)

    http.websocket = websocket
    return cast(httpx2.AsyncClient, http)


async def late(request: web.Request) -> web.WebSocketResponse:
    """As over a slow link, where an answer stands behind all that is under way: asked twice whether it is there, it has said
    nothing yet."""
    socket = web.WebSocketResponse(protocols=[PROTOCOL], autoping=False)
    await socket.prepare(request)
    asked = 0
    while asked < 2 and (message := await socket.receive()).type is not WSMsgType.CLOSED:
        asked += message.type is WSMsgType.PING
    await socket.send_bytes(b"\x01late\n")
    await socket.send_bytes(SUCCESS)
    return socket


@asynccontextmanager
async def slow_server() -> AsyncIterator[SingleConfig]:
    app = web.Application()
    app.router.add_get("/{path:.*}", late)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        context = Context(cluster="c", user="u")
        yield SingleConfig(context_name="here", context=context, cluster=Cluster(server=url), user=User())
    finally:
        await runner.cleanup()


@pytest.mark.anyio
async def test_a_way_that_is_slow_is_not_taken_for_one_that_broke() -> None:
    with anyio.fail_after(DEADLINE_SECONDS):
        async with slow_server() as config, hurried(config, ConnectionParams()) as http:
            async with open_stream(http, "pod", "default", ("true",), has_input=False, tty=False) as stream:
                assert [said async for said in stream.output()] == [(Stream.STDOUT, b"late\n")]


@pytest.mark.anyio
async def test_a_way_that_is_slow_is_not_taken_for_one_that_broke_at_the_command_line_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(door, "AsyncClient", hurried)
    with anyio.fail_after(DEADLINE_SECONDS):
        async with slow_server() as config:
            done = await to_thread.run_sync(lambda: door.KubeDoor(config).run("pod", "default", ["true"]))
    assert (done.exit_code, done.stdout) == (0, b"late\n")
