"""Pools and nodes, as admins ask for them. Mixed into the client."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from windlass.client.documents import Document
from windlass.client.transport import Query, Transport, segment
from windlass.core.errors import NotFound

POOLS = "/api/v1/pools"
AppliedPool = Literal["created", "changed", "unchanged"]
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class Pooling:
    _transport: Transport

    def pools(self) -> list[Document]:
        return cast(list[Document], self._transport.call("GET", POOLS).json()["items"])

    def pool(self, name: str) -> Document:
        return cast(Document, self._transport.call("GET", _pool(name)).json())

    def create_pool(self, manifest: Document) -> Document:
        """Not repeated by itself: the second of two would be a conflict."""
        return cast(Document, self._transport.call("POST", POOLS, body=_ENCODER.encode(manifest)).json())

    def apply_pool(self, manifest: Document) -> tuple[Document, AppliedPool]:
        name = str(manifest["metadata"]["name"])
        try:
            before = self.pool(name)["spec"]
        except NotFound:
            before = None
        answer = self._transport.call("PUT", _pool(name), body=_ENCODER.encode(manifest))
        made = cast(Document, answer.json())
        return made, "created" if answer.status == 201 else "unchanged" if made["spec"] == before else "changed"

    def change_pool(self, name: str, spec: Mapping[str, Any]) -> Document:
        body = _ENCODER.encode({"spec": spec})
        return cast(Document, self._transport.call("PATCH", _pool(name), body=body, may_repeat=True).json())

    def delete_pool(self, name: str) -> Document:
        return cast(Document, self._transport.call("DELETE", _pool(name)).json())

    def pool_metrics(self, name: str) -> Document:
        return cast(Document, self._transport.call("GET", f"{_pool(name)}/metrics").json())

    def scale_pool(self, name: str, workers: int) -> Document:
        body = _ENCODER.encode({"workers": workers})
        return cast(Document, self._transport.call("POST", f"{_pool(name)}/scale", body=body).json())

    def scaling(self, name: str, *, limit: int | None = None) -> Iterator[Document]:
        """Newest first, across pages, up to `limit` in all."""
        left, before = limit, None
        while left is None or left > 0:
            query: Query = {"limit": min(left or 1000, 1000), "before": before}
            page = self._transport.call("GET", f"{_pool(name)}/scaling/history", query=query).json()
            yield from page["items"]
            left = None if left is None else left - len(page["items"])
            before = page["next"]
            if before is None:
                return

    def hold_back(self, node: str, verb: Literal["cordon", "uncordon", "drain"]) -> Document:
        path = f"/api/v1/nodes/{segment(node)}/{verb}"
        return cast(Document, self._transport.call("POST", path, body=b"", may_repeat=True).json())


def _pool(name: str) -> str:
    return f"{POOLS}/{segment(name)}"
