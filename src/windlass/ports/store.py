"""What is alive, in etcd's shape: keys and values with revisions, commits with expectations, watches, leases.

SQLite can imitate etcd and etcd cannot imitate SQL, so no query beyond a prefix range exists here; lists and searches are
the read model's. Rules stay out of adapters.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from windlass.core.errors import Conflict, Unavailable


class Put(Struct, frozen=True):
    key: str
    value: bytes
    lease: int = 0
    """The key goes when this lease ends; 0 is for ever."""


class Delete(Struct, frozen=True):
    key: str


Write = Put | Delete


class Expect(Struct, frozen=True, kw_only=True):
    """What a decision relied on. Exactly one of the two revisions is compared."""

    key: str
    created: int | None = None
    """Creation revision; 0 means the key must not exist."""
    modified: int | None = None
    """Revision of the last change; 0 means the key must not exist."""


class Item(Struct, frozen=True, kw_only=True):
    key: str
    value: bytes
    created: int
    modified: int


class Snapshot(Struct, frozen=True, kw_only=True):
    """A consistent view: every item as of `revision`."""

    revision: int
    items: tuple[Item, ...]


class Change(Struct, frozen=True, kw_only=True):
    """One key's change at one revision; `value` is None for a deletion. All changes of a commit share its revision."""

    revision: int
    key: str
    value: bytes | None


class Limits(Struct, frozen=True, kw_only=True):
    """How much one commit may carry. The committer packs decisions into commits that respect both."""

    operations: int = 100
    bytes: int = 1 << 20


class Deposed(Conflict):
    """An expectation did not hold. For the leader's own commits: someone else leads now."""

    default_code = "store-conflict"


class Refused(Unavailable):
    """The store said no and nothing was written: disk full, read-only, over its limits."""

    default_code = "store-refused"


class Unknown(Unavailable):
    """Executed or not? The caller must read back before it decides anything more."""

    default_code = "store-unknown"


class Compacted(Conflict):
    """The watch asked for revisions that are gone: list again, then watch from the list's revision."""

    default_code = "store-compacted"


class Store(Protocol):
    limits: Limits

    async def range(self, prefix: str, *, start: str = "", limit: int = 0) -> Snapshot:
        """Items whose key begins with `prefix`, in key order (by UTF-8 bytes), after `start` if given."""
        ...

    async def get(self, key: str) -> Item | None: ...

    async def commit(self, writes: Sequence[Write], expect: Sequence[Expect] = ()) -> int:
        """All or nothing, durable when it returns; answers the new revision. Raises Deposed, Refused or Unknown.

        Commits made concurrently may share an fsync; each keeps its own expectations and its own revision. A key may be
        written once per commit. An empty commit checks its expectations and answers the current revision.
        """
        ...

    def watch(self, *, after: int, prefix: str = "") -> AbstractAsyncContextManager[AsyncIterator[Sequence[Change]]]:
        """Changes above revision `after`, in order, none missing, a whole commit at a time. Raises Compacted."""
        ...

    async def compact(self, before: int) -> None:
        """Forget the history of changes below `before`; current values stay."""
        ...

    async def grant(self, ttl_seconds: int) -> int:
        """A lease; its keys are deleted when it is revoked or not kept alive for its time-to-live."""
        ...

    async def keep_alive(self, lease: int) -> bool:
        """False when the lease is gone. True is no proof that it will hold: compare revisions as well."""
        ...

    async def revoke(self, lease: int) -> None: ...

    async def revision(self) -> int:
        """The revision of the newest commit."""
        ...

    async def check_room(self) -> None:
        """Refused (code `store-disk-full`) when there is hardly room for a commit. Writes nothing: for who asks after health."""
        ...
