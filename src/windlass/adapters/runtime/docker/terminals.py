"""Ways into a container for people: attach, exec, debug. One duplex stream each, and the code it ended with."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio

from windlass.adapters.runtime.docker.engine import Engine
from windlass.adapters.runtime.docker.frames import Frames
from windlass.adapters.runtime.docker.hijack import Hijacked
from windlass.adapters.runtime.giving import Giver
from windlass.core.errors import WindlassError
from windlass.ports.runtime import Stream, Terminal

END_OF_INPUT: Final = b"\x04"
"""What a terminal has instead of an end of file."""
END_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.02


class EngineTerminal:
    """The port's Terminal over a hijacked connection."""

    def __init__(
        self,
        engine: Engine,
        stream: Hijacked,
        *,
        has_terminal: bool,
        path: str,
        exit_code: Callable[[], Awaitable[int | None]],
    ) -> None:
        self._engine = engine
        self._stream = stream
        self._has_terminal = has_terminal
        self._path = path
        self._exit_code = exit_code

    async def send(self, data: bytes) -> None:
        await self._stream.send(data)

    async def close_input(self) -> None:
        if self._has_terminal:
            await self._stream.send(END_OF_INPUT)
        else:
            await self._stream.send_eof()

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        frames = Frames()
        while data := await self._stream.receive():
            if self._has_terminal:
                yield Stream.STDOUT, data
                continue
            for stream, payload in frames.feed(data):
                yield stream, payload

    async def resize(self, *, rows: int, columns: int) -> None:
        """A size that comes too early or too late is no error: the next one follows with the next window change."""
        try:
            await self._engine.call("POST", f"{self._path}/resize", params={"h": str(rows), "w": str(columns)})
        except WindlassError:
            return

    async def exit_code(self) -> int | None:
        return await self._exit_code()


class Fed:
    """The port's Terminal on a run with input and no terminal: heard by one connection, given input by another. So what was
    printed before somebody came can be let go."""

    def __init__(self, heard: Terminal, giver: Giver) -> None:
        self._heard = heard
        self._giver = giver

    async def send(self, data: bytes) -> None:
        await self._giver.send(data)

    async def close_input(self) -> None:
        await self._giver.end()

    async def resize(self, *, rows: int, columns: int) -> None:
        return

    def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        return self._heard.output()

    async def exit_code(self) -> int | None:
        return await self._heard.exit_code()


async def open_terminal(engine: Engine, container: str) -> Hijacked:
    """What a container's terminal shows, from now on; the caller's to close."""
    return await engine.attach(container, "stdin", "stdout", "stderr")


async def open_output(engine: Engine, container: str) -> Hijacked:
    """What a container without a terminal prints, from now on; the caller's to close."""
    return await engine.attach(container, "stdout", "stderr")


@asynccontextmanager
async def attached(
    engine: Engine, container: str, stream: Hijacked, *, has_terminal: bool = True
) -> AsyncIterator[EngineTerminal]:
    """A container's terminal, or its two streams, over a connection that is attached to it, closed with the block."""

    async def exit_code() -> int | None:
        return await ended_with(engine, container)

    path = f"/containers/{container}"
    try:
        yield EngineTerminal(engine, stream, has_terminal=has_terminal, path=path, exit_code=exit_code)
    finally:
        await stream.aclose()


async def ended_with(engine: Engine, container: str) -> int | None:
    """The streams of a container close a moment before the engine notes how it ended; None if it goes on without us."""
    try:
        answer = await engine.call(
            "POST", f"/containers/{container}/wait", params={"condition": "not-running"}, seconds=END_SECONDS
        )
    except WindlassError:
        return None
    return int(answer["StatusCode"])


@asynccontextmanager
async def executed(
    engine: Engine, container: str, command: tuple[str, ...], *, wants_terminal: bool
) -> AsyncIterator[EngineTerminal]:
    """A second process in a running container."""
    body = {
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": wants_terminal,
        "Privileged": False,
        "Cmd": list(command),
    }
    made = await engine.call("POST", f"/containers/{container}/exec", body=body)
    path = f"/exec/{made['Id']}"

    async def exit_code() -> int | None:
        """As with a container, the stream closes a moment before the engine notes the end; a busy one takes its time."""
        with anyio.move_on_after(END_SECONDS):
            while True:
                record = await engine.call("GET", f"{path}/json")
                code: int | None = record.get("ExitCode")
                if not record.get("Running"):
                    return code
                await anyio.sleep(_LOOK_SECONDS)
        return None

    async with engine.hijack(f"{path}/start", params={}, body={"Detach": False, "Tty": wants_terminal}) as stream:
        yield EngineTerminal(engine, stream, has_terminal=wants_terminal, path=path, exit_code=exit_code)
