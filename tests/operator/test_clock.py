"""Of the operator's clock and the API server's the earlier one is believed: what is deleted late harms nobody."""

import pytest

from windlass.core.model.ids import Millis
from windlass.operator.clock import AHEAD_MS, ClusterClock

NOW = Millis(1_000_000_000)
DAYS = 8 * 86_400_000


@pytest.mark.parametrize(
    ("served", "believed"),
    {
        "ours is ahead by days": (NOW - DAYS, NOW - DAYS),
        "ours is behind": (NOW + DAYS, NOW),
        "both say the same, but for the way": (NOW - AHEAD_MS, NOW),
    }.values(),
)
def test_the_earlier_clock_is_believed(served: int, believed: int) -> None:
    clock = ClusterClock(lambda: NOW)
    clock.compare(Millis(served))
    assert clock.now() == believed


def test_time_goes_on_by_our_own_clock() -> None:
    now = NOW
    clock = ClusterClock(lambda: now)
    clock.compare(Millis(NOW - DAYS))
    now = Millis(NOW + 5)
    assert clock.now() == NOW - DAYS + 5
