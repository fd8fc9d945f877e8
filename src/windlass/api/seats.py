"""A bound on what stays open: followers of logs and events, terminals. Past it, a newcomer is told to come back."""

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
