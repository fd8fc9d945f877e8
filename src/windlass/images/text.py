"""Foreign text, counts, and numbers with units. What a node prints is data: it may neither break a log line nor a terminal."""

import re
from typing import Final

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]{1,15})\s*([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)


def clean(text: str, limit: int = 300) -> str:
    """One line of printable characters; escapes, newlines and other controls become spaces."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text[: 8 * limit]).split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def parse_size(text: str) -> int:
    """`10485760`, `10M`, `10MiB`: units are powers of 1024. ValueError when it is no size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("expected bytes, or a number with K, M, G or T")
    return int(match[1]) * _UNITS[match[2].upper()]


def count(number: int, noun: str) -> str:
    """`1 image`, `2 images`, `no images`."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def show_size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
