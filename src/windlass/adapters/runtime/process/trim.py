"""A run's output files kept within bounds: their head and their tail stay, the middle is given back to the disk.

The workload writes to its files itself and nobody stands between, so the files cannot be rotated. But a hole can be made in
them: their bytes keep their places, so whoever follows resumes where it was, and the hole itself is the record of what was left
out. Standard library only; it runs in the executor, and so goes on when the server is killed.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterable

HEAD_BYTES = 50 << 20
TAIL_BYTES = 50 << 20
"""Of each stream. What is no longer than both together is never touched."""
LOOK_SECONDS = 0.25
"""What a run may write between two looks comes on top, for so long."""
_GRAIN = 1 << 20
"""Holes begin and end at multiples of this: a file system gives back whole blocks only, and may have large ones."""
_KEEP_SIZE, _PUNCH_HOLE = 0x1, 0x2
_libc = ctypes.CDLL(None, use_errno=True)


class Trimmer:
    """Remembers how far each file's hole goes, so that nothing is freed twice."""

    def __init__(self, *, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head, self._tail = head, tail
        self._freed: dict[str, int] = {}
        self._is_able = True

    def look(self, directories: Iterable[str]) -> None:
        for directory in directories:
            for stream in ("stdout", "stderr"):
                self._trim(f"{directory}/{stream}")

    def forget(self, directory: str) -> None:
        for stream in ("stdout", "stderr"):
            self._freed.pop(f"{directory}/{stream}", None)

    def _trim(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            size = os.stat(path).st_size
            start = self._freed.get(path, self._head)
            end = (size - self._tail) // _GRAIN * _GRAIN
            if self._is_able and end >= start + _GRAIN:
                self._free(path, start, end)
                self._freed[path] = end

    def _free(self, path: str, start: int, end: int) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            if _libc.fallocate(fd, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_long(start), ctypes.c_long(end - start)) != 0:
                self._is_able = False
                said = os.strerror(ctypes.get_errno())
                print(f"windlass executor: the output of runs is not bounded here: {said}", file=sys.stderr)
        finally:
            os.close(fd)


def hole_in(fd: int, start: int, end: int) -> tuple[int, int] | None:
    """Where output was left out between `start` and `end`: from where, to where there is some again.

    Ask after reading: what was read before a hole came is as good as what is there, and what was read in one is zeros."""
    try:
        begins = os.lseek(fd, start, os.SEEK_HOLE)
    except OSError:  # at the end, or beyond it
        return None
    if begins >= end:
        return None
    try:
        return begins, os.lseek(fd, begins, os.SEEK_DATA)
    except OSError:
        return None  # the end of the file is a hole, too
