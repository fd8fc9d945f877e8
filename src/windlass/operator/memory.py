"""The newest of every object that was heard of. What it does not know may still exist: absence is always asked for."""

from typing import Final

from windlass.wire.kube.names import TENANT_LABEL, Document

Key = tuple[str, str]
"""Namespace and name."""
TOMBSTONES_MAX: Final = 10_000


class Shelf:
    """One kind's objects, by key. An older version never replaces a newer one, and the dead stay dead."""

    def __init__(self) -> None:
        self._documents: dict[Key, Document] = {}
        self._dead: dict[str, None] = {}

    def get(self, key: Key) -> Document | None:
        return self._documents.get(key)

    def all(self) -> list[Document]:
        return list(self._documents.values())

    def knows(self, key: Key, uid: str, version: str) -> bool:
        """That object in that version or a newer one. Of the dead nothing is known: who has lost its label is told as deleted,
        and may have it again."""
        known = self._documents.get(key)
        return known is not None and known["metadata"]["uid"] == uid and _number(version) <= _version(known)

    def put(self, document: Document) -> None:
        if document["metadata"]["uid"] in self._dead:
            return
        known = self._documents.get(key_of(document))
        if known is None or _version(document) >= _version(known):
            self._documents[key_of(document)] = document

    def drop(self, document: Document) -> None:
        uid = document["metadata"]["uid"]
        self._dead[uid] = None
        if len(self._dead) > TOMBSTONES_MAX:
            self._dead.pop(next(iter(self._dead)))
        known = self._documents.get(key_of(document))
        if known is not None and known["metadata"]["uid"] == uid:
            del self._documents[key_of(document)]

    def heard(self, kind: str | None, document: Document) -> None:
        """An event of a watch, or of the first listing (no kind)."""
        if kind == "DELETED":
            self.drop(document)
        else:
            self.put(document)


class Memory:
    def __init__(self) -> None:
        self.jobs = Shelf()
        self.pods = Shelf()
        self.claims = Shelf()
        self.namespaces = Shelf()
        self._silent: set[str] = set()
        self._put_off: set[str] = set()

    def put_off(self, uid: str) -> None:
        """The node of the pod with that UID has put it off."""
        self._put_off.add(uid)

    def is_put_off(self, uid: str) -> bool:
        return uid in self._put_off

    def nudged(self, uid: str) -> None:
        self._put_off.discard(uid)

    def heard_namespace(self, kind: str | None, namespace: Document) -> list[Document]:
        """The jobs that it concerns: those in it, when it has become another tenant's, or nobody's."""
        before = self.namespaces.get(key_of(namespace))
        self.namespaces.heard(kind, namespace)
        if before is None or _tenant(before) == _tenant(namespace):
            return []
        return [job for job in self.jobs.all() if job["metadata"]["namespace"] == namespace["metadata"]["name"]]

    def heard_node(self, kind: str | None, node: Document) -> bool:
        """Whether the node began or ceased to answer."""
        name = node["metadata"]["name"]
        conditions = node.get("status", {}).get("conditions", [])
        is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        was_silent = name in self._silent
        if is_ready and kind != "DELETED":
            self._silent.discard(name)
        else:
            self._silent.add(name)
        return was_silent is not (name in self._silent)

    def is_silent(self, node: str) -> bool:
        return node in self._silent


def key_of(document: Document) -> Key:
    metadata = document["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _tenant(namespace: Document) -> str:
    return str(namespace["metadata"].get("labels", {}).get(TENANT_LABEL, ""))


def _version(document: Document) -> int:
    return _number(str(document["metadata"].get("resourceVersion", "0")))


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
