"""What was expected where a value did not hold, in our words: the validator's own never reach whoever wrote the document.

`faults` puts the words beside the place. Patterns are kept from the validator (`Form`): it could say only that one did not match.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

_TRUTH: Final = "expected true or false"
_WHOLE: Final = "expected a whole number"
_NUMBER: Final = "expected a number"
_LIST: Final = "expected a list"
_MAPPING: Final = "expected a mapping"
_TEXT: Final = "expected text; put quotes round it if it looks like a number or a truth value"
_UNLIKE: Final = "is of a kind that is not read here"

_SAID: Final[Mapping[str, str]] = {
    "missing": "is required",
    "extra_forbidden": "is not a field here",
    "string_type": _TEXT,
    "string_unicode": "expected text in UTF-8",
    "bytes_type": "expected text in base64",
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "expected a whole number of fewer digits",
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "expected a number that is neither infinite nor NaN",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "dict_type": _MAPPING,
    "mapping_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dataclass_type": _MAPPING,
    "path_type": "expected a path",
    "none_required": "expected nothing",
}
_ASKED: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "value_error": lambda ctx: str(ctx["error"]),
    "greater_than_equal": lambda ctx: f"expected at least {ctx['ge']}",
    "greater_than": lambda ctx: f"expected more than {ctx['gt']}",
    "less_than_equal": lambda ctx: f"expected at most {ctx['le']}",
    "less_than": lambda ctx: f"expected less than {ctx['lt']}",
    "too_long": lambda ctx: f"expected at most {_entries(ctx['max_length'])}",
    "too_short": lambda ctx: f"expected at least {_entries(ctx['min_length'])}",
    "string_too_long": lambda ctx: f"expected at most {_characters(ctx['max_length'])}",
    "string_too_short": lambda ctx: _at_least(ctx["min_length"]),
    "literal_error": lambda ctx: f"expected {ctx['expected']}",
    "enum": lambda ctx: f"expected {ctx['expected']}",
}


def expected(item: Any, *, unknown: str = "") -> str:
    """Of one error of pydantic's. `unknown` is what a name that is not there is called at this door."""
    kind: str = item["type"]
    if kind == "extra_forbidden" and unknown:
        return unknown
    if kind in _ASKED:
        return _ASKED[kind](item["ctx"])
    return _SAID.get(kind, _UNLIKE)


class Form:
    """An annotation of `str`: a text of this form, and what is said where it is another. OpenAPI has the pattern."""

    def __init__(self, pattern: str, expected: str) -> None:
        self._pattern = pattern
        self._matches = re.compile(pattern.removeprefix("^").removesuffix("$"), re.ASCII).fullmatch
        self._expected = expected

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": self._pattern}

    def _check(self, text: str) -> str:
        if not self._matches(text):
            raise ValueError(self._expected)
        return text


def _at_least(length: int) -> str:
    return "may not be empty" if length == 1 else f"expected at least {_characters(length)}"


def _entries(count: int) -> str:
    return f"{count} entr{'y' if count == 1 else 'ies'}"


def _characters(count: int) -> str:
    return f"{count} character{'s' * (count != 1)}"
