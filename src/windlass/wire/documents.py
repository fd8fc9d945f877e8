"""Bytes to plain data, strictly: the first door of every JSON and YAML document.

The standard readers accept what cannot be meant (NaN, a key twice, half a surrogate) and fail in a dozen ways (depth, digits,
encodings). Here every such thing is Invalid with a position where there is one, and numbers with a fraction are Decimals:
no float ever decides anything.

A plain JSON document, as almost all are, is read by msgspec, several times faster. It says nothing of a key given twice, so its
result counts only when it accounts for every colon in the document; whatever is not plain, and every refusal, is left to the
strict reader, which has the words.
"""

import json
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

import msgspec
from msgspec import Struct

from windlass.core.errors import Invalid, TooLarge
from windlass.wire import yaml12
from windlass.wire.faults import show

JSON_TYPE: Final = "application/json"
YAML_TYPES: Final = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})

_NUMBER_TEXT_MAX: Final = 40
_EXPONENT_MAX: Final = 40


class DocumentLimits(Struct, frozen=True, kw_only=True):
    bytes_max: int = 1 << 20
    depth_max: int = 32
    nodes_max: int = 100_000
    """Scalars and collections of a YAML document, with every alias counted as what it stands for."""


LIMITS: Final = DocumentLimits()


def read_json(raw: bytes, *, limits: DocumentLimits = LIMITS) -> Any:
    """The one value in `raw`. Invalid (code `json`) or TooLarge."""
    _check_size(raw, limits)
    data = _read_plainly(raw)
    if data is _NOT_PLAIN:
        data = _read_strictly(raw, limits)
    if raw.count(b"[") + raw.count(b"{") > limits.depth_max:
        _check_depth(data, limits)
    return data


def read_yaml(raw: bytes, *, limits: DocumentLimits = LIMITS) -> list[Any]:
    """Every document of the stream, empty ones left out. Invalid (code `yaml`) or TooLarge."""
    _check_size(raw, limits)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise Invalid(f"the document is not UTF-8 (byte {exc.start})", code="yaml") from None
    return yaml12.load(text, depth_max=limits.depth_max, nodes_max=limits.nodes_max)


def read_one(raw: bytes, media_type: str, *, limits: DocumentLimits = LIMITS) -> Any:
    """The single document of a request's body."""
    if media_type == JSON_TYPE:
        return read_json(raw, limits=limits)
    documents = read_yaml(raw, limits=limits)
    if len(documents) != 1:
        raise Invalid(f"expected one YAML document, found {len(documents)}", code="yaml")
    return documents[0]


def read_number(text: str) -> Decimal:
    """Exactly what is written, within a range that every later step can bear."""
    if len(text) > _NUMBER_TEXT_MAX:
        raise Invalid(f"a number has more than {_NUMBER_TEXT_MAX} characters", code="number")
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent that the module itself cannot hold
        number = None
    if number is None or abs(number.adjusted()) > _EXPONENT_MAX:
        raise Invalid(f"the number {text} is out of range", code="number")
    return number


def _read_plainly(raw: bytes) -> Any:
    """The value where the strict reader would surely read the same, else _NOT_PLAIN."""
    if b"\\u" in raw or _LONG_NUMBER in raw.translate(_DIGITS_ALIKE):
        return _NOT_PLAIN
    try:
        data = _PLAIN_DECODER.decode(raw)
        # A key given twice has left one pair in the data, but two colons in the document. Those in texts come out again too.
        return data if msgspec.json.encode(data).count(b":") == raw.count(b":") else _NOT_PLAIN
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, Invalid):
        return _NOT_PLAIN


def _read_strictly(raw: bytes, limits: DocumentLimits) -> Any:
    try:
        data = _DECODER.decode(raw.decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise Invalid(f"the document is not UTF-8 (byte {exc.start})", code="json") from None
    except json.JSONDecodeError as exc:
        raise Invalid(f"not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}", code="json") from None
    except RecursionError:
        raise _too_deep(limits) from None
    if b"\\u" in raw:
        _check_text(data)
    return data


def _read_integer(text: str) -> int:
    if len(text) > _NUMBER_TEXT_MAX:
        raise Invalid(f"a number has more than {_NUMBER_TEXT_MAX} characters", code="number")
    return int(text)


def _refuse_constant(text: str) -> NoReturn:
    raise Invalid(f"{text} is not a number in JSON", code="number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Invalid(f"the key “{show(twice)}” is given twice in one mapping", code="duplicate-key")
    return mapping


_NOT_PLAIN: Final = object()
_DIGITS_ALIKE: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER: Final = b"0" * _NUMBER_TEXT_MAX
_PLAIN_DECODER: Final = msgspec.json.Decoder(float_hook=read_number)
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=read_number, parse_int=_read_integer, parse_constant=_refuse_constant
)


def _check_size(raw: bytes, limits: DocumentLimits) -> None:
    if len(raw) > limits.bytes_max:
        raise TooLarge(f"the document has {len(raw)} bytes; at most {limits.bytes_max} are read")


def _check_depth(data: Any, limits: DocumentLimits) -> None:
    level = [data]
    for _ in range(limits.depth_max):
        level = [child for value in level for child in _children(value) if isinstance(child, dict | list)]
        if not level:
            return
    raise _too_deep(limits)


def _check_text(data: Any) -> None:
    pending = [data]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            _check_surrogates(value)
        elif isinstance(value, dict):
            pending.extend(value.keys())
        pending.extend(_children(value))


def _check_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Invalid("a text holds half of a surrogate pair", code="text") from None


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _too_deep(limits: DocumentLimits) -> Invalid:
    return Invalid(f"the document is nested deeper than {limits.depth_max}", code="depth")
