"""Following a pod's log: no line lost, none doubled, over broken connections, until the run is over and all was read.

A pod has one log. Which of its two streams a line was written to is not told, so every line is told as stdout. The kubelet
joins what a container runtime cut, and stamps a line with the time of its first piece.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

from windlass.adapters.runtime.backoff import Backoff
from windlass.adapters.runtime.cursor import Cursor
from windlass.adapters.runtime.kubernetes.cluster import Cluster
from windlass.adapters.runtime.stamps import normal_timestamp
from windlass.core.errors import Invalid, NotFound, Unavailable
from windlass.ports.runtime import LogLine, LogPosition, Stream

LOOK_BACK: Final = timedelta(hours=1)
"""How far before the position a reading begins: over any step of a node's clock but a catastrophe."""
TAIL: Final = 200
"""Lines to look at again at the end. Only if they do not show where the reading stopped is more read."""


class StampedLines:
    """From the log's bytes to lines; each begins with its time."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> list[LogLine]:
        *whole, self._pending = (self._pending + data).split(b"\n")
        return [line for raw in whole if (line := _stamped(raw, is_partial=False)) is not None]

    def rest(self) -> list[LogLine]:
        """A last line without its newline, if this is the end."""
        line = _stamped(self._pending, is_partial=True) if self._pending else None
        return [] if line is None else [line]


class PodLog:
    """`is_over` says whether the pod can write no more (Unavailable when nobody knows)."""

    def __init__(
        self, cluster: Cluster, pod: str, namespace: str, *, is_over: Callable[[], Awaitable[bool]], backoff: Backoff
    ) -> None:
        self._cluster = cluster
        self._pod = pod
        self._namespace = namespace
        self._is_over = is_over
        self._backoff = backoff

    async def follow(self, after: LogPosition) -> AsyncIterator[LogLine]:
        cursor = Cursor(after)
        while True:
            was_over = False
            try:
                was_over = await self._is_over()
                if was_over:
                    for line in await self._remaining(cursor):
                        yield line
                    return
                async for line in self._live(cursor):
                    yield line
            except (NotFound, Invalid):  # no pod yet, its container is being made; or the pod is gone
                if was_over:
                    return
            except Unavailable:
                pass
            await self._backoff.pause()

    async def _live(self, cursor: Cursor) -> AsyncIterator[LogLine]:
        """What comes while it runs. An unfinished line is left to whoever reads after the end: it may be only a broken one."""
        splitter = StampedLines()
        cursor.begin()
        since = since_of(cursor.last_at)
        async with self._cluster.log(self._pod, self._namespace, follow=True, timestamps=True, since=since) as pieces:
            async for data in pieces:
                for line in cursor.fresh(splitter.feed(data)):
                    self._backoff.reset()
                    yield line

    async def _remaining(self, cursor: Cursor) -> list[LogLine]:
        """What was written after the cursor: nearly always nothing, so the last lines are looked at first."""
        tail = await self._all(tail=TAIL)
        if len(tail) < TAIL:  # the whole log
            cursor.begin()
            return cursor.fresh(tail)
        after = cursor.follows(tail)
        if after is not None:
            return cursor.fresh(after)
        since = since_of(cursor.last_at)
        cursor.begin()
        return cursor.fresh(await self._all(since=since))

    async def _all(self, *, since: str = "", tail: int | None = None) -> list[LogLine]:
        splitter, lines = StampedLines(), list[LogLine]()
        async with self._cluster.log(self._pod, self._namespace, timestamps=True, since=since, tail=tail) as pieces:
            async for data in pieces:
                lines += splitter.feed(data)
        return lines + splitter.rest()


def since_of(last_at: str) -> str:
    """RFC 3339, a good while before `last_at`; empty for the whole log."""
    if not last_at:
        return ""
    moment = datetime.fromisoformat(last_at[:19] + "+00:00") - LOOK_BACK
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _stamped(raw: bytes, *, is_partial: bool) -> LogLine | None:
    """None for the end of a line that began before what was asked for."""
    stamp, _, text = raw.partition(b" ")
    at = normal_timestamp(stamp.decode("ascii", "replace"))
    if len(at) != 30 or not at.endswith("Z"):
        return None
    return LogLine(at=at, stream=Stream.STDOUT, text=text, is_partial=is_partial)
