"""Under the watches: what is there, listed anew every so often, so that a change nobody was told of is noticed all the same.

One list for each kind. What memory has and no list shows is asked for by name: it may have been made since the list was read.
"""

from collections.abc import Sequence

import structlog

from windlass.client.kube.api import CLAIMS, JOBS, PODS, Kind, KubeApi
from windlass.core.errors import WindlassError
from windlass.operator.memory import Memory, Shelf, key_of
from windlass.wire.kube.names import JOB_LABEL, Document

log = structlog.get_logger(__name__)


class Relister:
    def __init__(self, api: KubeApi, memory: Memory, namespaces: Sequence[str] = ()) -> None:
        self._api = api
        self._shelves = ((JOBS, memory.jobs, ""), (PODS, memory.pods, JOB_LABEL), (CLAIMS, memory.claims, JOB_LABEL))
        self._namespaces = namespaces or ("",)

    async def relist(self) -> None:
        """A kind that cannot be listed stays as it was heard of."""
        for kind, shelf, label in self._shelves:
            try:
                await self._refresh(kind, shelf, label)
            except WindlassError as exc:
                log.warning("not listed anew", kind=kind.plural, code=exc.code, why=str(exc))

    async def _refresh(self, kind: Kind, shelf: Shelf, label: str) -> None:
        listed: set[str] = set()
        for namespace in self._namespaces:
            for document in await self._api.list(kind, namespace, labels=label):
                listed.add(document["metadata"]["uid"])
                shelf.put(document)
        for known in shelf.all():
            if known["metadata"]["uid"] not in listed and _is_listed(known, label):
                await self._ask(kind, shelf, known)

    async def _ask(self, kind: Kind, shelf: Shelf, known: Document) -> None:
        namespace, name = key_of(known)
        found = await self._api.get(kind, name, namespace)
        if found is None or found["metadata"]["uid"] != known["metadata"]["uid"]:
            shelf.drop(known)
        if found is not None:
            shelf.put(found)


def _is_listed(known: Document, label: str) -> bool:
    """What has not the label is nobody's to list, and asked for whenever it is wanted."""
    return not label or label in known["metadata"].get("labels", {})
