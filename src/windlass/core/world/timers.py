"""What falls due: a heap of (when, what, which). Entries are hints; whoever is woken checks the record again."""

from enum import StrEnum
from heapq import heappop, heappush

from windlass.core.model.ids import Millis


class Due(StrEnum):
    BACKOFF = "backoff"
    """A retried job may be queued again."""
    RUN_TTL = "run-ttl"
    VOLUME_TTL = "volume-ttl"
    KEY = "key"
    """An idempotency key is old enough to forget."""


class Timers:
    def __init__(self) -> None:
        self._heap: list[tuple[Millis, Due, str]] = []

    def add(self, at: Millis, due: Due, key: str) -> None:
        heappush(self._heap, (at, due, key))

    def next_at(self) -> Millis | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: Millis) -> tuple[Due, str] | None:
        if not self._heap or self._heap[0][0] > now:
            return None
        _, due, key = heappop(self._heap)
        return due, key
