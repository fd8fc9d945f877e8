"""A tar stream as it passes: members named in `skip` are left out, everything else goes through untouched.

Works on chunks of any size with constant memory. Only headers are looked at; a member whose name stands in an extension
header (pax, GNU long name) is never skipped, which costs bytes, not correctness.
"""

from typing import Final

_BLOCK: Final = 512
_EXTENSIONS: Final = frozenset(b"xgLK")
_EXTENSION_MAX: Final = 1 << 20


class BadArchive(ValueError):
    """The stream is no tar archive."""


class MemberFilter:
    """Feed chunks, get chunks. After the end-of-archive blocks everything is passed on as padding."""

    def __init__(self, skip: frozenset[str]) -> None:
        self._skip = skip
        self._partial = bytearray()
        """A header not yet complete, with the extension entries in front of it."""
        self._need = _BLOCK
        self._left = 0
        """Bytes of the current member's content (padded) still to come."""
        self._keeping = True
        self._ended = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """What of `chunk` (and of what was held back) goes on."""
        if not self._skip or self._ended:
            return [chunk]
        out: list[bytes] = []
        at = 0
        while at < len(chunk):
            if self._left:
                step = min(self._left, len(chunk) - at)
                if self._keeping:
                    out.append(chunk if step == len(chunk) else chunk[at : at + step])
                self._left -= step
            else:
                step = min(self._need - len(self._partial), len(chunk) - at)
                self._partial += chunk[at : at + step]
                if len(self._partial) == self._need:
                    self._header(out)
                if self._ended:
                    out.append(chunk[at + step :])
                    break
            at += step
        return out

    def _header(self, out: list[bytes]) -> None:
        header = self._partial[-_BLOCK:]
        if not any(header):
            self._ended = True
            self._release(out)
            return
        size = _size(header)
        if header[156] in _EXTENSIONS:
            self._need = len(self._partial) + _padded(size) + _BLOCK
            if self._need > _EXTENSION_MAX:
                raise BadArchive("an extension header larger than any name needs")
            return
        is_plain = len(self._partial) == _BLOCK
        self._keeping = not (is_plain and _name(header) in self._skip)
        self._left = _padded(size)
        if self._keeping:
            self._release(out)
        self._partial = bytearray()
        self._need = _BLOCK

    def _release(self, out: list[bytes]) -> None:
        out.append(bytes(self._partial))
        self._partial = bytearray()


def _name(header: bytearray) -> str:
    name = bytes(header[:100]).split(b"\0", 1)[0]
    prefix = bytes(header[345:500]).split(b"\0", 1)[0] if header[257:262] == b"ustar" else b""
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "replace")


def _size(header: bytearray) -> int:
    field = bytes(header[124:136])
    if field[0] & 0x80:  # GNU's binary form, for members of 8 GiB and more
        return int.from_bytes(field[1:], "big")
    text = field.strip(b"\0 ")
    try:
        return int(text, 8) if text else 0
    except ValueError as error:
        raise BadArchive("a member without a size") from error


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
