"""Plots as inline SVG: lines over a grid, and bars side by side. Numbers in, markup out; colours are the page's (`--v0` …)."""

from collections.abc import Callable, Sequence
from html import escape
from math import log10
from typing import Final

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 30
COLOURS: Final = 6
"""Variants beyond these begin again with the first colour, dashed."""
_LOG_MARKS: Final = (1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86_400.0, 7 * 86_400.0)

Said = Callable[[float], str]


def line_chart(
    title: str, series: Sequence[tuple[str, Sequence[float]]], *, most: float, y_said: Said, x_ends: Said, x_most: float
) -> str:
    """Curves of equally spaced points from 0 to `x_most`; `y_said` and `x_ends` write the marks of the axes."""
    top = most or 1.0
    marks = [top * part / 4 for part in range(5)]
    body = [_level(_y(mark / top), y_said(mark)) for mark in marks]
    body += [_foot(LEFT + _room() * part / 4, x_ends(x_most * part / 4), part) for part in range(5)]
    for number, (name, values) in enumerate(series):
        points = [(LEFT + _room() * at / max(1, len(values) - 1), _y(value / top)) for at, value in enumerate(values)]
        body.append(_path(number, name, points))
    return _framed(title, body)


def log_chart(title: str, series: Sequence[tuple[str, Sequence[float]]], *, y_said: Said) -> str:
    """Quantiles from 0 to 100 % on a scale that shows seconds and days alike; nothing is below one second."""
    highest = max((value for _, values in series for value in values), default=1.0)
    decades = log10(max(highest, 10.0))
    body = [_level(_y(log10(mark) / decades), y_said(mark)) for mark in _LOG_MARKS if log10(mark) <= decades]
    body += [_foot(LEFT + _room() * part / 4, f"{part * 25} %", part) for part in range(5)]
    for number, (name, values) in enumerate(series):
        points = [
            (LEFT + _room() * at / max(1, len(values) - 1), _y(log10(max(value, 1.0)) / decades))
            for at, value in enumerate(values)
        ]
        body.append(_path(number, name, points))
    return _framed(title, body)


def bar_chart(title: str, rows: Sequence[tuple[str, Sequence[float]]], *, names: Sequence[str], said: Said) -> str:
    """A row per tenant, a bar per variant."""
    most = max((value for _, values in rows for value in values), default=0.0) or 1.0
    bar, gap, left = 9, 10, 120
    step = len(names) * bar + gap
    body = []
    for at, (row, values) in enumerate(rows):
        base = TOP + at * step
        middle = base + len(names) * bar / 2 + 4
        body.append(f'<text x="{left - 8}" y="{middle:.1f}" class="end">{escape(row[:16])}</text>')
        for number, value in enumerate(values):
            wide, y = (WIDTH - left - 90) * value / most, base + number * bar
            told = escape(f"{row}, {names[number]}: {said(value)}")
            body.append(
                f'<rect x="{left}" y="{y}" width="{max(wide, 1):.1f}" height="{bar - 2}" rx="2" '
                f'style="fill:var(--v{number % COLOURS})"><title>{told}</title></rect>'
                f'<text x="{left + wide + 6:.1f}" y="{y + bar - 2}" class="small">{escape(said(value))}</text>'
            )
    return _framed(title, body, height=TOP + len(rows) * step + 4)


def _room() -> float:
    return WIDTH - LEFT - RIGHT


def _y(part: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part


def _level(y: float, said: str) -> str:
    return (
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" class="end">{escape(said)}</text>'
    )


def _foot(x: float, said: str, part: int) -> str:
    anchor = "start" if part == 0 else "end" if part == 4 else "middle"
    return f'<text x="{x:.1f}" y="{HEIGHT - 8}" style="text-anchor:{anchor}">{escape(said)}</text>'


def _path(number: int, name: str, points: Sequence[tuple[float, float]]) -> str:
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = "" if number < COLOURS else ";stroke-dasharray:6 4"
    return (
        f'<polyline points="{drawn}" style="stroke:var(--v{number % COLOURS}){dashes}">'
        f"<title>{escape(name)}</title></polyline>"
    )


def _framed(title: str, body: Sequence[str], *, height: float = HEIGHT) -> str:
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(title)}">{"".join(body)}</svg></figure>'
    )
