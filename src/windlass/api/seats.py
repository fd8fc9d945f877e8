"""Bounds on what is open at once: requests in all, and those that stay (followers, terminals, uploads). Past a bound, a
newcomer is told to come back."""

from collections.abc import Iterator
from contextlib import contextmanager

from windlass.core.errors import OverLimit


class Seats:
    def __init__(self, seats_max: int) -> None:
        self._free = seats_max

    @contextmanager
    def taken(self) -> Iterator[None]:
        """For as long as the stream lives."""
        self.check()
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1

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
