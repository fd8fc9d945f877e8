"""Time, from outside. `now()` is service time: it only moves forward, survives restarts, and ignores wall-clock jumps."""

from typing import Protocol

from windlass.core.model.ids import Millis


class Clock(Protocol):
    def now(self) -> Millis:
        """Service time. Comparable across restarts; never steps back; a jump of the wall clock does not move it."""
        ...

    def wall(self, at: Millis) -> float:
        """Seconds since the Unix epoch to show for service time `at`. For display, tokens and certificates only."""
        ...

    async def sleep_until(self, at: Millis) -> None: ...
