"""The bytes of an interactive session (attach, exec, debug) after its first line. Used by both sides: standard library only.

A frame is a kind (1 byte), a length (4 bytes, big-endian) and that many bytes.
"""

import struct

HEADER = struct.Struct(">BI")
SIZE = struct.Struct(">HH")
CODE = struct.Struct(">i")
LENGTH_MAX = 1 << 20

# from the client
DATA = 0
CLOSE_INPUT = 1
RESIZE = 2
# to the client
STDOUT = 1
STDERR = 2
EXITED = 3


class Corrupt(Exception):
    """The peer does not speak this."""


def encode(kind: int, data: bytes = b"") -> bytes:
    return HEADER.pack(kind, len(data)) + data


class Decoder:
    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The frames completed by `data`."""
        self._buffer += data
        found: list[tuple[int, bytes]] = []
        while len(self._buffer) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._buffer)
            if length > LENGTH_MAX:
                raise Corrupt
            if len(self._buffer) < HEADER.size + length:
                break
            found.append((kind, bytes(self._buffer[HEADER.size : HEADER.size + length])))
            del self._buffer[: HEADER.size + length]
        return found
