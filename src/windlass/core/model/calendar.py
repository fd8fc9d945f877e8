"""Days and months of the ledger: UTC, counted in service time, which is what every record carries.

Service time begins as the wall clock's and is not moved when that one jumps: a wrong clock must not open a new budget.
"""

from datetime import date
from functools import lru_cache
from typing import Final, NewType

from windlass.core.model.ids import Millis

Day = NewType("Day", int)
"""Days since 1970-01-01."""
Month = NewType("Month", int)
"""Twelve times the year, plus 0 for January to 11 for December."""

DAY_MS: Final = 86_400_000
_EPOCH: Final = date(1970, 1, 1).toordinal()


def day_of(at: Millis) -> Day:
    return Day(at // DAY_MS)


def day_start(day: Day) -> Millis:
    return Millis(day * DAY_MS)


def next_day(at: Millis) -> Millis:
    """The next midnight."""
    return day_start(Day(day_of(at) + 1))


@lru_cache(maxsize=1024)
def month_of(day: Day) -> Month:
    shown = date.fromordinal(_EPOCH + day)
    return Month(shown.year * 12 + shown.month - 1)


@lru_cache(maxsize=1024)
def month_first_day(month: Month) -> Day:
    return Day(date(month // 12, month % 12 + 1, 1).toordinal() - _EPOCH)


def next_month(at: Millis) -> Millis:
    """The first midnight of the next month."""
    return day_start(month_first_day(Month(month_of(day_of(at)) + 1)))


@lru_cache(maxsize=1024)
def show_day(day: Day) -> str:
    """`2026-11-15`"""
    return date.fromordinal(_EPOCH + day).isoformat()


def show_month(month: Month) -> str:
    """`2026-11`"""
    return f"{month // 12:04}-{month % 12 + 1:02}"


def read_day(text: str) -> Day:
    """ValueError for what is no date."""
    return Day(date.fromisoformat(text).toordinal() - _EPOCH)
