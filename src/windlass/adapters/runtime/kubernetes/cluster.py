"""What this adapter needs of an API server. `client.kube.api.KubeApi` has it; boot brings the two together."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from windlass.ports.runtime import Terminal
from windlass.wire.kube.kinds import Kind
from windlass.wire.kube.names import Document


class Cluster(Protocol):
    """Every refusal is one of our errors; `Conflict` has code `kube-exists` when something of that name is there."""

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Document | None: ...

    async def list(self, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Document]: ...

    async def version(self, kind: Kind, namespace: str = "") -> str: ...

    def watch(
        self, kind: Kind, namespace: str = "", *, labels: str = "", after: str
    ) -> AsyncIterator[tuple[str, Document]]: ...

    async def create(self, kind: Kind, document: Document, namespace: str = "") -> Document: ...

    async def apply(self, kind: Kind, document: Document, namespace: str = "") -> Document: ...

    async def merge(self, kind: Kind, name: str, change: Document, namespace: str = "") -> Document: ...

    async def delete(
        self, kind: Kind, name: str, namespace: str = "", *, uid: str, grace: int | None = None
    ) -> bool: ...

    def log(
        self,
        name: str,
        namespace: str,
        *,
        follow: bool = False,
        timestamps: bool = False,
        since: str = "",
        tail: int | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...

    def terminal(
        self, pod: str, namespace: str, command: Sequence[str] = (), *, has_input: bool = True, tty: bool = False
    ) -> AbstractAsyncContextManager[Terminal]: ...
