"""When to try again, and how long to wait first: capped, with full jitter, and patient only with a server known to live."""

import time
from collections.abc import Callable

from msgspec import Struct


class Patience(Struct, frozen=True, kw_only=True):
    """A stranger who does not answer is given up quickly; a server that answered before is probably restarting."""

    stranger_seconds: float = 0.6
    """No answer yet in this process: the user wants to know soon that nothing listens there."""
    known_seconds: float = 30.0
    stale_seconds: float = 10.0
    """For a list to catch up with what was decided before it was asked for; then it is taken as it is."""
    steady_seconds: float = 1.0
    """A connection that held for so long was one: what breaks it is a first failure, however long nothing was said on it."""
    first_delay_seconds: float = 0.1
    delay_seconds_max: float = 3.0


class Backoff:
    """One call's budget. Chance and time come from outside, so tests wait for nothing."""

    def __init__(
        self,
        patience: Patience,
        *,
        is_known: bool,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] | None = None,
    ) -> None:
        self._patience = patience
        self._monotonic = monotonic
        self._sleep = sleep
        self._chance = chance or _chance
        self._seconds = patience.known_seconds if is_known else patience.stranger_seconds
        self._tries = 0
        self._deadline = monotonic() + self._seconds
        self._connected_at: float | None = None

    def connected(self) -> None:
        """A stream is open, and may be silent for hours."""
        self._seconds, self._connected_at = self._patience.known_seconds, self._monotonic()

    def _renew(self) -> None:
        at, self._connected_at = self._connected_at, None
        if at is not None and self._monotonic() - at >= self._patience.steady_seconds:
            self._tries, self._deadline = 0, self._monotonic() + self._seconds

    def again(self, *, at_least: float = 0.0) -> bool:
        """Wait and answer True, or answer False when the budget would be overdrawn."""
        self._renew()
        ceiling = min(self._patience.delay_seconds_max, self._patience.first_delay_seconds * 2**self._tries)
        delay = max(at_least, ceiling * self._chance())
        if self._monotonic() + delay > self._deadline:
            return False
        self._tries += 1
        self._sleep(delay)
        return True


def _chance() -> float:
    import random  # a call that succeeds at once, as most do, needs none

    return random.random()  # noqa: S311 — jitter, not a secret
