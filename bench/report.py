"""How figures are printed: what was measured, beside what, the ratio, and whether it meets the figure we set ourselves."""

import sys
from collections.abc import Callable

from msgspec import Struct


class Figure(Struct, frozen=True, kw_only=True):
    what: str
    ours: str
    beside: str = ""
    ratio: float
    wanted: str
    is_met: bool


def at_least(what: str, ours: float, floor: float, wanted: float, *, unit: str, beside: str) -> Figure:
    """More is better: ours ÷ what it is compared with."""
    ratio = ours / floor
    return Figure(
        what=what,
        ours=f"{ours:,.1f} {unit}",
        beside=f"{beside} {floor:,.1f} {unit}",
        ratio=ratio,
        wanted=f"≥ {wanted:g}",
        is_met=ratio >= wanted,
    )


def at_most(what: str, ours: float, floor: float, wanted: float, *, unit: str, beside: str) -> Figure:
    """Less is better."""
    ratio = ours / floor
    return Figure(
        what=what,
        ours=f"{ours:,.2f} {unit}",
        beside=f"{beside} {floor:,.2f} {unit}",
        ratio=ratio,
        wanted=f"≤ {wanted:g}",
        is_met=ratio <= wanted,
    )


def only_shown(what: str, ours: float, other: float, *, unit: str, beside: str) -> Figure:
    return Figure(
        what=what,
        ours=f"{ours:,.2f} {unit}",
        beside=f"{beside} {other:,.2f} {unit}",
        ratio=ours / other,
        wanted="only shown",
        is_met=True,
    )


def show(title: str, figures: list[Figure]) -> None:
    print(f"\n{title}")
    for figure in figures:
        mark = "✓" if figure.is_met else "✗"
        beside = f"   beside {figure.beside}" if figure.beside else ""
        print(f"  {mark} {figure.what}: {figure.ours}{beside}   ratio {figure.ratio:.2f} (wanted {figure.wanted})")
    sys.stdout.flush()


Bench = Callable[[], list[Figure]]
