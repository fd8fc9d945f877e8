"""Values people type: durations, money, `KEY=VALUE`, env files.

Quantities such as `512Mi` go to the server as they are: it has the one validator.
"""

import math
import os
import re
from pathlib import Path
from typing import Any, Final

import click

_DURATION: Final = re.compile(r"(\d{1,4000})(s|m|h|d|)", re.ASCII)
_DAYS_MOST: Final = 366
_MONEY: Final = re.compile(r"(\d{1,4000})(?:\.(\d{1,6}))?", re.ASCII)
_UNITS_MOST: Final = 10**9
"""As the server has them."""
_DECIMALS: Final = 6
_SHOWN_MAX: Final = 24
_MICROS: Final = 10**_DECIMALS
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


class Duration(click.ParamType[int]):
    """Whole seconds; `90`, `90s`, `10m`, `2h`, `1d`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        matched = _DURATION.fullmatch(str(value))
        if matched is None:
            self.fail(f"{value!r} is not a duration; expected something like 90, 90s, 10m, 2h or 1d", param, ctx)
        seconds = int(matched[1]) * _SECONDS[matched[2]]
        if seconds > _DAYS_MOST * _SECONDS["d"]:
            self.fail(f"{_short(value)} is too long; expected at most {_DAYS_MOST}d", param, ctx)
        return seconds


class Number(click.ParamType[float]):
    """A number; the server judges which. `nan` and `inf` are none, and would travel as nothing at all."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number; expected one such as 2 or 2.5", param, ctx)
        return number


class Money(click.ParamType[Any]):
    """An amount as every table shows it, `250` or `0.05`; it travels in whole micro-units. `none`, where it may be taken away."""

    name = "amount"

    def __init__(self, *, or_none: bool = False, is_some: bool = False) -> None:
        """`is_some`: more than nothing."""
        self._or_none = or_none
        self._is_some = is_some

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, int) or (self._or_none and value == "none"):
            return value
        matched = _MONEY.fullmatch(str(value))
        if matched is None:
            also = ", or none" if self._or_none else ""
            self.fail(
                f"{value!r} is not an amount of money; expected one such as 250 or 0.05, six decimals at most{also}",
                param,
                ctx,
            )
        amount = int(matched[1]) * _MICROS + int((matched[2] or "0").ljust(_DECIMALS, "0"))
        if amount > _UNITS_MOST * _MICROS:
            self.fail(f"{_short(value)} is too much; expected at most {_UNITS_MOST}", param, ctx)
        if self._is_some and not amount:
            without = "none takes it away" if self._or_none else "leave it out for no maximum"
            self.fail(f"expected more than 0: nothing runs for nothing; {without}", param, ctx)
        return amount


class Pair(click.ParamType[tuple[str, str]]):
    """`KEY=VALUE`."""

    name = "KEY=VALUE"

    def __init__(self, *, from_environment: bool = False) -> None:
        self._from_environment = from_environment

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, text = str(value).partition("=")
        if not equals and self._from_environment and key in os.environ:
            return key, os.environ[key]
        if not key or not equals:
            why = "has no key" if not key else "is not set here" if self._from_environment else "has no value"
            self.fail(f"{value!r} {why}; expected KEY=VALUE", param, ctx)
        return key, text


class SecretPair(click.ParamType[tuple[str, dict[str, str]]]):
    """`NAME=SECRET[:KEY]`: where a value comes from, not the value."""

    name = "NAME=SECRET[:KEY]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, dict[str, str]]:
        if isinstance(value, tuple):
            return value
        name, equals, reference = str(value).partition("=")
        secret, colon, key = reference.partition(":")
        if not name or not equals or not secret or (colon and not key):
            self.fail(f"expected NAME=SECRET or NAME=SECRET:KEY, found {value!r}", param, ctx)
        return name, {"secret": secret, "key": key} if colon else {"secret": secret}


class GivenPath(click.Path):
    """A path; an empty word, which would be this very directory, is most often a variable that was not set."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("expected a path, and it is empty", param, ctx)
        return super().convert(value, param, ctx)


def read_env_file(path: Path) -> dict[str, str]:
    """Lines of KEY=VALUE; blank lines and `#` comments are skipped, matching quotes around a value are taken off."""
    found = dict[str, str]()
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.BadParameter(f"{path} is not UTF-8", param_hint="--env-file") from None
    for number, line in enumerate(content.splitlines(), start=1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{path}, line {number}: expected KEY=VALUE", param_hint="--env-file")
        found[key.strip()] = _unquoted(value.strip())
    return found


def not_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """An empty word is most often a variable that was not set, and would otherwise pass for nothing given."""
    if value == "":
        raise click.BadParameter("expected a value, and it is empty", ctx, param)
    return value


def _short(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…")


def _unquoted(value: str) -> str:
    is_quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value
