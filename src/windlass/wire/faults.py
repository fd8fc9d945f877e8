"""From pydantic's errors to ours: each fault named once, at the path its writer sees, saying what was expected."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from windlass.core.errors import Fault, Invalid
from windlass.wire.expected import expected

ModelT = TypeVar("ModelT", bound=BaseModel)

FAULTS_MAX: Final = 100
_NAME_MAX: Final = 64


def validate(model: type[ModelT], data: object, *, what: str, more: Sequence[Fault] = ()) -> ModelT:
    """`data` as `model`, or Invalid with all its faults and those in `more`, which the caller found by itself."""
    try:
        instance = model.model_validate(data)
    except ValidationError as exc:
        raise invalid(what, (*faults_of(exc), *more)) from None
    if more:
        raise invalid(what, more)
    return instance


def invalid(what: str, faults: Sequence[Fault], *, code: str | None = None, hint: str | None = None) -> Invalid:
    shown = list(dict.fromkeys(faults))
    count = "one fault" if len(shown) == 1 else f"{len(shown)} faults"
    return Invalid(f"{what} has {count}", code=code, hint=hint, faults=shown[:FAULTS_MAX])


def faults_of(error: ValidationError, *, under: str = "", unknown: str = "") -> list[Fault]:
    """`unknown`: what a name that is not there is called at this door."""
    items = error.errors(include_url=False, include_input=False)
    return [Fault(_path(item["loc"], under), expected(item, unknown=unknown)) for item in items]


def show(text: str) -> str:
    """A name out of a hostile document, fit for a message: short, printable, one line."""
    short = text if len(text) <= _NAME_MAX else f"{text[:_NAME_MAX]}…"
    return short if short.isprintable() else ascii(short)[1:-1]


def _path(loc: Iterable[int | str], under: str) -> str:
    path = under
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not part.startswith("["):  # `[key]` and the members of a union are places in the schema, not in the text
            path += f".{show(part)}" if path else show(part)
    return path or "(document)"
