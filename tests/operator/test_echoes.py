"""Which events of a watch are dropped before anybody looks at them: what memory has already, and nothing else."""

import json
from typing import Any

import pytest

from windlass.operator.echoes import Echoes
from windlass.operator.memory import Memory

PODS = "pods"


def an_event(kind: str, version: int, *, uid: str = "u1", name: str = "it-1", **more: Any) -> bytes:
    metadata = {"name": name, "namespace": "lab", "uid": uid, "resourceVersion": str(version)}
    return json.dumps({"type": kind, "object": {"metadata": metadata, **more}}).encode()


def a_memory(version: int) -> Memory:
    memory = Memory()
    written = json.loads(an_event("", version))["object"]
    memory.pods.put(written)
    return memory


@pytest.mark.parametrize(
    ("line", "is_dropped"),
    [
        (an_event("ADDED", 7), True),
        (an_event("MODIFIED", 7), True),
        (an_event("MODIFIED", 6), True),
        (an_event("MODIFIED", 8), False),
        (an_event("MODIFIED", 10), False),  # by number, not by text
        (an_event("DELETED", 7), False),
        (an_event("MODIFIED", 7, uid="u2"), False),
        (an_event("MODIFIED", 7, name="other-1"), False),
        (b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}', False),
        (b'{"type": "ERROR", "object": {"kind": "Status", "code": 410}}', False),
        (b"half a li", False),
        (b"", False),
    ],
)
def test_only_what_memory_has_is_dropped(line: bytes, is_dropped: bool) -> None:
    assert Echoes(a_memory(7)).is_one(PODS, line) is is_dropped


def test_what_was_told_as_deleted_is_news_again_as_one_whose_label_was_taken_and_given_back() -> None:
    memory = a_memory(7)
    memory.pods.heard("DELETED", json.loads(an_event("", 8))["object"])
    assert not Echoes(memory).is_one(PODS, an_event("ADDED", 9))
    assert not Echoes(memory).is_one(PODS, an_event("ADDED", 12, uid="u2"))


def test_kinds_that_are_only_heard_of_are_always_news() -> None:
    memory = a_memory(7)
    memory.namespaces.put({"metadata": {"name": "lab", "uid": "u1", "resourceVersion": "7"}})
    for plural in ("namespaces", "nodes", "events"):
        assert not Echoes(memory).is_one(plural, an_event("MODIFIED", 7, name="lab"))
