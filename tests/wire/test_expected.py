"""No door answers in the validator's words: whatever is wrong with whichever field is said in ours, with what was expected."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import windlass.api
import windlass.wire
from windlass.boot.settings import Settings
from windlass.operator.settings import OperatorSettings
from windlass.wire.expected import _UNLIKE, expected

WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**30,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "-1",
    "99999999999999999999",
    "y" * 20_000,
    "\ud800",
    b"\xff",
    [],
    [None],
    [1] * 5000,
    {},
    {"": 1},
    {"a": {"b": {}}},
    {f"k{at}": "v" for at in range(2000)},
    object(),
)


def models(package: Any) -> Iterator[type[BaseModel]]:
    """What a caller's words are read with: bodies and queries, which know no field but their own."""
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for found in vars(import_module(info.name)).values():
            is_model = isinstance(found, type) and issubclass(found, BaseModel)
            if is_model and found.model_config.get("extra") == "forbid":
                yield found


DOORS = sorted(
    {*models(windlass.wire), *models(windlass.api), Settings, OperatorSettings},
    key=lambda model: (model.__module__, model.__name__),
)


def wrongs(model: type[BaseModel]) -> Iterator[Any]:
    yield from WRONG
    yield {"": 1}
    for name, field in model.model_fields.items():
        yield from ({field.alias or name: value} for value in WRONG)


def test_the_doors_are_found() -> None:
    names = {model.__name__ for model in DOORS}
    assert {"JobDocument", "TenantDocument", "PoolDocument", "CostParameters", "ListQuery", "Settings"} <= names


@pytest.mark.parametrize("model", DOORS, ids=lambda model: model.__name__)
def test_what_is_wrong_is_said_in_our_words(model: type[BaseModel]) -> None:
    faults = 0
    for wrong in wrongs(model):
        try:
            model.model_validate(wrong)
        except ValidationError as error:
            for item in error.errors(include_url=False):
                said = expected(item)
                faults += 1
                assert said != item["msg"], item
                assert said != _UNLIKE, f"{item['type']} of {item['loc']} has no words of its own"
                assert "Input should" not in said
    assert faults
