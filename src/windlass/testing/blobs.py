"""Blobs in memory: passes the contract suite, knows no threads, and can be as full as a test wants."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio.lowlevel import checkpoint

from windlass.adapters.blobs.digests import absent, check_expected, check_whole, digest_of, hex_of
from windlass.core.errors import TooLarge, Unavailable
from windlass.ports.blobs import Blob, BlobWriter


class MemoryBlobs:
    """`bytes_max` is the size of the disk; writing past it is Unavailable with code `blobs-full`, as on a real one."""

    def __init__(self, *, bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max
        self._blobs: dict[str, bytes] = {}
        self._writers: set[_Writer] = set()

    @asynccontextmanager
    async def create(self, *, size_max: int) -> AsyncIterator[BlobWriter]:
        writer = _Writer(self, size_max)
        self._writers.add(writer)
        try:
            yield writer
        finally:
            self._writers.discard(writer)

    async def read(self, digest: str, *, chunk_size: int = 1 << 20) -> AsyncIterator[bytes]:
        hex_of(digest)
        await checkpoint()
        if digest not in self._blobs:
            raise absent(digest)
        content = self._blobs[digest]
        for start in range(0, len(content), chunk_size):
            await checkpoint()
            yield content[start : start + chunk_size]

    async def size(self, digest: str) -> int | None:
        hex_of(digest)
        await checkpoint()
        return len(self._blobs[digest]) if digest in self._blobs else None

    async def delete(self, digest: str) -> None:
        hex_of(digest)
        await checkpoint()
        self._blobs.pop(digest, None)

    async def digests(self) -> tuple[str, ...]:
        await checkpoint()
        return tuple(sorted(self._blobs))

    def keep(self, digest: str, content: bytes) -> None:
        self._blobs[digest] = content

    def check_space(self) -> None:
        used = sum(map(len, self._blobs.values())) + sum(len(writer.content) for writer in self._writers)
        if self.bytes_max is not None and used > self.bytes_max:
            raise Unavailable("the disk of the blobs is full", code="blobs-full")


class _Writer:
    def __init__(self, blobs: MemoryBlobs, size_max: int) -> None:
        self.content = bytearray()
        self._blobs = blobs
        self._size_max = size_max
        self._is_whole = True
        self._sealed: Blob | None = None

    async def write(self, chunk: bytes) -> None:
        assert self._sealed is None, "a sealed blob takes no more bytes"
        check_whole(self._is_whole)
        self._is_whole = False
        await checkpoint()
        self.content += chunk
        if len(self.content) > self._size_max:
            raise TooLarge(f"more than the {self._size_max} bytes allowed", code="blob-too-large")
        self._blobs.check_space()
        self._is_whole = True

    async def seal(self, *, expected: str | None = None) -> Blob:
        if self._sealed is None:
            check_whole(self._is_whole)
            await checkpoint()
            digest = digest_of(hashlib.sha256(self.content).hexdigest())
            check_expected(digest, expected)
            self._blobs.keep(digest, bytes(self.content))
            self._sealed = Blob(digest=digest, size=len(self.content))
        return self._sealed
