"""Following a container's log: no line lost, none doubled, over engine restarts, until it is over and all was read."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

from windlass.adapters.runtime.docker.backoff import Backoff
from windlass.adapters.runtime.docker.engine import Engine
from windlass.adapters.runtime.docker.lines import Cursor, FramedLines, RawLines, Splitter
from windlass.core.errors import NotFound, Unavailable
from windlass.ports.runtime import LogLine, LogPosition

LOOK_BACK: Final = timedelta(hours=1)
"""How far before the position a reading begins. The engine drops what is stamped earlier, also lines written later by a clock
that was set back; an hour covers every step but a catastrophe, and costs a second reading of that hour, once."""


async def follow(
    engine: Engine,
    container: str,
    *,
    has_terminal: bool,
    after: LogPosition,
    is_over: Callable[[], Awaitable[bool]],
    backoff: Backoff,
) -> AsyncIterator[LogLine]:
    """`is_over` says whether the container can write no more (Unavailable when nobody knows)."""
    cursor = Cursor(after)
    is_final = False
    while True:
        try:
            async for line in _read(engine, container, cursor, has_terminal=has_terminal, follows=not is_final):
                yield line
                backoff.reset()
            if is_final:
                return
            # The end of a followed log is also what an engine that goes down sends. Only a reading that began after the
            # container was over is known to be complete.
            is_final = await is_over()
        except NotFound:
            return
        except Unavailable:
            is_final = False
        if not is_final:
            await backoff.pause()


async def _read(
    engine: Engine, container: str, cursor: Cursor, *, has_terminal: bool, follows: bool
) -> AsyncIterator[LogLine]:
    params = {"stdout": "true", "stderr": "true", "timestamps": "true", "follow": "true" if follows else "false"}
    if cursor.last_at:
        params["since"] = since(cursor.last_at)
    path, splitter = f"/containers/{container}/logs", _splitter(has_terminal)
    if await engine.is_podman():
        # Its own call frames a terminal's log too. In the compatible one nothing tells a piece's time from what was written.
        path, splitter = f"/libpod{path}", FramedLines(infers_newline=False)
    cursor.begin()
    async with engine.stream("GET", path, params=params) as answer:
        async for data in answer.content.iter_any():
            for line in splitter.feed(data):
                fresh = cursor.take(line)
                if fresh is not None:
                    yield fresh
    for line in splitter.rest():
        fresh = cursor.take(line)
        if fresh is not None:
            yield fresh


def _splitter(has_terminal: bool) -> Splitter:
    return RawLines() if has_terminal else FramedLines(infers_newline=True)


def since(last_at: str) -> str:
    """Unix seconds for the engine, a little before `last_at`."""
    moment = datetime.fromisoformat(last_at[:19] + "+00:00") - LOOK_BACK
    return str(max(0, int(moment.timestamp())))
