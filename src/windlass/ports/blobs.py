"""Bytes by digest: uploads, copy-file results, sealed logs. Written whole or not at all; never seen half."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct


class Blob(Struct, frozen=True, kw_only=True):
    digest: str
    """`sha256:<hex>`"""
    size: int


class BlobWriter(Protocol):
    async def write(self, chunk: bytes) -> None: ...

    async def seal(self, *, expected: str | None = None) -> Blob:
        """fsync, check against `expected` (Invalid, code `digest-mismatch`), make visible. Sealing equal bytes twice is fine."""
        ...


class Blobs(Protocol):
    def create(self, *, size_max: int) -> AbstractAsyncContextManager[BlobWriter]:
        """A writer whose temporary file is gone after the block unless it was sealed. TooLarge past `size_max`."""
        ...

    def read(self, digest: str, *, chunk_size: int = 1 << 20) -> AsyncIterator[bytes]:
        """NotFound when absent."""
        ...

    async def size(self, digest: str) -> int | None: ...

    async def delete(self, digest: str) -> None:
        """Absent already is fine."""
        ...

    async def digests(self) -> tuple[str, ...]:
        """All there are, for the sweep of those nobody refers to."""
        ...
