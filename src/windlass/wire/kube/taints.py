"""Which nodes an admin lets pods go to: labels that they must have, and taints that are borne. Read from settings."""

from collections.abc import Iterable
from typing import Final

from windlass.wire.kube.names import Document
from windlass.wire.names import read_labels

_SHUT: Final = frozenset({"NoSchedule", "NoExecute"})


def read_selector(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Of `key=value` each. ValueError for what no label can be."""
    return tuple(sorted(read_labels(dict(_pair(text) for text in texts)).items()))


def read_tolerations(texts: Iterable[str]) -> tuple[Document, ...]:
    """Of `key` or `key=value` each: taints with that key, or with that value too. ValueError for what no taint can be."""
    return tuple(_toleration(*next(iter(read_labels(dict([_pair(text)])).items()))) for text in texts)


def is_shut(taints: Iterable[Document], tolerations: Iterable[Document]) -> bool:
    """Whether one of a node's taints keeps pods away that bear only these."""
    borne = tuple(tolerations)
    return any(taint["effect"] in _SHUT and not any(_bears(one, taint) for one in borne) for taint in taints)


def _bears(toleration: Document, taint: Document) -> bool:
    is_any = toleration["operator"] == "Exists"
    return bool(toleration["key"] == taint["key"] and (is_any or toleration["value"] == taint.get("value", "")))


def _toleration(key: str, value: str) -> Document:
    return {"key": key, "operator": "Equal", "value": value} if value else {"key": key, "operator": "Exists"}


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value
