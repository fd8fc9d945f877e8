"""Disks that fail: SQLite virtual file systems which lose what was not synced, or report errors when told to.

Both stand on the real file system and see every write, truncation and sync of the database and its WAL. The `-shm` file
goes past them: it is an index that SQLite rebuilds, and a power cut takes it.
"""

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw

SECTOR = 512


class Write(NamedTuple):
    offset: int
    data: bytes


class Truncate(NamedTuple):
    size: int


class Sync(NamedTuple):
    pass


class Remove(NamedTuple):
    pass


Operation = Write | Truncate | Sync | Remove


class WatchedDisk(apsw.VFS):
    """Calls `touched(path, operation)` before each operation that changes a file. What it raises, SQLite gets."""

    def __init__(self, name: str, touched: Callable[[str, Operation], None], *, is_default: bool) -> None:
        self.name = name
        self.touched = touched
        self.base = apsw.vfs_names()[0]  # by its name: we may be the default ourselves in a moment
        super().__init__(name, base=self.base, makedefault=is_default)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _WatchedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.touched(filename, Remove())
        super().xDelete(filename, syncdir)


class _WatchedFile(apsw.VFSFile):
    def __init__(self, disk: WatchedDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(disk.base, name, flags)
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.touched(self._path, Write(offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._disk.touched(self._path, Truncate(newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._disk.touched(self._path, Sync())
        super().xSync(flags)


class Platter:
    """What is surely on the disk: per file the bytes of the last sync, and the operations since, in order."""

    def __init__(self) -> None:
        self._synced: dict[str, bytearray] = {}
        self._pending: dict[str, list[Write | Truncate]] = {}
        self._lock = threading.Lock()

    def note(self, path: str, operation: Operation) -> None:
        with self._lock:
            match operation:
                case Write() | Truncate():
                    self._pending.setdefault(path, []).append(operation)
                case Sync():
                    content = self._synced.setdefault(path, bytearray())
                    for waiting in self._pending.pop(path, []):
                        _apply(content, waiting)
                case Remove():
                    self._synced.pop(path, None)
                    self._pending.pop(path, None)

    def cut(self, directory: Path, chance: random.Random, *, kept: float, torn: float) -> None:
        """Write what is left when everything stops now: all that was synced, and of the rest whatever chance decides.

        `kept` is the probability that an operation reached the disk before its sync, `torn` that only its first sectors did.
        """
        directory.mkdir()
        with self._lock:
            for path in sorted({*self._synced, *self._pending}):
                content = bytearray(self._synced.get(path, b""))
                for operation in self._pending.get(path, []):
                    if chance.random() < kept:
                        _apply(content, _tear(operation, chance) if chance.random() < torn else operation)
                (directory / os.path.basename(path)).write_bytes(content)


def _apply(content: bytearray, operation: Write | Truncate) -> None:
    if isinstance(operation, Truncate):
        del content[operation.size :]
        return
    offset, data = operation
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _tear(operation: Write | Truncate, chance: random.Random) -> Write | Truncate:
    if isinstance(operation, Truncate) or len(operation.data) <= SECTOR:
        return operation
    sectors = chance.randrange(1, len(operation.data) // SECTOR + 1)
    return Write(operation.offset, operation.data[: SECTOR * sectors])
