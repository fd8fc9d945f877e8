"""The little we need to know of tar streams: how to make directories with one, and what the last entry of one was."""

import io
import tarfile
from collections.abc import AsyncIterator, Iterable
from typing import Final

from msgspec import Struct

from windlass.core.errors import Invalid

BLOCK: Final = 512
EXTENSION_MAX: Final = 1 << 20
_EXTENSIONS: Final = frozenset(b"xgLK")
_FILES: Final = frozenset(b"\x0007")
_DIRECTORY: Final = ord("5")


def directories(names: Iterable[str], *, mode: int) -> bytes:
    """A tar of directories, owned by root."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
    return out.getvalue()


class Entry(Struct, frozen=True):
    name: str
    size: int | None
    """Of a regular file; None for a directory."""


class LastEntry:
    """Looks on as a tar stream passes by, for its last file or directory. Unpacking goes in order: if that arrived whole, so
    did all before it."""

    def __init__(self) -> None:
        self.entry: Entry | None = None
        self.failure: Exception | None = None
        """Why the stream broke off at its source; to whoever sends it on it looks like the receiver's fault."""
        self._pending = b""
        self._skip = 0
        self._extension: int | None = None
        self._name: str | None = None
        self._size: int | None = None
        self._blanks = 0

    async def watch(self, tar: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Without what comes after the archive's end: a receiver that is done reads no more, and its pipe would break."""
        try:
            async for chunk in tar:
                belongs = self.feed(chunk)
                if belongs:
                    yield chunk if belongs == len(chunk) else chunk[:belongs]
        except Exception as exc:
            self.failure = exc
            raise

    def feed(self, chunk: bytes) -> int:
        """How many bytes of it belong to the archive."""
        if self._is_over:
            return 0
        if self._skip >= len(chunk) and not self._pending:  # inside a large file: nothing to see
            self._skip -= len(chunk)
            return len(chunk)
        data = self._pending + chunk
        at = 0
        while not self._is_over:
            step = min(self._skip, len(data) - at)
            at, self._skip = at + step, self._skip - step
            if self._skip or len(data) - at < BLOCK:
                break
            taken = self._block(data, at)
            if not taken:
                break
            at += taken
        before, self._pending = len(self._pending), data[at:]
        return at - before if self._is_over else len(chunk)

    @property
    def _is_over(self) -> bool:
        """Two blank blocks where a header should be."""
        return self._blanks == 2

    def _block(self, data: bytes, at: int) -> int:
        """Read the header at `at`; how many bytes were used, 0 when an extension's content is not all here yet."""
        header = data[at : at + BLOCK]
        if not header.strip(b"\0"):
            self._blanks += 1
            return BLOCK
        self._blanks = 0
        kind, size = header[156], _number(header[124:136])
        if kind in _EXTENSIONS:
            whole = BLOCK + _padded(size)
            if size > EXTENSION_MAX:
                raise Invalid("the archive has an entry name longer than any file system's", code="archive-header")
            if len(data) - at < whole:
                return 0
            self._extend(kind, data[at + BLOCK : at + BLOCK + size])
            return whole
        size = size if self._size is None else self._size
        # Links and directories have no content, whatever their size field says. Engines differ in how they look at links.
        if kind in _FILES or kind == _DIRECTORY:
            self.entry = Entry(self._name or _name(header), size if kind in _FILES else None)
        self._skip = _padded(size) if kind in _FILES else 0
        self._name = self._size = None
        return BLOCK

    def _extend(self, kind: int, content: bytes) -> None:
        if kind == ord("L"):
            self._name = content.rstrip(b"\0").decode("utf-8", "surrogateescape")
        while kind == ord("x") and content:
            length, _, _ = content.partition(b" ")
            if not length.isdigit() or not 0 < int(length) <= len(content):
                raise Invalid("the archive has a broken extended header", code="archive-header")
            record, content = content[len(length) + 1 : int(length) - 1], content[int(length) :]
            key, _, value = record.partition(b"=")
            if key == b"path":
                self._name = value.decode("utf-8", "surrogateescape")
            elif key == b"size" and value.isdigit():
                self._size = int(value)


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # too large for octal digits
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    digits = field.split(b"\0", 1)[0].strip()
    if not digits:
        return 0
    try:
        return int(digits, 8)
    except ValueError as exc:
        raise Invalid("this is no tar archive", code="archive-header") from exc


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0", 1)[0]
    prefix = header[345:500].split(b"\0", 1)[0] if header[257:263] == b"ustar\0" else b""
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "surrogateescape")


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
