"""How a table becomes narrower: its columns give way one after the other, least important first, until it fits.

Arithmetic on widths only; `table` draws what comes out.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

GAP: Final = "  "
LEFT_OUT: Final = -1
"""The width of a column that is not shown at all."""


class Give(Struct, frozen=True):
    """One step on the way to a narrower table. `least` 0 leaves the column out: a number is whole or not there."""

    heading: str
    least: int = 0


class Columns(Struct, frozen=True):
    """A table's headings, and what gives way where a terminal is too narrow for it: the first of `gives` first.

    A column that is in none of them is never touched. Cutting is for text, never for a column of numbers.
    """

    headings: tuple[str, ...]
    gives: tuple[Give, ...] = ()


def columns(headings: Sequence[str], *gives: str | tuple[str, int]) -> Columns:
    """`columns(("NAME", "AGE"), "AGE", ("NAME", 12))`: leave out the age, then cut names, to twelve characters at the least."""
    return Columns(tuple(headings), tuple(Give(one) if isinstance(one, str) else Give(*one) for one in gives))


def fitted(shape: Columns, natural: Sequence[int], room: int) -> list[int]:
    """The widths in which it fits `room`, or comes as near as its columns allow."""
    widths, given = list(natural), list[tuple[int, int]]()
    for give in shape.gives:
        index, over = shape.headings.index(give.heading), total(widths) - room
        if over <= 0:
            break
        if widths[index] > give.least:
            given.append((index, widths[index]))
            widths[index] = max(give.least, widths[index] - over) if give.least else LEFT_OUT
    for index, before in reversed(given):  # what the last to go left free goes back to those that were only cut
        if widths[index] != LEFT_OUT:
            widths[index] += min(before - widths[index], max(0, room - total(widths)))
    return widths


def total(widths: Sequence[int]) -> int:
    shown = [*_shown(widths)]
    return sum(shown) + len(GAP) * max(0, len(shown) - 1)


def left_out(shape: Columns, widths: Sequence[int]) -> list[str]:
    return [
        heading for heading, width in zip(shape.headings, widths, strict=True) if width == LEFT_OUT and heading.strip()
    ]


def _shown(widths: Sequence[int]) -> Iterator[int]:
    return (width for width in widths if width != LEFT_OUT)
