"""Following a container's log: no line lost, none doubled, over engine restarts, until it is over and all was read.

One loss is Docker's own: what a container writes while dockerd is down waits in a pipe, and goes with the pipe if the container
ends before dockerd is back.

Podman is believed less. It follows the log of a container that is over as fast as it is read and drops the rest, here a line and
there a thousand; and its `tail` leaves out every piece of a line that was not written at once, a prompt and half a long line alike.
So there a followed line counts if the container was seen alive after it came, and the rest is read without following.
"""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Final

from windlass.adapters.runtime.backoff import Backoff
from windlass.adapters.runtime.cursor import Cursor
from windlass.adapters.runtime.docker.containers import Known
from windlass.adapters.runtime.docker.engine import Engine
from windlass.adapters.runtime.docker.lines import FramedLines, RawLines, Splitter
from windlass.adapters.runtime.listening import written
from windlass.core.errors import NotFound, Unavailable
from windlass.ports.runtime import LogLine, LogPosition

LOOK_BACK: Final = timedelta(hours=1)
"""How far before the position a reading begins. The engine drops what is stamped earlier, also lines written later by a clock
that was set back; an hour covers every step but a catastrophe, and costs a second reading of that hour, once."""
TAIL: Final = 200
"""Lines to look at again at the end. Only if they do not show where the reading stopped is more read."""
SHOWN_BYTES_MAX: Final = 64 << 10
"""To somebody who comes to a terminal that has long been printing."""


async def follow(
    engine: Engine,
    identify: Callable[[], Awaitable[Known | None]],
    *,
    after: LogPosition,
    is_over: Callable[[], Awaitable[bool]],
    backoff: Backoff,
) -> AsyncGenerator[LogLine, None]:
    """`is_over` says whether the container can write no more (Unavailable when nobody knows)."""
    known = await identify()
    if known is None:
        return
    cursor = Cursor(after)
    while True:
        try:
            async with aclosing(_followed(engine, known, cursor, is_over)) as batches:
                async for lines in batches:
                    for line in lines:
                        yield line
                    backoff.reset()
            # The end of a followed log is also what an engine that goes down sends. Only a reading that began after the
            # container was over is known to be complete.
            if await is_over():
                async with aclosing(_remaining(engine, known, cursor)) as batches:
                    async for lines in batches:
                        for line in lines:
                            yield line
                return
        except NotFound:
            return
        except Unavailable:
            pass
        await backoff.pause()


async def last_printed(engine: Engine, known: Known) -> bytes:
    """The end of what it has printed so far, as it was printed."""
    params = {"follow": "false"} if await engine.is_podman() else {"tail": str(TAIL)}
    tail: deque[LogLine] = deque(maxlen=TAIL)
    async for lines in _raw(engine, known, params):
        tail.extend(lines)
    return b"".join(map(written, tail))[-SHOWN_BYTES_MAX:]


async def _remaining(engine: Engine, known: Known, cursor: Cursor) -> AsyncGenerator[list[LogLine], None]:
    """What a container that is over wrote after the cursor: nearly always nothing, so the last lines are looked at first."""
    if not await engine.is_podman():
        tail = [line async for lines in _raw(engine, known, {"tail": str(TAIL)}) for line in lines]
        if len(tail) < TAIL:  # the whole log
            cursor.begin()
            yield cursor.fresh(tail)
            return
        if (after := cursor.follows(tail)) is not None:
            yield cursor.fresh(after)
            return
    async with aclosing(_read(engine, known, cursor, follow="false")) as batches:
        async for lines in batches:
            yield cursor.fresh(lines)


async def _followed(
    engine: Engine, known: Known, cursor: Cursor, is_over: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[list[LogLine], None]:
    """What the cursor does not hold, in batches as they arrive, as far as they can be believed."""
    is_doubted = await engine.is_podman()
    if is_doubted and await is_over():
        return
    async with aclosing(_read(engine, known, cursor, follow="true")) as batches:
        async for lines in batches:
            if is_doubted and await is_over():
                return
            if fresh := cursor.fresh(lines):
                yield fresh


def _read(engine: Engine, known: Known, cursor: Cursor, *, follow: str) -> AsyncGenerator[list[LogLine], None]:
    """The log from a little before the cursor on."""
    params = {"follow": follow}
    if cursor.last_at:
        params["since"] = since(cursor.last_at)
    cursor.begin()
    return _raw(engine, known, params)


async def _raw(engine: Engine, known: Known, params: dict[str, str]) -> AsyncGenerator[list[LogLine], None]:
    params = params | {"stdout": "true", "stderr": "true", "timestamps": "true"}
    path, splitter = f"/containers/{known.id}/logs", _splitter(known.has_terminal)
    if await engine.is_podman():
        # Its own call frames a terminal's log too. In the compatible one nothing tells a piece's time from what was written.
        path, splitter = f"/libpod{path}", FramedLines(infers_newline=False)
    async with engine.stream("GET", path, params=params) as answer:
        async for data in answer.content.iter_any():
            yield splitter.feed(data)
    yield splitter.rest()


def _splitter(has_terminal: bool) -> Splitter:
    return RawLines() if has_terminal else FramedLines(infers_newline=True)


def since(last_at: str) -> str:
    """Unix seconds for the engine, a little before `last_at`."""
    moment = datetime.fromisoformat(last_at[:19] + "+00:00") - LOOK_BACK
    return str(max(0, int(moment.timestamp())))
