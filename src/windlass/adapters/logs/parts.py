"""A long log in parts: the first is `<run>.log`; those after it are `<run>.log.<offset>`, and of them only the newest are kept.

An offset counts the bytes of all entries that were ever written, so it stays true when parts go. A later part begins with a line
of its own, which no offset counts: where the runtime's streams stood at that point. So each part can be understood alone.
"""

import os
from pathlib import Path

from msgspec import DecodeError, Struct, json

from windlass.ports.runtime import LogPosition


class _Prelude(Struct, frozen=True, kw_only=True):
    held: LogPosition
    in_head: int
    """Bytes of output in the first part, which does not grow any more."""


class Part(Struct, frozen=True):
    path: Path
    start: int
    """The offset of its first entry."""
    prelude: int
    """Bytes of its first line."""
    left_out: int = 0
    """Bytes of output, all streams together, between the end of the first part and its beginning."""

    @staticmethod
    def begun(head: Path, start: int, held: LogPosition, *, in_head: int) -> "Part":
        path = head.with_name(f"{head.name}.{start:020}")
        line = json.encode(_Prelude(held=held, in_head=in_head)) + b"\n"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)
        return Part(path, start, len(line), bytes_in(held) - in_head)

    def at(self, offset: int) -> int:
        """Where in its file."""
        return offset - self.start + self.prelude

    def size(self) -> int:
        try:
            return self.path.stat().st_size - self.prelude
        except FileNotFoundError:
            return 0

    def end(self) -> int:
        return self.start + self.size()

    def position(self) -> LogPosition:
        """Where the streams stood at its beginning."""
        return _prelude(self.path)[0].held if self.prelude else LogPosition()


def parts_of(head: Path, *, repairs: bool = False) -> list[Part]:
    """In order; the first is there, or will be. One that a crash left without its first line has nothing in it, and may go."""
    found = [Part(head, 0, 0)]
    for path in sorted(head.parent.glob(f"{head.name}.*")):
        try:
            known, length = _prelude(path)
        except (FileNotFoundError, DecodeError):
            if repairs:
                path.unlink(missing_ok=True)
            continue
        start = int(path.name.rpartition(".")[2])
        found.append(Part(path, start, length, bytes_in(known.held) - known.in_head))
    return found


def bytes_in(held: LogPosition) -> int:
    return sum(held.bytes_of.values())


def _prelude(path: Path) -> tuple[_Prelude, int]:
    with path.open("rb") as file:
        line = file.readline()
    if not line.endswith(b"\n"):
        raise DecodeError(f"{path.name} has no first line")
    return json.decode(line, type=_Prelude), len(line)
