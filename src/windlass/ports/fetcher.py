"""The one way out to addresses that users name: copy-file reads from them, webhooks write to them.

Only globally routable addresses are reached, and the address that was checked is the one connected to. A redirect is a new
address and is checked as one.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from windlass.core.errors import Invalid


class Fetched(Protocol):
    """A body on its way. Reading raises FetchFailed or TooLarge."""

    @property
    def url(self) -> str:
        """After redirects."""
        ...

    def chunks(self) -> AsyncIterator[bytes]: ...


class Fetcher(Protocol):
    def may_reach(self, url: str) -> bool:
        """By its looks alone, for whoever takes an address to use it later: False of one whose host is written as an address
        that is out of bounds. A name, and what is no URL, is judged when it is used."""
        ...

    def get(self, url: str, *, bytes_max: int) -> AbstractAsyncContextManager[Fetched]:
        """Follows redirects. Invalid (code `url`, `address`) for what may not be reached, FetchFailed for what did not work."""
        ...

    async def post(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> int:
        """The status answered; redirects are not followed, the answer's body is not read."""
        ...


class FetchFailed(Invalid):
    """The address did not give what was asked: no such name, no connection, a status that is no success, too slow."""

    default_code = "fetch-failed"
