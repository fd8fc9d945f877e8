"""YAML to plain data by the 1.2 core schema, built from the parser's events.

YAML 1.1, which the usual loader speaks, reads `no` as false, `012` as ten and `1:30` as ninety. Here only `true` and `false`
are truth values and only plain decimal numbers are numbers; a text such as `012` stays the text it is, so it passes where a
text is meant and is refused where a number is. Tags are refused, aliases count as what they stand for, and depth is bounded
while reading, so a small document cannot become a large one.
"""

import re
from decimal import Decimal
from typing import Any, Final

import yaml
from yaml import events

from windlass.core.errors import Invalid, TooLarge
from windlass.wire.faults import show

_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,38})", re.ASCII)
_DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})\.[0-9]{1,18}(?:[eE][-+]?[0-9]{1,2})?", re.ASCII)
_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_PLAIN_TAGS: Final = frozenset({None, "!", "tag:yaml.org,2002:str"})
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(text: str, *, depth_max: int, nodes_max: int) -> list[Any]:
    """The documents of the stream that hold anything. Invalid (code `yaml`) or TooLarge."""
    builder = _Builder(depth_max=depth_max, nodes_max=nodes_max)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as exc:
        problem = exc.problem or exc.context or "it cannot be parsed"
        raise Invalid(f"not YAML: {show(problem)}{_position(exc.problem_mark)}", code="yaml") from None
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise Invalid(
            f"not YAML: {show(str(exc).splitlines()[0] if str(exc) else 'unreadable')}", code="yaml"
        ) from None
    return [document for document in builder.documents if document is not None]


class _Open:
    """A collection being filled."""

    __slots__ = ("anchor", "data", "has_key", "key", "size")

    def __init__(self, data: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.data = data
        self.anchor = anchor
        self.key = ""
        self.has_key = False
        self.size = 1


class _Builder:
    def __init__(self, *, depth_max: int, nodes_max: int) -> None:
        self.documents: list[Any] = []
        self._depth_max = depth_max
        self._nodes_max = nodes_max
        self._nodes = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}

    def take(self, event: Any) -> None:
        if isinstance(event, events.ScalarEvent):
            self._add(_scalar(event), 1, event.anchor, event)
        elif isinstance(event, events.CollectionStartEvent):
            self._begin(event)
        elif isinstance(event, events.CollectionEndEvent):
            done = self._open.pop()
            self._add(done.data, done.size, done.anchor, event, is_counted=True)
        elif isinstance(event, events.AliasEvent):
            self._alias(event)
        elif isinstance(event, events.DocumentStartEvent):
            self._anchors = {}

    def _begin(self, event: Any) -> None:
        if event.tag not in (None, "!"):
            raise _refusal("tags are not read", event)
        if len(self._open) >= self._depth_max:
            raise _refusal(f"nested deeper than {self._depth_max}", event)
        if self._open and isinstance(self._open[-1].data, dict) and not self._open[-1].has_key:
            raise _refusal("a key must be a text", event)
        self._count(1)
        self._open.append(_Open({} if isinstance(event, events.MappingStartEvent) else [], event.anchor))

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise _refusal("an alias that names no finished anchor", event)
        data, size = self._anchors[event.anchor]
        self._add(data, size, None, event)

    def _add(self, value: Any, size: int, anchor: str | None, event: Any, *, is_counted: bool = False) -> None:
        if not is_counted:
            self._count(size)
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if not self._open:
            self.documents.append(value)
            return
        parent = self._open[-1]
        parent.size += size
        if isinstance(parent.data, list):
            parent.data.append(value)
        elif parent.has_key:
            parent.data[parent.key] = value
            parent.has_key = False
        else:
            self._take_key(parent, value, event)

    def _take_key(self, parent: _Open, value: Any, event: Any) -> None:
        if not isinstance(value, str):
            # `on: x` or `8080: y`: as a key the written form is what is meant, but only a scalar has one.
            value = getattr(event, "value", None)
        if not isinstance(value, str):
            raise _refusal("a key must be a text", event)
        if value in parent.data:
            raise _refusal(f"the key “{show(value)}” is given twice in one mapping", event, code="duplicate-key")
        parent.key, parent.has_key = value, True

    def _count(self, size: int) -> None:
        self._nodes += size
        if self._nodes > self._nodes_max:
            raise TooLarge(f"the document stands for more than {self._nodes_max} values, aliases counted")


def _scalar(event: Any) -> Any:
    if event.tag not in _PLAIN_TAGS:
        raise _refusal("tags are not read", event)
    is_plain = event.tag is None and event.style in (None, "")
    return _plain(event.value) if is_plain else event.value


def _plain(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return Decimal(text) if _DECIMAL.fullmatch(text) else text


def _refusal(message: str, event: Any, *, code: str = "yaml") -> Invalid:
    return Invalid(f"not acceptable YAML: {message}{_position(event.start_mark)}", code=code)


def _position(mark: Any) -> str:
    return f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
