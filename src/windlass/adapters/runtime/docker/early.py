"""A terminal's first words.

An engine tells an attached stream only what is printed from then on, and nobody can attach to a run before it runs. So a run's
terminal is attached to before its start, and the stream is kept, unread, for the first who comes.

It must not become too full: an engine waits for a stream that is not read, and the run would wait with it. The log has every byte
too, so whoever follows it knows when the kept stream has to go. Who comes later, or second, is shown the end of the log first.
"""

from typing import Final

from windlass.adapters.runtime.docker.hijack import Hijacked
from windlass.core.model.ids import RunId

KEPT_BYTES_MAX: Final = 128 << 10
"""Well below what the engine and the socket hold for us before they wait."""


class EarlyStreams:
    def __init__(self) -> None:
        self._kept: dict[RunId, Hijacked] = {}
        self._bytes: dict[RunId, int] = {}

    async def keep(self, run: RunId, stream: Hijacked) -> None:
        await self.let_go(run)
        self._kept[run] = stream

    def take(self, run: RunId) -> Hijacked | None:
        """It is the caller's to close from now on."""
        self._bytes.pop(run, None)
        return self._kept.pop(run, None)

    async def passed(self, run: RunId, count: int) -> None:
        """So many bytes more were printed."""
        if run not in self._kept:
            return
        self._bytes[run] = self._bytes.get(run, 0) + count
        if self._bytes[run] > KEPT_BYTES_MAX:
            await self.let_go(run)

    async def let_go(self, run: RunId) -> None:
        stream = self.take(run)
        if stream is not None:
            await stream.aclose()

    async def close(self) -> None:
        for run in tuple(self._kept):
            await self.let_go(run)


def joined(printed: bytes, live: bytes) -> bytes:
    """The end of a log and what came on a stream attached before the log was read: what both hold is told once."""
    at = max(0, len(printed) - len(live))
    while live and (at := printed.find(live[:1], at)) >= 0:
        if live.startswith(printed[at:]):
            return printed[:at] + live
        at += 1
    return printed + live
