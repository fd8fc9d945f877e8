"""Terminals: bytes both ways, the exit code last, and nobody in who may not."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import anyio
import pytest

from tests.api.home import IMAGE
from tests.api.live import LiveHome, live_home
from windlass.core.errors import Unavailable
from windlass.ports.runtime import Stream
from windlass.testing.runtime.terminal import FakeTerminal

pytestmark = pytest.mark.anyio


async def session(live: LiveHome, path: str, *sends: Any, **headers: str) -> tuple[bytes, bytes, dict[str, Any]]:
    """stdout, stderr and the last word."""
    output = {1: b"", 2: b""}
    with anyio.fail_after(120):
        async with live.session.ws_connect(f"{live.url}{path}", headers=headers) as socket:
            for one in sends:
                await (socket.send_bytes(one) if isinstance(one, bytes) else socket.send_json(one))
            async for message in socket:
                if message.type is aiohttp.WSMsgType.BINARY:
                    output[message.data[0]] += message.data[1:]
                else:
                    return output[1], output[2], message.json()
    raise AssertionError("the session ended without a last word")


async def test_a_command_beside_the_job_answers_and_ends_with_its_code() -> None:
    async with live_home() as live:
        made = await live.api.submit("sleep", "600", name="host", graceSeconds=0)
        await live.api.until(made["metadata"]["uid"], "RUNNING")
        path = "/api/v1/jobs/host/exec?command=do&command=print+hi&command=warn+oh&command=exit+7"
        assert await session(live, path) == (b"hi\n", b"oh\n", {"exit": 7})


async def test_input_reaches_the_command_until_it_ends() -> None:
    async with live_home() as live:
        made = await live.api.submit("sleep", "600", name="host", graceSeconds=0)
        await live.api.until(made["metadata"]["uid"], "RUNNING")
        path = "/api/v1/jobs/host/exec?command=copy&tty=1"
        said, _, last = await session(live, path, {"resize": [24, 80]}, b"a line\n", {"eof": True})
        assert said.strip() == b"a line"
        assert last == {"exit": 0}


async def test_attaching_follows_the_job_to_its_end() -> None:
    async with live_home() as live:
        made = await live.api.submit("do", "read", "exit 5", name="asks", terminal=True)
        await live.api.until(made["metadata"]["uid"], "RUNNING")
        said, _, last = await session(live, "/api/v1/jobs/asks/attach", b"answer\n")
        assert b"answer" in said
        assert last == {"exit": 5}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/jobs/absent/exec?command=true", "not-found"),
        ("/api/v1/jobs/idle/exec?command=true", "not-running"),
        ("/api/v1/jobs/idle/attach", "not-running"),
        ("/api/v1/jobs/idle/exec", "invalid"),
        ("/api/v1/jobs/idle/exec?command=", "invalid"),
        ("/api/v1/jobs/idle/exec?command=a%00b", "invalid"),
        ("/api/v1/jobs/idle/exec?command=true&tty=maybe", "invalid"),
        ("/api/v1/jobs/idle/debug?image=--privileged", "invalid"),
        ("/api/v1/jobs/idle/debug?name=A+b", "invalid"),
        ("/api/v1/jobs/idle/debug", "volume-gone"),
    ],
)
async def test_what_cannot_be_opened_says_why(path: str, code: str) -> None:
    async with live_home() as live:
        await live.api.submit("true", name="idle", suspend=True)
        assert (await session(live, path))[2]["error"]["code"] == code


async def test_a_shell_that_cannot_be_opened_says_whether_image_or_command_is_missing() -> None:
    async with live_home() as live:
        made = await live.api.submit("true", name="over")
        await live.api.until(made["metadata"]["uid"])
        refused = (await session(live, "/api/v1/jobs/over/debug?command=nosuch"))[2]["error"]
        assert (refused["code"], refused["status"]) == ("start-failed", 409)
        live.api.home.machine.images = {IMAGE}
        refused = (await session(live, "/api/v1/jobs/over/debug?image=nosuch:1"))[2]["error"]
        assert (refused["code"], refused["status"]) == ("image-not-found", 409)
        assert "nosuch:1" in refused["detail"]


@pytest.mark.parametrize(
    "frame", ["[]", "{", '{"resize": [0, 1]}', '{"resize": [1e9, 1]}', '{"rm": 1}', '{"eof": 1}', '"' + "x" * 2000]
)
async def test_a_frame_that_means_nothing_ends_the_session_with_a_reason(frame: str) -> None:
    async with live_home() as live:
        made = await live.api.submit("sleep", "600", name="host", graceSeconds=0)
        await live.api.until(made["metadata"]["uid"], "RUNNING")
        async with live.session.ws_connect(f"{live.url}/api/v1/jobs/host/exec?command=copy") as socket:
            await socket.send_str(frame)
            with anyio.fail_after(120):
                last = await socket.receive_json()
        assert last["error"]["status"] == 400


async def test_nobody_enters_without_a_token_or_from_another_site() -> None:
    async with live_home() as live:
        await live.api.submit("true", name="idle", suspend=True)
        url = f"{live.url}/api/v1/jobs/idle/attach"
        cases = {
            401: {"Authorization": "Bearer x"},
            403: live.api.bearer(roles=("viewer",)),
        }
        for status, headers in cases.items():
            with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
                await live.session.ws_connect(url, headers=headers)
            assert refusal.value.status == status
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await live.session.ws_connect(url, origin="http://evil.example")
        assert refusal.value.status == 403


async def test_a_client_that_goes_away_leaves_no_seat_taken() -> None:
    async with live_home() as live:
        made = await live.api.submit("sleep", "600", name="host", graceSeconds=0)
        await live.api.until(made["metadata"]["uid"], "RUNNING")
        seats = live.api.app.context.seats
        free = seats._free
        socket = await live.session.ws_connect(
            f"{live.url}/api/v1/jobs/host/exec?command=do&command=print+up&command=sleep+600"
        )
        await socket.receive_bytes()
        assert seats._free == free - 1
        await socket.close()
        with anyio.fail_after(120):
            while seats._free != free:
                await anyio.lowlevel.checkpoint()


async def test_a_terminal_that_breaks_off_says_so_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    async def output(_: FakeTerminal) -> AsyncIterator[tuple[Stream, bytes]]:
        yield Stream.STDOUT, b"so far"
        raise Unavailable("the way to it is gone", code="way-gone")

    monkeypatch.setattr(FakeTerminal, "output", output)
    async with live_home() as live:
        made = await live.api.submit("sleep", "600", name="host", graceSeconds=0)
        await live.api.until(made["metadata"]["uid"], "RUNNING")
        said, _, last = await session(live, "/api/v1/jobs/host/exec?command=copy")
        assert said == b"so far"
        assert (last["error"]["status"], last["error"]["code"]) == (503, "way-gone")
