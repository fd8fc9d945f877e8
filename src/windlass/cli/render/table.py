"""Aligned columns: the same layout for a pipe and a terminal, where states become pills and columns give way until all fits."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import click
from msgspec import Struct

from windlass.cli.plain import clean
from windlass.cli.render.fit import GAP, LEFT_OUT, Columns, fitted, left_out

_NUMBER_CUT: Final = re.compile(r"(?<!\S)[-+(]?\d\S*\Z", re.ASCII)


class Cell(Struct, frozen=True):
    text: str
    colour: str | None = None
    is_pill: bool = False
    drawn: Callable[[int], str] | None = None
    """How it looks in so many columns, for what is a picture and not a text: a bar that is cut would lie."""


Row = Sequence[Cell | str]


class Laid(Struct, frozen=True):
    """A table as it is shown, and the columns for which there was no room."""

    lines: list[str]
    left_out: list[str]


def laid(
    headings: Columns | Sequence[str], rows: Iterable[Row], *, is_coloured: bool = False, width: int | None = None
) -> Laid:
    """`width` None means as wide as it takes. Cells are cleaned of control characters: names and messages are foreign text."""
    shape = _shape(headings)
    table = [[Cell(h) for h in shape.headings], *([_cell(c) for c in row] for row in rows)]
    if not is_coloured:
        table = [[_plain(c) for c in row] for row in table]
    widths = [max(_room(row[i]) for row in table) for i in range(len(shape.headings))]
    if width is not None:
        widths = fitted(shape, widths, width)
    shown = [_line(row, widths) for row in table]
    if is_coloured:
        shown[0] = click.style(shown[0], dim=True)
    return Laid(shown, left_out(shape, widths))


def lines(
    headings: Columns | Sequence[str], rows: Iterable[Row], *, is_coloured: bool = False, width: int | None = None
) -> list[str]:
    return laid(headings, rows, is_coloured=is_coloured, width=width).lines


def stream_line(
    shape: Columns, row: Row, widths: list[int], *, is_coloured: bool = False, width: int | None = None
) -> str:
    """One line of a table whose rows come over time: `widths` remembers the widest so far and only grows."""
    cells = [_cell(c) if is_coloured else _plain(_cell(c)) for c in row]
    widen(widths, [cells])
    return _line(cells, widths if width is None else fitted(shape, widths, width))


def widen(widths: list[int], rows: Iterable[Row]) -> None:
    """So that all of these fit, before the first of them is shown."""
    for row in rows:
        cells = [_cell(c) for c in row]
        widths.extend([0] * (len(cells) - len(widths)))
        widths[:] = [max(had, _room(cell)) for had, cell in zip(widths, cells, strict=True)]


def columns_of(text: str) -> int:
    """How many columns a terminal needs for it."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def pill(state: str, colour: str | None, *, is_coloured: bool) -> str:
    return _paint(Cell(state, colour, is_pill=True)) if is_coloured and colour else state


def _shape(headings: Columns | Sequence[str]) -> Columns:
    return headings if isinstance(headings, Columns) else Columns(tuple(headings))


def _cell(value: Cell | str) -> Cell:
    cell = Cell(value) if isinstance(value, str) else value
    return Cell(clean(cell.text), cell.colour, cell.is_pill, cell.drawn)


def _plain(cell: Cell) -> Cell:
    return Cell(cell.text, drawn=cell.drawn)


def _room(cell: Cell) -> int:
    return columns_of(cell.text) + (2 if cell.is_pill else 0)


def _line(row: Sequence[Cell], widths: Sequence[int]) -> str:
    parts = list[str]()
    for cell, width in zip(row, widths, strict=True):
        if width != LEFT_OUT:
            shown = _cut(cell, width)
            parts.append(_paint(shown) + " " * (width - _room(shown)))
    return GAP.join(parts).rstrip()


def _cut(cell: Cell, width: int) -> Cell:
    if cell.drawn is not None:
        return Cell(cell.drawn(width), cell.colour)
    if _room(cell) <= width:
        return cell
    return Cell(shortened(cell.text, width - (2 if cell.is_pill else 0)), cell.colour, cell.is_pill)


def shortened(text: str, width: int) -> str:
    """With an ellipsis for what is missing. A number is never cut in two: half of one would read as another."""
    if columns_of(text) <= width:
        return text
    kept, room = "", 0
    for c in text:
        room += columns_of(c)
        if room > width - 1:
            break
        kept += c
    if not text[len(kept)].isspace():
        kept = _NUMBER_CUT.sub("", kept)
    return kept.rstrip() + "…"


def _paint(cell: Cell) -> str:
    if cell.is_pill and cell.colour:
        return click.style(f" {cell.text} ", fg="bright_white", bg=cell.colour, bold=True)
    return click.style(cell.text, fg=cell.colour) if cell.colour and cell.text else cell.text
