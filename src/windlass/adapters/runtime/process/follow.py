"""Following a run's output files: woken by inotify on its directory, resumed by byte, ended by its journal.

The files are the workload's own; nobody stands between. So a line's time is when its file was last written to as we read it
(after the end: at all), and the two streams are each in order, while their order between each other is by those times.
"""

import contextlib
import ctypes
import os
import struct
import time
from collections.abc import AsyncIterator

import anyio
from msgspec import Struct

from windlass.adapters.runtime.process import journal, trim
from windlass.ports.logs import ENTRY_BYTES, KEPT_HEAD_BYTES, KEPT_TAIL_BYTES
from windlass.ports.runtime import LogLine, LogPosition, Stream

_READ = 1 << 18
_LINE_MAX = 1 << 16
"""A longer line is yielded in parts."""
_POLL_SECONDS = 0.05
"""Where inotify cannot be had."""
_LOOK_ANYWAY_SECONDS = 1.0
_WATCHED = 0x2 | 0x80 | 0x100 | 0x400 | 0x800  # modified, moved in, created, itself deleted or moved
_LIVE_BYTES = 1 << 20
_LIVE_SECONDS = 2.0
"""Past its limit, a run that writes faster than this is followed by its end only: who watches sees that it goes on, and the
server has other things to do than to count its lines."""


class _Found(Struct, frozen=True):
    at: str
    stream: Stream
    text: bytes
    is_partial: bool = False
    left_out: int = 0


_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """One descriptor for all the followers of a runtime. `run` must be running for `changed` to be prompt."""

    def __init__(self) -> None:
        self._fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watches: dict[int, anyio.Event] = {}
        self._counts: dict[int, int] = {}

    async def run(self) -> None:
        while self._fd >= 0:
            await anyio.wait_readable(self._fd)
            data, at = os.read(self._fd, 65_536), 0
            while at < len(data):
                watch, _, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                if watch in self._watches:
                    self._watches[watch].set()

    def add(self, directory: str) -> int:
        """A watch, or -1 where there is none to be had: then `changed` polls."""
        watch = _libc.inotify_add_watch(self._fd, os.fsencode(directory), _WATCHED) if self._fd >= 0 else -1
        if watch >= 0:
            self._counts[watch] = self._counts.get(watch, 0) + 1
            self._watches.setdefault(watch, anyio.Event())
        return watch

    def remove(self, watch: int) -> None:
        if watch < 0:
            return
        self._counts[watch] -= 1
        if self._counts[watch] == 0:
            del self._counts[watch], self._watches[watch]
            _libc.inotify_rm_watch(self._fd, watch)

    def armed(self, watch: int) -> anyio.Event | None:
        """Take it before looking at the files, wait for it after: nothing written in between is missed."""
        if watch < 0:
            return None
        if self._watches[watch].is_set():
            self._watches[watch] = anyio.Event()
        return self._watches[watch]

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


async def changed(event: anyio.Event | None) -> None:
    if event is None:
        await anyio.sleep(_POLL_SECONDS)
        return
    with anyio.move_on_after(_LOOK_ANYWAY_SECONDS):
        await event.wait()


async def follow(directory: str, inotify: Inotify, *, after: LogPosition) -> AsyncIterator[LogLine]:
    given = _Given(after)
    tails = [_Tail(directory, stream, after.bytes_of.get(stream, 0), given) for stream in Stream]
    watch = inotify.add(directory)
    last_at = after.last_at
    try:
        while True:
            event = inotify.armed(watch)
            is_over = _is_over(directory)  # before reading: what was written by then will be read
            found = await anyio.to_thread.run_sync(_read_round, tails, is_over)
            for one in found:
                last_at = max(last_at, one.at)  # never backwards, so that a position is a position
                yield LogLine(
                    at=last_at, stream=one.stream, text=one.text, is_partial=one.is_partial, left_out=one.left_out
                )
            if is_over and not found:
                return
            if any(tail.has_skipped for tail in tails) and not is_over:
                await anyio.sleep(_LIVE_SECONDS)
            elif not found:
                await changed(event)
    finally:
        inotify.remove(watch)
        for tail in tails:
            tail.close()


class _Given:
    """How much of a log its reader has, both streams together, counted as logs are."""

    def __init__(self, after: LogPosition) -> None:
        self._bytes = sum(after.bytes_of.values()) + ENTRY_BYTES * after.lines

    def add(self, lines: list[tuple[bytes, bool]]) -> None:
        self._bytes += sum(len(text) for text, _ in lines) + ENTRY_BYTES * len(lines)

    @property
    def has_head(self) -> bool:
        return self._bytes >= KEPT_HEAD_BYTES


class _Tail:
    """One stream's file from an offset on, cut into lines."""

    def __init__(self, directory: str, stream: Stream, offset: int, given: _Given) -> None:
        self.stream = stream
        self._given = given
        self._is_near_end = False
        self.has_skipped = False
        """In the last round, what nobody could have followed."""
        self._path = f"{directory}/{stream.value}"
        self._offset = offset
        self._rest = b""
        self._is_torn = False
        """The line that comes next begins in what was left out."""
        self._left_out = 0
        self._fd = -1

    def modified(self) -> int:
        """When it was last written to, in nanoseconds; 0 while it is not there."""
        return os.fstat(self._fd).st_mtime_ns if self._open() else 0

    def read(self, *, is_over: bool) -> list[_Found]:
        """Complete lines, parts of overlong ones, and once nothing can follow any more, the last line as it stands."""
        cut: list[tuple[bytes, bool]] = []
        self.has_skipped = not is_over and self._skip_to_the_end()
        if is_over and self._given.has_head:
            self._skip_what_is_not_kept()
        while not cut and (data := self._read()):
            *lines, self._rest = (self._rest + data).split(b"\n")
            cut = [(line, False) for line in lines]
            if len(self._rest) >= _LINE_MAX:
                cut.append((self._rest, True))
                self._rest = b""
        if not cut and is_over and self._rest:
            cut.append((self._rest, True))
            self._rest = b""
        self._given.add(cut)
        at = _timestamp(self.modified())
        found = [_Found(at, self.stream, text, is_partial) for text, is_partial in cut]
        if self._left_out and (found or is_over):
            found.insert(0, _Found(at, self.stream, b"", left_out=self._left_out))
            self._left_out = 0
        return found

    def _skip_to_the_end(self) -> bool:
        if not self._open() or self._offset < trim.HEAD_BYTES:
            return False
        size = os.fstat(self._fd).st_size
        if size <= trim.HEAD_BYTES + trim.TAIL_BYTES or size - self._offset <= _LIVE_BYTES:
            return False
        self._leave_out(size - _LIVE_BYTES)
        return True

    def _skip_what_is_not_kept(self) -> None:
        """Once: nothing is written any more, so the place is found for good."""
        if self._is_near_end or not self._open():
            return
        self._is_near_end = True
        begin = _kept_end(self._fd, self._offset)
        if begin > self._offset:
            self._leave_out(begin)

    def _leave_out(self, until: int) -> None:
        """With the piece of a line that was read already, and the piece that will be found there."""
        self._left_out += until - self._offset + len(self._rest)
        self._offset, self._rest, self._is_torn = until, b"", True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> bool:
        if self._fd < 0:
            with contextlib.suppress(FileNotFoundError):
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return self._fd >= 0

    def _read(self) -> bytes:
        """Past what was left out, and from the next whole line on."""
        if not self._open():
            return b""
        while data := os.pread(self._fd, _READ, self._offset):
            hole = trim.hole_in(self._fd, self._offset, self._offset + len(data))
            if hole is not None and hole[0] <= self._offset:
                self._leave_out(hole[1])
                continue
            if hole is not None:
                data = data[: hole[0] - self._offset]
            self._offset += len(data)
            if self._is_torn:
                data = self._from_next_line(data)
            if data:
                return data
        return b""

    def _from_next_line(self, data: bytes) -> bytes:
        torn, newline, rest = data.partition(b"\n")
        if not newline and len(data) >= _LINE_MAX:  # a line without an end, or no lines at all: as it comes, then
            self._is_torn = False
            return data
        self._left_out += len(torn) + len(newline)
        self._is_torn = not newline
        return rest


def _kept_end(fd: int, least: int) -> int:
    """Where what is kept of a file's end begins, read backwards, but not before `least`: lines are counted, not looked at."""
    at, room = os.fstat(fd).st_size, KEPT_TAIL_BYTES
    while at > least and room > 0:
        step = min(_READ, at - least)
        at -= step
        data = os.pread(fd, step, at)
        room -= len(data) + ENTRY_BYTES * data.count(b"\n")
    return at


def _read_round(tails: list[_Tail], is_over: bool) -> list[_Found]:
    """Once it is over, one stream to its end and then the other: so every reading has the same order and the same times."""
    found: list[_Found] = []
    for tail in sorted(tails, key=_Tail.modified):
        found += tail.read(is_over=is_over)
        if found and is_over:
            break
    return found


def _is_over(directory: str) -> bool:
    """Ended, or removed under our eyes: what is open can still be read to its end."""
    known = journal.read(directory)
    return known is None or "exit" in known


def _timestamp(nanoseconds: int) -> str:
    """RFC 3339, UTC, nanoseconds: what `datetime` cannot hold."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"
