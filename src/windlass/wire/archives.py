"""An uploaded tar at the door: read as it comes, judged entry by entry, written anew in one canonical form.

What passes are regular files, directories and symbolic links that stay inside, by construction and not by trust: every header
of the output is ours. No path is absolute or climbs; no entry lies below a link or a file; a link's target climbs only at its
beginning and never above the root, so that whoever follows it, through whatever other links, stays inside. Names, numbers
and sizes are bounded, and so is what a compressed archive may grow into.

Sans-I/O: `feed` takes bytes and gives bytes; nothing is ever held whole but a header.
"""

import zlib
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from windlass.core.errors import Invalid, TooLarge
from windlass.wire.faults import show
from windlass.wire.names import read_parts
from windlass.wire.tarheader import BLOCK, Entry, Kind, TarReader, end_of_archive, write_header

_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_PIECE: Final = 1 << 20


class ArchiveLimits(Struct, frozen=True, kw_only=True):
    bytes_max: int = 16 << 30
    """Of all files together, unpacked."""
    entries_max: int = 200_000
    names_bytes_max: int = 32 << 20
    """Of all paths together: they are remembered until the end."""
    ratio_max: int = 200
    """How many times its compressed size an archive may have, beyond `ratio_free_bytes`."""
    ratio_free_bytes: int = 64 << 20


class ArchiveFilter:
    """Feed it the upload, write what it returns; `finish` says whether that was all of an archive."""

    def __init__(self, limits: ArchiveLimits | None = None) -> None:
        self._limits = limits or ArchiveLimits()
        self._reader = TarReader()
        self._inflater: _Inflater | None = None
        self._head = b""
        self._is_begun = False
        self._names = _Names(self._limits)
        self._file_bytes = 0
        self.entries = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Pieces of the canonical archive that this chunk completes, none much over a MiB however much it unpacks to.
        To be exhausted before the next chunk. Raises Invalid (code `archive`) or TooLarge."""
        pieces: list[bytes] = []
        size = 0
        for piece in self._process(chunk):
            pieces.append(piece)
            size += len(piece)
            if size >= _PIECE:
                yield b"".join(pieces)
                pieces, size = [], 0
        if pieces:
            yield b"".join(pieces)

    def finish(self) -> bytes:
        """The last bytes; Invalid unless what was fed was an archive, and all of it."""
        if not self._is_begun:
            raise Invalid("the archive is empty", code="archive")
        if self._inflater is not None:
            self._inflater.finish()
        self._reader.finish()
        return end_of_archive()

    def _process(self, chunk: bytes) -> Iterator[bytes]:
        if not self._is_begun:
            self._head += chunk
            if len(self._head) < len(_GZIP_MAGIC):
                return
            self._begin()
            chunk, self._head = self._head, b""
        if self._inflater is None:
            yield from self._tar(chunk)
            return
        for plain in self._inflater.inflate(chunk):
            yield from self._tar(plain)

    def _begin(self) -> None:
        self._is_begun = True
        if self._head[:2] == _GZIP_MAGIC:
            self._inflater = _Inflater(self._limits)

    def _tar(self, plain: bytes) -> Iterator[bytes]:
        for item in self._reader.feed(plain):
            yield self._accept(item) if isinstance(item, Entry) else item

    def _accept(self, entry: Entry) -> bytes:
        self.entries += 1
        if self.entries > self._limits.entries_max:
            raise TooLarge(f"the archive has more than {self._limits.entries_max} entries")
        self._file_bytes += entry.size
        if self._file_bytes > self._limits.bytes_max:
            raise TooLarge(f"the archive's files have more than {self._limits.bytes_max} bytes")
        parts = self._names.accept(entry)
        # Without parts it is the root itself, which is there already.
        return write_header(entry, "/".join(parts)) if parts else b""


class _Names:
    """Which paths there are, so that none is given twice and none lies below something that is no directory."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._limits = limits
        self._kinds: dict[str, Kind] = {}
        self._bytes = 0

    def accept(self, entry: Entry) -> tuple[str, ...]:
        parts = _parts(entry)
        if not parts:
            if entry.kind is not Kind.DIRECTORY:
                raise _refusal(entry, "the root of the archive must be a directory")
            return ()
        path = "/".join(parts)
        self._check_place(entry, parts, path)
        self._remember(path, entry.kind)
        if entry.kind is Kind.LINK:
            _check_target(entry, parts)
        return parts

    def _check_place(self, entry: Entry, parts: tuple[str, ...], path: str) -> None:
        for depth in range(1, len(parts)):
            above = "/".join(parts[:depth])
            if self._kinds.get(above, Kind.DIRECTORY) is not Kind.DIRECTORY:
                raise _refusal(entry, "lies below something that is no directory")
            self._remember(above, Kind.DIRECTORY)
        known = self._kinds.get(path)
        if known is not None and not (known is entry.kind is Kind.DIRECTORY):
            raise _refusal(entry, "is in the archive twice")

    def _remember(self, path: str, kind: Kind) -> None:
        if path in self._kinds:
            return
        self._bytes += len(path)
        if self._bytes > self._limits.names_bytes_max:
            raise TooLarge("the paths in the archive are too many and too long")
        self._kinds[path] = kind


class _Inflater:
    """gzip, member after member, with a bound on how much may come of how little."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._limits = limits
        self._stream = zlib.decompressobj(_GZIP_WINDOW)
        self._bytes_in = 0
        self._bytes_out = 0
        self._is_padding = False

    def inflate(self, chunk: bytes) -> Iterator[bytes]:
        self._bytes_in += len(chunk)
        while chunk:
            if self._stream.eof:
                chunk = self._next_member(chunk)
                continue
            try:
                plain = self._stream.decompress(chunk, _PIECE)
            except zlib.error:
                raise Invalid("the upload is not a whole gzip stream", code="archive") from None
            self._count(len(plain))
            if plain:
                yield plain
            chunk = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail

    def finish(self) -> None:
        if not self._stream.eof:
            raise Invalid("the gzip stream ends too early", code="archive")

    def _next_member(self, chunk: bytes) -> bytes:
        """After a member only another one, or zeros to the end."""
        if self._is_padding or chunk[:1] == b"\0":
            self._is_padding = True
            if chunk.strip(b"\0"):
                raise Invalid("something follows the gzip stream", code="archive")
            return b""
        self._stream = zlib.decompressobj(_GZIP_WINDOW)
        return chunk

    def _count(self, size: int) -> None:
        self._bytes_out += size
        limits = self._limits
        if self._bytes_out > limits.bytes_max + limits.entries_max * 2 * BLOCK:
            raise TooLarge("the archive unpacks to more than is taken", code="archive-bomb")
        if self._bytes_out > limits.ratio_free_bytes and self._bytes_out > self._bytes_in * limits.ratio_max:
            raise TooLarge(f"the archive unpacks to more than {limits.ratio_max} times its size", code="archive-bomb")


def _parts(entry: Entry) -> tuple[str, ...]:
    """`./a//b/` is what tar itself writes for a/b; anything that climbs or begins at the root is refused."""
    if entry.path.startswith("/"):
        raise _refusal(entry, "its path is absolute")
    path = "/".join(part for part in entry.path.split("/") if part not in ("", "."))
    try:
        return read_parts(path, may_be_empty=True)
    except ValueError as exc:
        raise _refusal(entry, str(exc)) from None


def _check_target(entry: Entry, parts: tuple[str, ...]) -> None:
    target = entry.target
    if not target or target.startswith("/"):
        raise _refusal(entry, "a link must lead to a relative path")
    steps = [step for step in target.split("/") if step not in ("", ".")]
    climbs = next((number for number, step in enumerate(steps) if step != ".."), len(steps))
    if climbs > len(parts) - 1 or ".." in steps[climbs:]:
        raise _refusal(entry, "a link may not lead out of the archive")
    try:
        read_parts("/".join(steps[climbs:]), may_be_empty=True)
    except ValueError as exc:
        raise _refusal(entry, f"its link: {exc}") from None


def _refusal(entry: Entry, why: str) -> Invalid:
    return Invalid(f"“{show(entry.path)}” in the archive: {why}", code="archive")
