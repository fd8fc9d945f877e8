"""Amounts in the words of a sentence: `1.5 of 2 cores`, `512 MiB`, `0.25`. What programs read stays in whole small units."""

from collections.abc import Sequence
from typing import Final

MILLICORES: Final = "millicores"
BYTES: Final = "bytes"
MICROS: Final = "micro-units"
_SIZES: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def spoken(amounts: Sequence[int], unit: str) -> tuple[list[str], str]:
    """All of them in one unit that people use, and its name as it stands behind the first; money has none.

    Different amounts never look alike.
    """
    if unit == MILLICORES:
        return [_decimal(one, 3) for one in amounts], "core" if amounts[0] == 1000 else "cores"
    if unit == MICROS:
        return [_decimal(one, 6) for one in amounts], ""
    if unit == BYTES:
        return _sizes(amounts)
    return [str(one) for one in amounts], unit


def cores(millis: int) -> str:
    return _one(millis, MILLICORES)


def size(of: int) -> str:
    return _one(of, BYTES)


def money(micros: int) -> str:
    """In whole units of the currency, with as many decimals as it has."""
    return _decimal(micros, 6)


def _one(amount: int, unit: str) -> str:
    (text,), name = spoken([amount], unit)
    return f"{text} {name}"


def _decimal(amount: int, places: int) -> str:
    """Exact: the amount with the point moved."""
    sign, amount = "-" * (amount < 0), abs(amount)
    whole, rest = divmod(amount, 10**places)
    return f"{sign}{whole}.{rest:0{places}}".rstrip("0").rstrip(".")


def _sizes(amounts: Sequence[int]) -> tuple[list[str], str]:
    """In the largest unit that each of them reaches, rounded as far as they stay apart."""
    least = min((one for one in amounts if one > 0), default=0)
    for scale, name in _SIZES:
        if least >= scale:
            for places in (1, 3):
                texts = [_decimal((one * 10**places + scale // 2) // scale, places) for one in amounts]
                if len(set(texts)) == len(set(amounts)):
                    return texts, name
            break
    return [str(one) for one in amounts], "bytes"
