"""Waiting between tries at an engine that does not answer."""

import zlib
from typing import Final

from windlass.core.model.ids import Millis
from windlass.ports.clock import Clock

FIRST_MS: Final = 50
MOST_MS: Final = 2_000


class Backoff:
    """Doubles up to two seconds. Spread by a name rather than by chance: many runs wait for one engine, and a seed replays."""

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._spread = zlib.crc32(name.encode()) % 256
        self._next_ms = FIRST_MS

    def reset(self) -> None:
        self._next_ms = FIRST_MS

    async def pause(self) -> None:
        span = self._next_ms * (768 + self._spread) // 1024
        self._next_ms = min(self._next_ms * 2, MOST_MS)
        await self._clock.sleep_until(Millis(self._clock.now() + span))
