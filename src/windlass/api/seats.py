"""Bounds on what is open at once: requests in all, and those that stay (followers, terminals, uploads). Past a bound, a
newcomer is told to come back."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from windlass.core.errors import OverLimit


class Seats:
    def __init__(self, seats_max: int) -> None:
        self._free = seats_max
        self._waiting = 0
        self._left = anyio.Event()

    @contextmanager
    def taken(self, *, for_an_end: bool = False) -> Iterator[None]:
        """For as long as the stream lives; `for_an_end` by who waits to be told how a job ended."""
        self.check()
        self._free -= 1
        self._waiting += for_an_end
        try:
            yield
        finally:
            self._free += 1
            self._waiting -= for_an_end
            self._left.set()

    async def told(self) -> bool:
        """Returns when nobody waits for an end any more: whether anybody did."""
        has_waited = bool(self._waiting)
        while self._waiting:
            self._left = anyio.Event()
            await self._left.wait()
        return has_waited

    def check(self) -> None:
        """Before the answer has begun, while a refusal can still be said with a status."""
        if self._free <= 0:
            raise OverLimit("too many open streams", code="streams", retry_after_seconds=5)


class Crowd:
    """Requests being answered. Counted by hand, without a context: every request passes here."""

    def __init__(self, requests_max: int) -> None:
        self._requests_max = requests_max
        self._inside = 0

    def enter(self) -> bool:
        """False when it is full: then there is nothing to leave."""
        if self._inside >= self._requests_max:
            return False
        self._inside += 1
        return True

    def leave(self) -> None:
        self._inside -= 1
