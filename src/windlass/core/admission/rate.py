"""How fast somebody may ask: a token bucket for each key, as one number and in O(1).

The generic cell rate algorithm: a bucket is the moment at which it would be full again. Time is whole nanoseconds of a clock that
only goes forward; nothing is swept and nothing is rounded.
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
SECOND_NS: Final = 1_000_000_000


class Buckets(Generic[K]):
    def __init__(self) -> None:
        self._full_at: dict[K, int] = {}

    def take(self, key: K, per_second: int, at_once: int, now_ns: int) -> int:
        """0 when one more is fine, and it is counted; else the nanoseconds until it would be, and it is not.

        `at_once` is how many may come together after a pause.
        """
        cost = SECOND_NS // per_second
        full_at = self._full_at.get(key, 0)
        if full_at < now_ns:
            full_at = now_ns
        wait = full_at + cost - now_ns - at_once * cost
        if wait > 0:
            return wait
        self._full_at[key] = full_at + cost
        return 0
