"""Streams over UNIX sockets, cancelled in the worst moments. On both loops: the server's is uvloop."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream

from windlass.adapters.runtime import unix

ROUNDS = 300
LOOPS = [
    pytest.param(("asyncio", {"use_uvloop": uses}), id=name) for uses, name in ((False, "asyncio"), (True, "uvloop"))
]


@pytest.fixture(params=LOOPS)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def pair() -> Iterator[tuple[unix.UnixStream, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with ours, theirs:
        yield unix.UnixStream(ours), theirs


class Bell:
    """Cancels as the first thing of the turn in which the loop finds what came right after it; notes what the loop was left
    with."""

    def __init__(self) -> None:
        self.complaints: list[Any] = []
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        self._rope, self._clapper = socket.socketpair()
        self._scope = anyio.CancelScope()

    def __enter__(self) -> "Bell":
        self._loop.add_reader(self._clapper, self._strike)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._clapper)
        self._rope.close()
        self._clapper.close()

    def ring(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._rope.send(b"!")

    def _strike(self) -> None:
        self._clapper.recv(1)
        self._scope.cancel()


class Reader:
    """Reads once, and keeps what it read."""

    def __init__(self, stream: ByteStream) -> None:
        self.scope = anyio.CancelScope()
        self.heard = b""
        self._stream = stream

    async def read(self) -> None:
        with self.scope:
            self.heard = await self._stream.receive()


async def _turns() -> None:
    """Of the loop, more than it takes to come to a socket and wait for it: `wait_all_tasks_blocked` sleeps a tenth of a second for
    it, three hundred times."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_a_read_cancelled_as_bytes_arrive_loses_none_and_leaves_no_error(
    pair: tuple[unix.UnixStream, socket.socket],
) -> None:
    stream, peer = pair
    heard, given = b"", b"".join(number.to_bytes(2) for number in range(ROUNDS))
    with anyio.fail_after(60), Bell() as bell:
        for number in range(ROUNDS):
            reader = Reader(stream)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(reader.read)
                await _turns()
                bell.ring(reader.scope)
                peer.send(number.to_bytes(2))
            heard += reader.heard or await stream.receive()
    assert heard == given
    assert bell.complaints == []


@pytest.mark.anyio
async def test_a_write_cancelled_as_there_is_room_again_leaves_no_error(
    pair: tuple[unix.UnixStream, socket.socket],
) -> None:
    stream, peer = pair
    with anyio.fail_after(60), Bell() as bell:
        for _ in range(ROUNDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream.send, bytes(1 << 20))
                await _turns()
                bell.ring(tasks.cancel_scope)
                _empty(peer)
    assert bell.complaints == []


@pytest.mark.anyio
async def test_who_reads_a_stream_that_is_closed_is_told_and_the_next_on_its_descriptor_is_not_disturbed(
    pair: tuple[unix.UnixStream, socket.socket],
) -> None:
    stream, _ = pair
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await stream.receive()

            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(stream.aclose)
            tasks.start_soon(_round_trip)
        with pytest.raises(anyio.ClosedResourceError):
            await stream.send(b"late")


@pytest.mark.anyio
async def test_a_peer_that_is_gone_is_an_end_to_who_reads_and_an_error_to_who_writes(
    pair: tuple[unix.UnixStream, socket.socket],
) -> None:
    stream, peer = pair
    peer.close()
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await stream.send(b"hello")


@pytest.mark.anyio
async def test_a_listener_whose_queue_is_full_is_waited_for_and_who_gives_up_leaves_nothing_open(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(path)
        listener.listen(0)
        first.connect(path)
        before = os.listdir("/proc/self/fd")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(unix.connect, path)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert os.listdir("/proc/self/fd") == before
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_said_through, path)
                await anyio.wait_all_tasks_blocked()
                listener.accept()[0].close()
                peer = await anyio.to_thread.run_sync(listener.accept)
                with peer[0]:
                    assert peer[0].recv(100) == b"hello"


async def _said_through(path: str) -> None:
    stream = await unix.connect(path)
    await stream.send(b"hello")
    await stream.aclose()


async def _round_trip() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        stream = unix.UnixStream(ours)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.receive)
            await anyio.wait_all_tasks_blocked()
            theirs.send(b"x")
        await stream.aclose()


def _empty(peer: socket.socket) -> None:
    while True:
        try:
            peer.recv(1 << 20)
        except BlockingIOError:
            return
