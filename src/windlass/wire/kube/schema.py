"""From pydantic's JSON schema to a structural one, as CRDs want it.

References are written out, titles dropped, "or null" is told by leaving the field out. What a structural schema cannot say
(names of keys, relations between fields) becomes CEL rules, added by `crd`.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

Schema = dict[str, Any]

_KEPT: Final = frozenset(
    {
        "type",
        "description",
        "default",
        "enum",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "maxProperties",
        "required",
    }
)


def structural(model: type[BaseModel]) -> Schema:
    whole = model.model_json_schema(by_alias=True)
    return _convert(whole, whole.get("$defs", {}))


def _convert(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    if "$ref" in schema:
        return _convert({**defs[schema["$ref"].rpartition("/")[2]], **_without(schema, "$ref")}, defs)
    if "anyOf" in schema:
        return _any_of(schema, defs)
    if "oneOf" in schema:  # a text or a mapping: only the text can be said here
        return _convert({**schema["oneOf"][0], **_without(schema, "oneOf")}, defs)
    out = {key: value for key, value in schema.items() if key in _KEPT}
    if "const" in schema:
        out["enum"] = [schema["const"]]
    if "properties" in schema:
        out["properties"] = {name: _convert(part, defs) for name, part in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), Mapping):
        out["additionalProperties"] = _convert(schema["additionalProperties"], defs)
    for part in schema.get("patternProperties", {}).values():
        out["additionalProperties"] = _convert(part, defs)
    if "items" in schema:
        out["items"] = _convert(schema["items"], defs)
    return out


def _any_of(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    """`X or null` is an X that may be absent; a list or a text is a list; a number or a text is Kubernetes' own pair."""
    rest = _without(schema, "anyOf")
    branches = [_convert(branch, defs) for branch in schema["anyOf"] if branch.get("type") != "null"]
    if rest.get("default", 0) is None:
        rest.pop("default")
    if len(branches) == 1:
        return {**branches[0], **_convert(rest, defs)}
    kinds = {branch.get("type") for branch in branches}
    if "array" in kinds:
        return {**next(branch for branch in branches if branch["type"] == "array"), **_convert(rest, defs)}
    merged: Schema = {"x-kubernetes-int-or-string": True}
    for branch in branches:
        merged |= {key: value for key, value in branch.items() if key in ("pattern", "maximum")}
    return {**merged, **_convert(rest, defs)}


def _without(schema: Mapping[str, Any], key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}
