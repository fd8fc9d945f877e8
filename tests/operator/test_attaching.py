"""Several people attached to one run on a cluster, over a connection that does as it is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from windlass.adapters.runtime.kubernetes.attaching import Attaching
from windlass.core.errors import Unavailable
from windlass.ports.runtime import Stream, Terminal

DEADLINE_SECONDS = 60


class Pod:
    """A cluster with one pod, which says what it is told to."""

    def __init__(self) -> None:
        self.given: list[bytes | None] = []
        self.opened = self.closed = 0
        self.is_deaf = False
        self.refusal: Exception | None = None
        self._say, self._said = anyio.create_memory_object_stream[bytes | Exception](100)

    @asynccontextmanager
    async def terminal(self, *_: Any, **__: Any) -> AsyncIterator["Pod"]:
        if self.refusal is not None:
            raise self.refusal
        self.opened += 1
        self._say, self._said = anyio.create_memory_object_stream[bytes | Exception](100)
        try:
            yield self
        finally:
            self.closed += 1
            self._say.close()
            self._said.close()

    async def says(self, *pieces: bytes | Exception) -> None:
        for piece in pieces:
            await self._say.send(piece)

    def ends(self) -> None:
        self._say.close()

    async def send(self, data: bytes) -> None:
        if self.is_deaf:
            raise Unavailable("gone")
        self.given.append(data)

    async def close_input(self) -> None:
        if self.is_deaf:
            raise Unavailable("gone")
        self.given.append(None)

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        async for said in self._said:
            if isinstance(said, Exception):
                raise said
            yield Stream.STDOUT, said


class Room:
    def __init__(self, pod: Any, tasks: anyio.abc.TaskGroup) -> None:
        self._attaching = Attaching(pod, "default", tasks)

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[Terminal]:
        async def exit_code() -> int | None:
            return 4

        async with self._attaching.joined("pod", exit_code) as terminal:
            yield terminal


@pytest.fixture
async def pod() -> Pod:
    return Pod()


@pytest.fixture
async def room(pod: Pod) -> AsyncIterator[Room]:
    with anyio.fail_after(DEADLINE_SECONDS):
        async with anyio.create_task_group() as tasks:
            yield Room(pod, tasks)
            tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_all_share_one_connection_and_hear_everything_since_they_came(pod: Pod, room: Room) -> None:
    async with room.joined() as first:
        await pod.says(b"one")
        heard = first.output()
        assert await anext(heard) == (Stream.STDOUT, b"one")
        async with room.joined() as second:
            await pod.says(b"two")
            pod.ends()
            assert [said async for said in heard] == [(Stream.STDOUT, b"two")]
            assert [said async for said in second.output()] == [(Stream.STDOUT, b"two")]
            assert await second.exit_code() == 4
    assert (pod.opened, pod.closed) == (1, 1)


@pytest.mark.anyio
async def test_input_ends_when_the_last_has_ended_it_and_takes_nothing_after(pod: Pod, room: Room) -> None:
    async with room.joined() as second_to_last:
        async with room.joined() as last:
            await second_to_last.send(b"a")
            await last.send(b"b")
            await second_to_last.close_input()
            assert pod.given == [b"a", b"b"]
            await last.close_input()
            await last.send(b"too late")
            assert pod.given == [b"a", b"b", None]
        assert (pod.opened, pod.closed) == (1, 0)
    assert pod.closed == 1


@pytest.mark.anyio
async def test_who_opened_it_may_go_and_the_others_go_on(pod: Pod, room: Room) -> None:
    first = room.joined()
    await first.__aenter__()
    async with room.joined() as second:
        await first.__aexit__(None, None, None)
        assert pod.closed == 0
        await second.send(b"still here")
        await pod.says(b"heard")
        assert await anext(second.output()) == (Stream.STDOUT, b"heard")
    assert pod.given == [b"still here"]
    assert pod.closed == 1


@pytest.mark.anyio
async def test_one_who_reads_nothing_and_goes_holds_up_nobody(pod: Pod, room: Room) -> None:
    many = [str(number).encode() for number in range(90)]
    async with room.joined() as first:
        async with room.joined():
            await pod.says(*many)
            heard = first.output()
            for expected in many[:64]:
                assert await anext(heard) == (Stream.STDOUT, expected)
        for expected in many[64:]:
            assert await anext(heard) == (Stream.STDOUT, expected)


@pytest.mark.anyio
async def test_a_run_that_takes_no_input_any_more_is_heard_to_its_end(pod: Pod, room: Room) -> None:
    async with room.joined() as terminal:
        pod.is_deaf = True
        await terminal.send(b"too late")
        await terminal.close_input()
        await pod.says(b"enough")
        pod.ends()
        assert [said async for said in terminal.output()] == [(Stream.STDOUT, b"enough")]


@pytest.mark.anyio
async def test_a_connection_that_breaks_is_an_error_to_those_on_it_and_the_next_has_another(
    pod: Pod, room: Room
) -> None:
    async with room.joined() as first, room.joined() as second:
        await pod.says(b"one", Unavailable("gone"))
        for terminal in (first, second):
            heard = terminal.output()
            assert await anext(heard) == (Stream.STDOUT, b"one")
            with pytest.raises(Unavailable, match="gone"):
                await anext(heard)
        async with room.joined() as third:
            await pod.says(b"two")
            assert await anext(third.output()) == (Stream.STDOUT, b"two")
    assert (pod.opened, pod.closed) == (2, 2)


@pytest.mark.anyio
async def test_a_connection_that_cannot_be_had_is_the_error_of_who_wanted_it(pod: Pod, room: Room) -> None:
    pod.refusal = Unavailable("no stream")
    with pytest.raises(Unavailable, match="no stream"):
        async with room.joined():
            pytest.fail("there is nothing to join")
    pod.refusal = None
    async with room.joined() as terminal:
        await pod.says(b"now")
        assert await anext(terminal.output()) == (Stream.STDOUT, b"now")
