"""Blobs in a directory: `sha256/<first two digits>/<64 digits>`, written in `incoming/` and moved into place when whole.

A blob is visible only under its digest, after its bytes and its name are synced; a crash at any point leaves a file in
`incoming/` at worst, and the next start removes it. All file work and all hashing happens in threads, of which this adapter
has a few of its own, so that bulk bytes delay neither the event loop nor anyone else's blocking call.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from windlass.adapters.blobs.digests import absent, check_expected, check_whole, digest_of, hex_of
from windlass.core.errors import TooLarge, Unavailable
from windlass.ports.blobs import Blob, BlobWriter

T = TypeVar("T")

THREADS = 8
FLUSH_BYTES = 1 << 20
"""Small chunks gather until a hop into a thread is worth it."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NAME = re.compile(r"[0-9a-f]{64}", re.ASCII)


class DirectoryBlobs:
    """Implements `windlass.ports.blobs.Blobs`. Made by `open`."""

    def __init__(self, root: Path) -> None:
        self._incoming = root / "incoming"
        self._blobs = root / "sha256"
        self._threads = _Threads()

    @classmethod
    async def open(cls, root: Path) -> "DirectoryBlobs":
        """Makes the directories and sweeps what a crash left behind."""
        blobs = cls(root)
        await blobs._threads.run(blobs._prepare)
        return blobs

    @asynccontextmanager
    async def create(self, *, size_max: int) -> AsyncIterator[BlobWriter]:
        temporary = _Temporary(self._incoming)
        try:
            await self._threads.run(temporary.open)
            yield _Writer(temporary, self._threads, self._path, size_max)
        finally:
            with anyio.CancelScope(shield=True):
                await self._threads.run(temporary.discard)

    async def read(self, digest: str, *, chunk_size: int = 1 << 20) -> AsyncIterator[bytes]:
        path = self._path(digest)
        with anyio.CancelScope(shield=True):  # cancelled in between, the descriptor would be lost
            descriptor = await self._threads.run(partial(_open_if_there, path))
        if descriptor is None:
            raise absent(digest)
        try:
            while chunk := await self._threads.run(partial(os.read, descriptor, chunk_size)):
                yield chunk
        finally:
            os.close(descriptor)

    async def size(self, digest: str) -> int | None:
        return await self._threads.run(partial(_size_if_there, self._path(digest)))

    async def delete(self, digest: str) -> None:
        await self._threads.run(partial(self._path(digest).unlink, missing_ok=True))

    async def digests(self) -> tuple[str, ...]:
        return await self._threads.run(self._list)

    def _path(self, digest: str) -> Path:
        digits = hex_of(digest)
        return self._blobs / digits[:2] / digits

    def _prepare(self) -> None:
        self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        for shard in range(256):
            (self._blobs / f"{shard:02x}").mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in (self._blobs, self._blobs.parent):
            _sync_directory(directory)
        for leftover in self._incoming.iterdir():
            _sweep(leftover)

    def _list(self) -> tuple[str, ...]:
        names = (entry.name for shard in os.scandir(self._blobs) for entry in os.scandir(shard.path))
        return tuple(sorted(digest_of(name) for name in names if _NAME.fullmatch(name)))


class _Writer:
    def __init__(
        self, temporary: "_Temporary", threads: "_Threads", path_of: Callable[[str], Path], size_max: int
    ) -> None:
        self._temporary = temporary
        self._threads = threads
        self._path_of = path_of
        self._size_max = size_max
        self._size = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._is_whole = True
        self._sealed: Blob | None = None

    async def write(self, chunk: bytes) -> None:
        assert self._sealed is None, "a sealed blob takes no more bytes"
        self._size += len(chunk)
        if self._size > self._size_max:
            self._is_whole = False
            raise TooLarge(f"more than the {self._size_max} bytes allowed", code="blob-too-large")
        self._waiting.append(chunk)
        self._waiting_bytes += len(chunk)
        if self._waiting_bytes >= FLUSH_BYTES:
            await self._flush()

    async def seal(self, *, expected: str | None = None) -> Blob:
        if self._sealed is None:
            await self._flush()
            digest = digest_of(self._temporary.hexdigest())
            check_expected(digest, expected)
            await self._threads.run(partial(self._temporary.move, self._path_of(digest)))
            self._sealed = Blob(digest=digest, size=self._size)
        return self._sealed

    async def _flush(self) -> None:
        check_whole(self._is_whole)
        chunks, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._is_whole = False  # until the bytes are in the file; an error or a cancellation leaves it so
        await self._threads.run(partial(self._temporary.append, b"".join(chunks)))
        self._is_whole = True


class _Threads:
    """Where the disk is touched. Foreign errors stop here."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(THREADS)

    async def run(self, work: Callable[[], T]) -> T:
        try:
            return await to_thread.run_sync(work, limiter=self._limiter)
        except OSError as exc:
            if exc.errno in _FULL:
                raise Unavailable(
                    "the disk of the blobs is full", code="blobs-full", hint="free some space and try again"
                ) from exc
            raise Unavailable(f"the disk of the blobs failed: {exc.strerror}", code="blobs-failed") from exc


class _Temporary:
    """A file in the making. The lock on it tells a sweep by another process that we are alive."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / f"{secrets.token_hex(16)}.part"
        self._descriptor = -1
        self._hash = hashlib.sha256()
        self._is_moved = False

    def open(self) -> None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def append(self, data: bytes) -> None:
        self._hash.update(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def move(self, target: Path) -> None:
        """Durable first, visible then. Over an equal blob this changes nothing, and its readers keep the old file."""
        os.fsync(self._descriptor)
        self._path.replace(target)
        self._is_moved = True
        _sync_directory(target.parent)

    def discard(self) -> None:
        if self._descriptor < 0:
            return
        if not self._is_moved:
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def _open_if_there(path: Path) -> int | None:
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDONLY)
    return None


def _size_if_there(path: Path) -> int | None:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return None


def _sweep(leftover: Path) -> None:
    """Remove a temporary file unless a process still holds it."""
    with suppress(FileNotFoundError):
        descriptor = os.open(leftover, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink(missing_ok=True)
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
