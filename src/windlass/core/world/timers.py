"""What falls due: a heap of (when, what, which). Entries are hints; whoever is woken checks the record again."""

from enum import StrEnum
from heapq import heappop, heappush

from windlass.core.model.ids import Millis


class Due(StrEnum):
    BACKOFF = "backoff"
    """A retried job may be queued again."""
    DEADLINE = "deadline"
    """A queued job comes nearer to its deadline: at risk, critical, missed."""
    RUN_TTL = "run-ttl"
    VOLUME_TTL = "volume-ttl"
    KEY = "key"
    """An idempotency key is old enough to forget."""
    BURST = "burst"
    """A burst session ends, or has been over for long enough to forget."""
    TOTAL = "total"
    """A day's total is old enough to forget."""
    HOLD = "hold"
    """A tenant held for lack of quota may try again: a new day or month, or the end of a cooldown."""
    BUDGET = "budget"
    """At the present rate a tenant passes the next threshold of its budget."""
    JOB_COST = "job-cost"
    """At the present rate a job comes to the end of its own."""


class Timers:
    def __init__(self, *, only: frozenset[Due] | None = None) -> None:
        """`only`: of what is added, these kinds are kept; None: all."""
        self._only = only
        self._heap: list[tuple[Millis, Due, str]] = []
        self._tried: list[tuple[Millis, Due, str]] | None = None
        """During a trial: those that fell due in it."""

    def begin_trial(self) -> None:
        self._tried = []

    def end_trial(self) -> None:
        """What fell due in the trial's time is due in the real one again."""
        for entry in self._tried or ():
            heappush(self._heap, entry)
        self._tried = None

    def add(self, at: Millis, due: Due, key: str) -> None:
        if self._only is None or due in self._only:
            heappush(self._heap, (at, due, key))

    def next_at(self) -> Millis | None:
        return self._heap[0][0] if self._heap else None

    def pending(self) -> list[tuple[Millis, Due, str]]:
        """All of them, in no order: for whoever looks ahead and must leave these alone."""
        return list(self._heap)

    def pop_due(self, now: Millis) -> tuple[Due, str] | None:
        if not self._heap or self._heap[0][0] > now:
            return None
        entry = heappop(self._heap)
        if self._tried is not None:
            self._tried.append(entry)
        return entry[1], entry[2]
