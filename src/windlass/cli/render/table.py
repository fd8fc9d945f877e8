"""Aligned columns: the same layout for a pipe and a terminal, where states become pills and the last column is cut to fit."""

import unicodedata
from collections.abc import Iterable, Sequence

import click
from msgspec import Struct

GAP = "  "
LAST_WIDTH_MIN = 12


class Cell(Struct, frozen=True):
    text: str
    colour: str | None = None
    is_pill: bool = False


Row = Sequence[Cell | str]


def lines(
    headings: Sequence[str], rows: Iterable[Row], *, is_coloured: bool = False, width: int | None = None
) -> list[str]:
    """`width` None means as wide as it takes. Cells are cleaned of control characters: names and messages are foreign text."""
    table = [[Cell(h) for h in headings], *([_cell(c) for c in row] for row in rows)]
    if not is_coloured:
        table = [[Cell(c.text) for c in row] for row in table]
    widths = [max(_room(row[i]) for row in table) for i in range(len(headings))]
    if width is not None:
        widths[-1] = min(widths[-1], _room_left(widths, width))
    shown = [_line(row, widths, is_cut=width is not None) for row in table]
    if is_coloured:
        shown[0] = click.style(shown[0], dim=True)
    return shown


def stream_line(row: Row, widths: list[int], *, is_coloured: bool = False, width: int | None = None) -> str:
    """One line of a table whose rows come over time: `widths` remembers the widest so far and only grows."""
    cells = [_cell(c) if is_coloured else Cell(_cell(c).text) for c in row]
    widen(widths, [cells])
    last = widths[-1] if width is None else _room_left(widths, width)
    return _line(cells, [*widths[:-1], last], is_cut=width is not None)


def widen(widths: list[int], rows: Iterable[Row]) -> None:
    """So that all of these fit, before the first of them is shown."""
    for row in rows:
        cells = [_cell(c) for c in row]
        widths.extend([0] * (len(cells) - len(widths)))
        widths[:] = [max(had, _room(cell)) for had, cell in zip(widths, cells, strict=True)]


def clean(text: str) -> str:
    """Without what could move the cursor or ring the bell of whoever reads it."""
    return "".join(c if c.isprintable() else " " for c in text)


def columns_of(text: str) -> int:
    """How many columns a terminal needs for it."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def pill(state: str, colour: str | None, *, is_coloured: bool) -> str:
    return _paint(Cell(state, colour, is_pill=True)) if is_coloured and colour else state


def _room_left(widths: Sequence[int], width: int) -> int:
    """For the last column. Where the others fill the line by themselves it is wrapped anyway, and nothing is cut."""
    left = width - sum(widths[:-1]) - len(GAP) * (len(widths) - 1)
    return left if left >= LAST_WIDTH_MIN else 1 << 16


def _cell(value: Cell | str) -> Cell:
    cell = Cell(value) if isinstance(value, str) else value
    return Cell(clean(cell.text), cell.colour, cell.is_pill)


def _room(cell: Cell) -> int:
    return columns_of(cell.text) + (2 if cell.is_pill else 0)


def _line(row: Sequence[Cell], widths: Sequence[int], *, is_cut: bool) -> str:
    parts = list[str]()
    for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
        is_last = index == len(widths) - 1
        shown = _cut(cell, width) if is_last and is_cut else cell
        parts.append(_paint(shown) + ("" if is_last else " " * (width - _room(shown))))
    return GAP.join(parts).rstrip()


def _cut(cell: Cell, width: int) -> Cell:
    if _room(cell) <= width:
        return cell
    kept, room = "", 0
    for c in cell.text:
        room += columns_of(c)
        if room > width - 1:
            break
        kept += c
    return Cell(kept + "…", cell.colour, cell.is_pill)


def _paint(cell: Cell) -> str:
    if cell.is_pill and cell.colour:
        return click.style(f" {cell.text} ", fg="bright_white", bg=cell.colour, bold=True)
    return click.style(cell.text, fg=cell.colour) if cell.colour and cell.text else cell.text
