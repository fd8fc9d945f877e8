"""Written quantities to integers, exactly: millicores, bytes, milliseconds. What is not a whole number of them is refused.

Each reader takes what JSON or YAML gave (int, Decimal or text) and raises ValueError saying what was expected; each writer
gives the form a person would have written.
"""

import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

CPU_MILLIS_MIN: Final = 10
CPU_MILLIS_MAX: Final = 4096 * 1000
MEMORY_BYTES_MIN: Final = 6 << 20
"""Engines start nothing below this."""
MEMORY_BYTES_MAX: Final = 64 << 40
VOLUME_BYTES_MIN: Final = 1 << 20
VOLUME_BYTES_MAX: Final = 64 << 40
DURATION_MS_MAX: Final = 366 * 24 * 3_600_000

CPU_PATTERN: Final = r"^([0-9]{1,9}m|[0-9]{1,9}(\.[0-9]{1,9})?)$"
BYTES_PATTERN: Final = r"^[0-9]{1,15}(\.[0-9]{1,9})?(Ki|Mi|Gi|Ti|k|M|G|T)?$"
DURATION_PATTERN: Final = r"^([0-9]{1,12}(ms|d|h|m|s)){1,5}$"

_NUMBER: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([a-zA-Z]{0,2})", re.ASCII)
_SPAN: Final = re.compile(r"([0-9]{1,12})(ms|d|h|m|s)", re.ASCII)
_BYTE_UNITS: Final = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
}  # fmt: skip
_NUMBER_LIMIT: Final = 10**20
_CPU_UNITS: Final = {"": 1000, "m": 1}
_SPAN_UNITS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}

_CPU_EXPECTED: Final = 'expected cores such as 2, 1.5 or "500m", from 10m to 4096'
_BYTES_EXPECTED: Final = 'expected bytes such as "512Mi", "1Gi" or 536870912'
_SPAN_EXPECTED: Final = 'expected seconds or a duration such as "90s", "10m" or "1h30m"'


def read_cpu(value: object) -> int:
    """Millicores."""
    millis = _scaled(value, _CPU_UNITS, _CPU_EXPECTED)
    if not CPU_MILLIS_MIN <= millis <= CPU_MILLIS_MAX:
        raise ValueError(_CPU_EXPECTED)
    return millis


def read_memory(value: object) -> int:
    size = _scaled(value, _BYTE_UNITS, _BYTES_EXPECTED)
    if not MEMORY_BYTES_MIN <= size <= MEMORY_BYTES_MAX:
        raise ValueError(f"{_BYTES_EXPECTED}, from 6Mi to 64Ti")
    return size


def read_volume_size(value: object) -> int:
    size = _scaled(value, _BYTE_UNITS, _BYTES_EXPECTED)
    if not VOLUME_BYTES_MIN <= size <= VOLUME_BYTES_MAX:
        raise ValueError(f"{_BYTES_EXPECTED}, from 1Mi to 64Ti")
    return size


def read_duration(value: object) -> int:
    """Milliseconds; a bare number is seconds."""
    millis = _span(value)
    if millis > DURATION_MS_MAX:
        raise ValueError(f"{_SPAN_EXPECTED}, at most 366d")
    return millis


def read_cores(value: object) -> int:
    """Millicores, of any number of cores; bounds are the asker's."""
    return _scaled(value, _CPU_UNITS, 'expected cores such as 2, 1.5 or "500m"')


def read_bytes(value: object) -> int:
    """Of any size; bounds are the asker's."""
    return _scaled(value, _BYTE_UNITS, _BYTES_EXPECTED)


def read_ratio(value: object, *, parts: int) -> int:
    """A plain number in whole `parts` of one: 1.5 is 1500 thousandths."""
    if isinstance(value, str):
        raise ValueError("expected a number")  # noqa: TRY004 — a fault of the document, reported with the others
    if isinstance(value, float):  # only out of our own writing: no reader of documents gives one
        value = Decimal(str(value))
    return _scaled(value, {"": parts}, f"expected a number with at most {len(str(parts)) - 1} decimals")


def write_ratio(count: int, *, parts: int) -> int | float:
    whole, rest = divmod(count, parts)
    return count / parts if rest else whole


def write_cpu(millis: int) -> str:
    cores, rest = divmod(millis, 1000)
    return f"{millis}m" if rest else str(cores)


@lru_cache(maxsize=1024)
def write_bytes(size: int) -> str:
    """The largest binary unit that divides it; plain digits when none does."""
    for suffix in ("Ti", "Gi", "Mi", "Ki"):
        unit = _BYTE_UNITS[suffix]
        if size and size % unit == 0:
            return f"{size // unit}{suffix}"
    return str(size)


def write_seconds(millis: int) -> int | str:
    """As `read_duration` takes it: whole seconds as a number, the rest as a duration."""
    seconds, rest = divmod(millis, 1000)
    return f"{millis}ms" if rest else seconds


def _span(value: object) -> int:
    if isinstance(value, str):
        parts = _SPAN.findall(value)
        if not parts or "".join(number + unit for number, unit in parts) != value or len(parts) > len(_SPAN_UNITS):
            raise ValueError(_SPAN_EXPECTED)
        return sum(int(number) * _SPAN_UNITS[unit] for number, unit in parts)
    return _scaled(value, {"": 1000}, _SPAN_EXPECTED)


def _scaled(value: object, units: dict[str, int], expected: str) -> int:
    """`value` in the smallest unit; a fraction of that unit is refused, never rounded."""
    number, scale = _number(value, units, expected) if isinstance(value, str) else (value, units[""])
    if isinstance(number, bool) or not isinstance(number, int | Decimal):
        raise ValueError(expected)  # noqa: TRY004 — a fault of the document, reported with the others
    if (isinstance(number, Decimal) and not number.is_finite()) or not 0 <= number < _NUMBER_LIMIT:
        raise ValueError(expected)
    if isinstance(number, int):
        return number * scale
    # Decimal's own product rounds at 28 digits; a Fraction's does not.
    product = Fraction(number) * scale
    if product.denominator != 1:
        raise ValueError(f"{expected}; {number} is not a whole number of the smallest unit")
    return product.numerator


def _number(text: str, units: dict[str, int], expected: str) -> tuple[int | Decimal, int]:
    match = _NUMBER.fullmatch(text)
    if match is None or match[2] not in units:
        raise ValueError(expected)
    return (Decimal(match[1]) if "." in match[1] else int(match[1])), units[match[2]]
