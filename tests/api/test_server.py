"""The real server: bounds, hosts, streams that end with their client, and a shutdown that comes to an end."""

import json
import socket as sockets
from contextlib import suppress

import aiohttp
import anyio
import anyio.to_thread
import pytest

from tests.api.home import manifest
from tests.api.live import LiveHome, live_home
from windlass.api.outgoing import head_of
from windlass.api.server import HEAD_BYTES_MAX, listen, serve
from windlass.core.errors import Unavailable

pytestmark = pytest.mark.anyio


async def raw(live: LiveHome, request: bytes) -> bytes:
    """What the server says to these very bytes, until it closes; it may do so before it has read them all."""

    def exchange() -> bytes:
        # A plain socket: an event loop's stream that fails to send gives up what it could still receive.
        with sockets.create_connection(("127.0.0.1", live.port), timeout=120) as one:
            answer = b""
            with suppress(OSError):
                one.sendall(request)
            with suppress(ConnectionError):
                while piece := one.recv(65536):
                    answer += piece
            return answer

    return await anyio.to_thread.run_sync(exchange)


async def test_a_job_goes_in_over_a_real_connection() -> None:
    async with live_home() as live:
        async with live.session.post(f"{live.url}/api/v1/jobs", json=manifest("true")) as answer:
            assert answer.status == 201
            assert "server" not in answer.headers
            assert answer.headers["x-request-id"]


def a_submit(live: LiveHome, name: str, *lines: str) -> bytes:
    """The very bytes of a request to the hot door."""
    body = json.dumps(manifest("true", name=name, suspend=True)).encode()
    bearer = live.api.bearer()["Authorization"]
    head = [
        "POST /api/v1/jobs HTTP/1.1",
        "Host: localhost",
        f"Authorization: {bearer}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *lines,
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


async def test_submits_sent_in_one_breath_are_answered_in_their_order_and_the_last_closes() -> None:
    async with live_home() as live:
        answers = await raw(live, a_submit(live, "first") + a_submit(live, "second", "Connection: close"))
        first, second = answers.split(b"HTTP/1.1 201 Created\r\n")[1:]
        assert b'"name":"first"' in first
        assert b'"name":"second"' in second
        assert b"connection: close\r\n" not in first
        assert b"connection: close\r\n" in second
        for answer in (first, second):
            head, _, body = answer.partition(b"\r\n\r\n")
            lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n"))
            assert int(lines[b"content-length"]) == len(body)
            assert lines[b"location"].endswith(json.loads(body)["metadata"]["uid"].encode())
            assert lines[b"x-request-id"]
            assert lines[b"windlass-revision"]
            assert lines[b"cache-control"] == b"no-store"


async def test_a_connection_that_nobody_uses_any_more_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.api.server._KEEP_ALIVE_SECONDS", 0.05)
    async with live_home() as live:
        answers = await raw(live, a_submit(live, "first") + a_submit(live, "second"))
        assert answers.count(b"HTTP/1.1 201") == 2  # and `raw` came back, though nobody asked for an end


def test_a_line_break_never_gets_into_a_head() -> None:
    message = {"status": 201, "headers": [(b"location", b"/api\r\nset-cookie: mine")], "body": b""}
    with pytest.raises(RuntimeError, match="line break"):
        head_of(message, is_last=False)


async def test_five_megabytes_of_json_are_too_large_before_they_are_read() -> None:
    async with live_home() as live:
        body = json.dumps(manifest("true", env={"A": "x" * 5_000_000})).encode()
        for path in ("/api/v1/jobs", "/api/v1/jobs/bulk"):
            headers = {"Content-Type": "application/json"}
            async with live.session.post(f"{live.url}{path}", data=body, headers=headers) as answer:
                assert answer.status == 413
                assert (await answer.json(content_type=None))["code"] == "too-large"
        async with live.session.put(f"{live.url}/api/v1/jobs/x", data=body, headers=headers) as answer:
            assert answer.status == 413


async def test_five_megabytes_in_chunks_without_a_length_are_too_large_as_well() -> None:
    async def chunks():  # type: ignore[no-untyped-def]
        for _ in range(80):
            yield b" " * 65536

    async with live_home() as live:
        headers = {"Content-Type": "application/json"}
        async with live.session.post(f"{live.url}/api/v1/jobs", data=chunks(), headers=headers) as answer:
            assert answer.status == 413


async def test_a_header_without_end_is_cut_off() -> None:
    async with live_home() as live:
        head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"a" * (2 * HEAD_BYTES_MAX)
        assert (await raw(live, head + b"\r\n\r\n")).startswith(b"HTTP/1.1 431")
        many = b"".join(b"X-%d: y\r\n" % number for number in range(20_000))
        assert (await raw(live, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n")).startswith(
            b"HTTP/1.1 431"
        )
        long = b"GET /" + b"a" * (2 * HEAD_BYTES_MAX) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert (await raw(live, long)).startswith(b"HTTP/1.1 431")


POST = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
HOSTILE = {
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a null in the path": b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a negative length": POST + b"Content-Length: -5\r\n\r\n",
    "a chunk that is none": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
    "a bare line feed in a header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
async def test_bytes_that_are_no_request_are_answered_400(case: str) -> None:
    async with live_home() as live:
        answer = await raw(live, HOSTILE[case])
        assert answer.startswith(b"HTTP/1.1 400"), answer
        async with live.session.get(f"{live.url}/healthz") as alive:
            assert alive.status == 200


async def test_a_name_that_is_not_ours_is_refused_on_loopback() -> None:
    async with live_home(hosts=("localhost", "127.0.0.1", "[::1]")) as live:
        for host, status in {
            "localhost": 200, f"LocalHost:{live.port}": 200, "127.0.0.1": 200, "[::1]:8080": 200,
            "evil.example": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "": 421, "[::1": 421,
        }.items():  # fmt: skip
            async with live.session.get(f"{live.url}/healthz", headers={"Host": host}) as answer:
                assert answer.status == status, host
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await live.session.ws_connect(f"{live.url}/api/v1/jobs/x/attach", headers={"Host": "evil.example"})


async def test_a_follower_that_goes_away_frees_its_seat_and_its_subscription() -> None:
    async with live_home() as live:
        await live.api.submit("true", name="quiet", suspend=True)
        plane, seats = live.api.home.plane, live.api.app.context.seats
        free, followers = seats._free, len(plane.read_model._followers)
        answer = await live.session.get(f"{live.url}/api/v1/jobs/quiet/logs?follow=true")
        await answer.content.readany()
        assert seats._free == free - 1
        answer.close()
        with anyio.fail_after(120):
            while seats._free != free or len(plane.read_model._followers) != followers:
                await anyio.lowlevel.checkpoint()


async def test_changes_of_the_tenant_arrive_as_they_happen() -> None:
    async with live_home() as live:
        async with live.session.get(f"{live.url}/api/v1/events?follow=true") as answer:
            await answer.content.readuntil(b"\n\n")
            made = await live.api.submit("true", name="seen")
            states = []
            with anyio.fail_after(120):
                while not states or states[-1] != "SUCCEEDED":
                    block = (await answer.content.readuntil(b"\n\n")).decode()
                    if "event: job" in block:
                        data = json.loads(block.split("data: ", 1)[1])
                        assert data["metadata"]["uid"] == made["metadata"]["uid"]
                        states.append(data["status"]["state"])
        assert states[-1] == "SUCCEEDED"


async def test_a_reader_with_an_old_list_is_told_to_list_again() -> None:
    async with live_home() as live:
        await live.api.submit("true", name="before", suspend=True)
        async with live.session.get(f"{live.url}/api/v1/events?follow=true&after=0") as answer:
            text = b""
            with anyio.fail_after(120):
                while b"event: reset" not in text:
                    text += await answer.content.readany()
            assert b"event: reset" in text


async def test_the_server_stops_though_a_stream_is_open() -> None:
    async with live_home() as live:
        await live.api.submit("true", name="quiet", suspend=True)
        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:

                async def second(*, task_status: anyio.abc.TaskStatus[int]) -> None:
                    await serve(live.api.app, host="127.0.0.1", port=0, task_status=task_status)

                port = await tasks.start(second)
                answer = await live.session.get(f"http://127.0.0.1:{port}/api/v1/jobs/quiet/logs?follow=true")
                await answer.content.readany()
                tasks.cancel_scope.cancel()
        with pytest.raises(OSError, match=r"."):
            await anyio.connect_tcp("127.0.0.1", port)
        answer.close()


def test_an_address_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as first:
        with pytest.raises(Unavailable, match="cannot listen on"):
            listen("127.0.0.1", first.getsockname()[1])
    assert isinstance(first, sockets.socket)


def test_small_answers_are_not_held_back() -> None:
    with listen("127.0.0.1", 0) as listener, sockets.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.proto == sockets.IPPROTO_TCP
            assert accepted.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY)
