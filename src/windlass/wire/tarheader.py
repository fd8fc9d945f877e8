"""tar, read and written a block at a time: ustar, the long names of GNU tar, and pax records.

Only what `archives` can judge comes out: entries of three kinds, and the bytes of files. Everything else in an archive (hard
links, devices, sparse files, records we do not know) is either refused or has no effect.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from windlass.core.errors import Invalid
from windlass.wire.faults import show

BLOCK: Final = 512
_EXTENSION_MAX: Final = 64 * 1024
"""Bytes of a long name or of pax records."""
_SIZE_MAX: Final = 1 << 50
_MTIME_MAX: Final = 1 << 34
_OCTAL: Final = re.compile(rb" *([0-7]*)[ \0]*")
_PAX_LENGTH_DIGITS: Final = 6
_USTAR_NAME: Final = 100
_USTAR_SIZE_MAX: Final = 0o77777777777


class Kind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"


class Entry(Struct, frozen=True, kw_only=True):
    path: str
    kind: Kind
    size: int = 0
    is_executable: bool = False
    mtime: int = 0
    target: str = ""


_KINDS: Final = {b"0": Kind.FILE, b"\0": Kind.FILE, b"7": Kind.FILE, b"5": Kind.DIRECTORY, b"2": Kind.LINK}
_REFUSED: Final = {
    b"1": "hard links", b"3": "device files", b"4": "device files", b"6": "named pipes", b"S": "sparse files",
}  # fmt: skip


class TarReader:
    """Feed it bytes; it gives each Entry, then its file's bytes padded to whole blocks, as they come."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._left = 0
        """Bytes of the present file still to come, padding included."""
        self._extension: tuple[bytes, int] | None = None
        self._long: dict[str, str] = {}
        self._global: dict[str, str] = {}
        self._zero_blocks = 0
        self._file_left = 0

    def feed(self, chunk: bytes) -> Iterator[Entry | bytes]:
        self._buffer += chunk
        while self._buffer:
            if self._left:
                yield self._take_body()
            elif self._extension is not None:
                if not self._take_extension():
                    return
            elif len(self._buffer) < BLOCK:
                return
            else:
                entry = self._take_header()
                if entry is not None:
                    yield entry

    def finish(self) -> None:
        """Invalid unless the archive was whole: a connection that broke must not look like a shorter archive."""
        if self._buffer or self._left or self._extension is not None or self._long:
            raise Invalid("the archive ends in the middle", code="archive")
        if self._zero_blocks == 0:
            raise Invalid("the archive has no end mark", code="archive")

    def _take_body(self) -> bytes:
        """File bytes as they are, the padding as zeros whatever was sent."""
        size = min(self._left, len(self._buffer))
        piece = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._left -= size
        data = piece[: self._file_left]
        self._file_left -= len(data)
        return data + bytes(size - len(data))

    def _take_extension(self) -> bool:
        assert self._extension is not None
        kind, size = self._extension
        whole = size + padding(size)
        if len(self._buffer) < whole:
            return False
        data = bytes(self._buffer[:size])
        del self._buffer[:whole]
        self._extension = None
        if kind == b"L":
            self._long["path"] = _text(data.split(b"\0", 1)[0])
        elif kind == b"K":
            self._long["linkpath"] = _text(data.split(b"\0", 1)[0])
        elif kind == b"x":
            self._long |= _pax(data)
        else:
            self._global |= {key: value for key, value in _pax(data).items() if key == "mtime"}
        return True

    def _take_header(self) -> Entry | None:
        block = bytes(self._buffer[:BLOCK])
        del self._buffer[:BLOCK]
        if not block.strip(b"\0"):
            self._zero_blocks += 1
            return None
        if self._zero_blocks:
            raise Invalid("something follows the end of the archive", code="archive")
        _check_sum(block)
        kind = block[156:157]
        if kind in (b"L", b"K", b"x", b"g"):
            self._begin_extension(kind, _number(block[124:136]))
            return None
        return self._entry(block, kind)

    def _begin_extension(self, kind: bytes, size: int) -> None:
        if size > _EXTENSION_MAX:
            raise Invalid(f"a record of the archive has more than {_EXTENSION_MAX} bytes", code="archive")
        self._extension = (kind, size)

    def _entry(self, block: bytes, kind: bytes) -> Entry:
        extra, self._long = self._global | self._long, {}
        path = extra.get("path") or _ustar_path(block)
        if kind not in _KINDS or any(key.startswith("GNU.sparse.") for key in extra):
            what = _REFUSED.get(kind, "sparse files" if kind in _KINDS else "entries of that type")
            raise Invalid(f"“{show(path)}” in the archive: {what} are not taken", code="archive")
        # Old archives mark a directory by the slash at the end of its name alone.
        found = Kind.DIRECTORY if _KINDS[kind] is Kind.FILE and path.endswith("/") else _KINDS[kind]
        size = _pax_number(extra["size"]) if "size" in extra else _number(block[124:136])
        if found is not Kind.FILE and size:
            raise Invalid(f"“{show(path)}” in the archive: only files have bytes", code="archive")
        self._file_left, self._left = size, size + padding(size)
        return Entry(
            path=path,
            kind=found,
            size=size,
            is_executable=bool(_number(block[100:108]) & 0o111),
            mtime=_mtime(extra.get("mtime"), block),
            target=(extra.get("linkpath") or _text(block[157:257].split(b"\0", 1)[0])) if found is Kind.LINK else "",
        )


def write_header(entry: Entry, path: str) -> bytes:
    """Ours alone: owner 0, plain modes, a pax record where ustar has no room."""
    name = f"{path}/" if entry.kind is Kind.DIRECTORY else path
    records = {}
    if len(name.encode()) > _USTAR_NAME or not name.isascii():
        records["path"] = name
    if len(entry.target.encode()) > _USTAR_NAME or not entry.target.isascii():
        records["linkpath"] = entry.target
    if entry.size > _USTAR_SIZE_MAX:
        records["size"] = str(entry.size)
    extension = b"".join(_pax_record(key, value) for key, value in records.items())
    head = b""
    if extension:
        head = _block(b"pax", b"x", size=len(extension)) + extension + bytes(padding(len(extension)))
    flag = {Kind.FILE: b"0", Kind.DIRECTORY: b"5", Kind.LINK: b"2"}[entry.kind]
    # Open to all: the volume is the job's alone, and its image may run as anybody.
    mode = 0o777 if entry.is_executable or entry.kind is not Kind.FILE else 0o666
    size = 0 if "size" in records else entry.size
    return head + _block(name.encode(), flag, size=size, mode=mode, mtime=entry.mtime, target=entry.target.encode())


def end_of_archive() -> bytes:
    return bytes(2 * BLOCK)


def padding(size: int) -> int:
    return -size % BLOCK


def _block(name: bytes, flag: bytes, *, size: int, mode: int = 0o644, mtime: int = 0, target: bytes = b"") -> bytes:
    def octal(value: int, width: int) -> bytes:
        return b"%0*o\0" % (width - 1, value)

    fields = (
        name[:_USTAR_NAME].ljust(_USTAR_NAME, b"\0")
        + octal(mode, 8) + octal(0, 8) + octal(0, 8)
        + octal(size, 12) + octal(min(mtime, _USTAR_SIZE_MAX), 12)
        + b" " * 8 + flag
        + target[:_USTAR_NAME].ljust(_USTAR_NAME, b"\0")
        + b"ustar\x0000"
    ).ljust(BLOCK, b"\0")  # fmt: skip
    return fields[:148] + b"%06o\0 " % sum(fields) + fields[156:]


def _pax_record(key: str, value: str) -> bytes:
    body = f" {key}={value}\n".encode()
    size = len(body) + len(str(len(body)))
    size = len(body) + len(str(size))
    return str(size).encode() + body


def _ustar_path(block: bytes) -> str:
    name = block[:100].split(b"\0", 1)[0]
    prefix = block[345:500].split(b"\0", 1)[0] if block[257:263] == b"ustar\0" else b""
    return _text(prefix + b"/" + name if prefix else name)


def _check_sum(block: bytes) -> None:
    said = _number(block[148:156])
    plain = block[:148] + b" " * 8 + block[156:]
    if said == sum(plain):
        return
    # Some old writers summed signed characters.
    if said != sum(byte - 256 if byte > 127 else byte for byte in plain):
        raise Invalid("not a tar archive: a header's checksum is wrong", code="archive")


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    else:
        match = _OCTAL.fullmatch(field)
        if match is None:
            raise Invalid("a number in the archive is not octal", code="archive")
        value = int(match[1] or b"0", 8)
    if value > _SIZE_MAX:
        raise Invalid("a number in the archive is out of range", code="archive")
    return value


def _mtime(pax: str | None, block: bytes) -> int:
    """Whole seconds, never negative; what cannot be read counts as the beginning of time, as it decides nothing."""
    if pax is not None:
        whole = pax.partition(".")[0]
        value = int(whole) if whole.isascii() and whole.isdigit() and len(whole) < 12 else 0
    else:
        match = _OCTAL.fullmatch(block[136:148])
        value = int(match[1] or b"0", 8) if match else 0
    return min(value, _MTIME_MAX)


def _pax(data: bytes) -> dict[str, str]:
    """`<length> <key>=<value>\\n`, one after another."""
    records = {}
    while data:
        digits, space, _ = data[: _PAX_LENGTH_DIGITS + 1].partition(b" ")
        if not space or not digits.isdigit():
            raise Invalid("a pax record of the archive has no length", code="archive")
        record, data = data[: int(digits)], data[int(digits) :]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if len(record) != int(digits) or record[-1:] != b"\n" or not equals or not key:
            raise Invalid("a pax record of the archive is damaged", code="archive")
        if key in (b"path", b"linkpath", b"size", b"mtime") or key.startswith(b"GNU.sparse."):
            records[_text(key)] = _text(value)
    return records


def _pax_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 16:
        raise Invalid("a number in the archive is out of range", code="archive")
    return int(text)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid("a name in the archive is not UTF-8", code="archive") from None
