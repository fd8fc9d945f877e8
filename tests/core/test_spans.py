"""Spans as a sentence says them: never a number of seconds that has to be divided in one's head."""

import pytest

from windlass.core.model.spans import spoken


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1, "1 s"),
        (59, "59 s"),
        (60, "1 min"),
        (150, "2 min 30 s"),
        (3600, "1 h"),
        (12_000, "3 h 20 min"),
        (12_001, "3 h 21 min"),
        (86_400, "1 d"),
        (1_231_200, "14 d 6 h"),
    ],
)
def test_a_span_is_said_in_two_units_at_most_and_never_too_short(seconds: int, said: str) -> None:
    assert spoken(seconds) == said
