"""The engine's way of sending stdout and stderr down one connection: eight bytes of header, then so many bytes of one stream."""

import struct
from typing import Final

from windlass.ports.runtime import Stream

_HEADER: Final = struct.Struct(">B3xI")


class Frames:
    """Bytes in as they come, whole frames out. Kept without awaiting inside, because a chatty job sends thousands at once."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> list[tuple[Stream, bytes]]:
        data = self._pending + data if self._pending else data
        frames: list[tuple[Stream, bytes]] = []
        at, size = 0, len(data)
        while size - at >= 8:
            kind, length = _HEADER.unpack_from(data, at)
            end = at + 8 + length
            if end > size:
                break
            frames.append((Stream.STDERR if kind == 2 else Stream.STDOUT, data[at + 8 : end]))
            at = end
        self._pending = data[at:]
        return frames
