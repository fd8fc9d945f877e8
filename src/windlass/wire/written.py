"""Numbers written in other units than they are kept in: how each is read, between which bounds, and what OpenAPI says."""

from collections.abc import Callable, Mapping
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
            raise ValueError(f"expected {self._write(self._bound.least)} to {self._write(self._bound.most)}")
        return number


def ratio(bound: Bound, *, parts: int) -> Written:
    """A plain number, kept in whole `parts` of one."""
    write = partial(write_ratio, parts=parts)
    schema = {"type": "number", "minimum": write(bound.least), "maximum": write(bound.most)}
    return Written(partial(read_ratio, parts=parts), bound, write=write, schema=schema)


def count(bound: Bound) -> Any:
    return Field(ge=bound.least, le=bound.most)
