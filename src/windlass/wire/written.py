"""Numbers written in other units than they are kept in: how each is read, between which bounds, and what OpenAPI says."""

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

from windlass.core.model.bounds import Bound
from windlass.wire.quantities import read_ratio, write_ratio


class Written:
    """An annotation of `int`."""

    def __init__(
        self,
        read: Callable[[object], int],
        bound: Bound,
        *,
        write: Callable[[int], object],
        schema: Mapping[str, Any],
    ) -> None:
        self._read = read
        self._bound = bound
        self._write = write
        self._schema = dict(schema)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return dict(self._schema)

    def _check(self, value: object) -> int:
        number = self._read(value)
        if not self._bound.holds(number):
            raise ValueError(_between(self._bound, self._write))
        return number


def ratio(bound: Bound, *, parts: int) -> Written:
    """A plain number, kept in whole `parts` of one."""
    write = partial(write_ratio, parts=parts)
    schema = {"type": "number", "minimum": write(bound.least), "maximum": write(bound.most)}
    return Written(partial(_read_ratio, bound, parts=parts), bound, write=write, schema=schema)


def count(bound: Bound) -> Any:
    return Field(ge=bound.least, le=bound.most)


def _read_ratio(bound: Bound, value: object, *, parts: int) -> int:
    """A number below zero is no matter of decimals: it is told the bounds as one above them is."""
    if isinstance(value, int | float | Decimal) and not math.isnan(value) and value < 0:
        raise ValueError(_between(bound, partial(write_ratio, parts=parts)))
    return read_ratio(value, parts=parts)


def _between(bound: Bound, write: Callable[[int], object]) -> str:
    return f"expected {write(bound.least)} to {write(bound.most)}"
