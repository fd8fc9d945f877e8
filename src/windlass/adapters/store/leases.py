"""Which leases run until when. Pure bookkeeping on an injected clock; ending one (deleting its keys) is the store's.

Deadlines live in memory alone: after a restart every lease has its full time again, as in etcd after a change of leader.
A lease may so live longer than promised, never shorter.
"""

from collections.abc import Callable, Mapping

RETRY_SECONDS = 1.0
"""How long an end that the store could not write waits for its next attempt."""


class Leases:
    def __init__(self, monotonic: Callable[[], float], ttl_seconds: Mapping[int, int] | None = None) -> None:
        self._monotonic = monotonic
        self._ttl_seconds = dict(ttl_seconds or {})
        now = monotonic()
        self._deadlines = {lease: now + ttl for lease, ttl in self._ttl_seconds.items()}
        # The earliest deadline at the latest look: keeping alive may have moved it on since, so it can only be too early.
        self._look_again = min(self._deadlines.values(), default=None)

    def add(self, lease: int, ttl_seconds: int) -> None:
        self._ttl_seconds[lease] = ttl_seconds
        self._deadlines[lease] = deadline = self._monotonic() + ttl_seconds
        if self._look_again is None or deadline < self._look_again:
            self._look_again = deadline

    def keep_alive(self, lease: int) -> bool:
        """A lease that is past its time stays dead, also while its end is not written yet."""
        now = self._monotonic()
        if lease not in self._ttl_seconds or self._deadlines[lease] <= now:
            return False
        self._deadlines[lease] = now + self._ttl_seconds[lease]
        return True

    def due(self) -> tuple[int, ...]:
        """Leases to end now. Each comes again until it is forgotten or postponed."""
        now = self._monotonic()
        if self._look_again is None or now < self._look_again:
            return ()
        self._look_again = min(self._deadlines.values(), default=None)
        return tuple(lease for lease, deadline in self._deadlines.items() if deadline <= now)

    def postpone(self, lease: int) -> None:
        """Its end could not be written. It is over all the same; only the next attempt waits."""
        self._ttl_seconds.pop(lease, None)
        self._deadlines[lease] = self._monotonic() + RETRY_SECONDS

    def forget(self, lease: int) -> None:
        self._ttl_seconds.pop(lease, None)
        self._deadlines.pop(lease, None)

    def seconds_to_next(self) -> float | None:
        """How long until something may be due; None without leases."""
        earliest = min(self._deadlines.values(), default=None)
        return None if earliest is None else max(0.0, earliest - self._monotonic())
