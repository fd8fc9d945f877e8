"""What the store suites are given to test."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from windlass.ports.store import Store


class Subject(Struct, frozen=True):
    """A fresh, empty store under test."""

    store: Store
    pass_time: Callable[[float], Awaitable[None]]
    """Let the store's clock advance: a fake one is moved, a real one waited for."""
    ttl_seconds: int = 10
    """A lease worth waiting for on this store's clock."""
