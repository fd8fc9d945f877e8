"""Logs of runs in files: a line per entry, `<time> <o|e><+|.|-> <text>`, in the order they were seen.

`+` marks an entry whose newline is still to come, `-` one that only says how many bytes of the stream were left out. The files
themselves are the checkpoint: after a crash a torn last entry is cut off, and what is left says exactly where the runtime's
stream is to be resumed. A file `<run>.sealed` says nothing more will come. What is too long for one file goes on in `parts`.
"""

import errno
import glob
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

from windlass.adapters.logs.parts import Part, bytes_in, parts_of
from windlass.core.errors import NotFound
from windlass.core.model.ids import JobId, RunId
from windlass.ports.logs import KEPT_HEAD_BYTES, KEPT_TAIL_BYTES, LogEntry
from windlass.ports.runtime import LogLine, LogPosition, Stream

_LETTER: Final = {Stream.STDOUT: b"o", Stream.STDERR: b"e"}
_STREAM: Final = {ord("o"): Stream.STDOUT, ord("e"): Stream.STDERR}
_WHOLE, _PARTIAL, _LEFT_OUT = b".", b"+", b"-"
_UUID_LENGTH: Final = 36
_CHUNK: Final = 1 << 18
_BYTES_MAX: Final = KEPT_HEAD_BYTES + KEPT_TAIL_BYTES
_TAIL_PARTS: Final = 2


class FileLogs:
    def __init__(self, directory: Path, *, bytes_max: int = _BYTES_MAX) -> None:
        """`bytes_max` of a run: half of it for its beginning, the other half for its end."""
        self._directory = directory
        self._bytes_max = bytes_max
        self._grown: dict[RunId, anyio.Event] = {}
        self._written: dict[RunId, anyio.Event] = {}
        """Set when its writer has left."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    @asynccontextmanager
    async def writer(self, run: RunId) -> AsyncIterator["FileLogWriter"]:
        head = self._path(run)
        part, held = await anyio.to_thread.run_sync(_repair, head)
        writer = FileLogWriter(self, run, head, part, held, self._bytes_max)
        left = self._written[run] = anyio.Event()
        try:
            yield writer
        finally:
            writer.close()
            left.set()
            if self._written.get(run) is left:
                del self._written[run]

    async def read(
        self, run: RunId, *, after: int = 0, follow: bool = False, tail: int | None = None
    ) -> AsyncIterator[LogEntry]:
        path = self._path(run)
        offset = after
        if tail is not None and after == 0:
            offset = await anyio.to_thread.run_sync(_offset_of_tail, path, tail)
        while True:
            grown = self._grown.setdefault(run, anyio.Event())
            is_sealed = self.is_sealed(run)
            async for entry in _entries(path, offset):
                offset = entry.offset
                yield entry
            if is_sealed or not follow:
                break
            await grown.wait()
            if not path.exists():
                return  # woken by its removal: there is nothing more to come
        if not follow and not path.exists():
            raise NotFound(f"run {run} has no log", code="log-absent")

    def is_there(self, run: RunId) -> bool:
        return self._path(run).exists()

    def is_sealed(self, run: RunId) -> bool:
        return self._sealed(run).exists()

    async def closed(self, run: RunId) -> None:
        if run in self._written:
            await self._written[run].wait()

    async def jobs(self) -> tuple[JobId, ...]:
        names = await anyio.to_thread.run_sync(os.listdir, self._directory)
        return tuple(sorted({JobId(name[:_UUID_LENGTH]) for name in names}))

    async def forget(self, job: JobId) -> None:
        await anyio.to_thread.run_sync(_remove_all, self._directory, f"{job}-")
        for run in [run for run in self._grown if run.startswith(f"{job}-")]:
            self._grown.pop(run).set()

    def _path(self, run: RunId) -> Path:
        return self._directory / f"{run}.log"

    def _sealed(self, run: RunId) -> Path:
        return self._directory / f"{run}.sealed"

    def notify(self, run: RunId, *, is_sealed: bool = False) -> None:
        if is_sealed:
            self._sealed(run).touch(mode=0o600)
        grown = self._grown.pop(run, None)
        if grown is not None:
            grown.set()


class FileLogWriter:
    """Writes to the newest part; when that is full, the next one begins, and of those behind the first the oldest goes."""

    def __init__(self, logs: FileLogs, run: RunId, head: Path, part: Part, held: LogPosition, bytes_max: int) -> None:
        self.position = held
        self._logs = logs
        self._run = run
        self._head = head
        self._head_max = bytes_max // 2
        self._part_max = bytes_max // 2 // _TAIL_PARTS
        self._part = part
        self._file = part.path.open("ab", buffering=0)
        self._size = part.size()
        self._in_head = bytes_in(part.position()) - part.left_out

    async def append(self, lines: Sequence[LogLine]) -> None:
        """Lines of one call go out in one write, as far as they fit one part, so that a reader sees whole entries."""
        if not lines:
            return
        frames, since, room = list[bytes](), 0, self._room()
        for index, line in enumerate(lines):
            frame = _frame(line)
            if room < len(frame) and self._size + sum(map(len, frames)) > 0:
                self._write(frames, lines[since:index])
                self._roll()
                frames, since, room = [], index, self._room()
            frames.append(frame)
            room -= len(frame)
        self._write(frames, lines[since:])
        self._logs.notify(self._run)

    def _room(self) -> int:
        return (self._head_max if self._part.start == 0 else self._part_max) - self._size

    def _write(self, frames: list[bytes], lines: Sequence[LogLine]) -> None:
        whole = b"".join(frames)
        if self._file.write(whole) != len(whole):  # the disk took a part: who goes on here would lose the rest
            raise OSError(errno.ENOSPC, "the log could not be written whole", str(self._part.path))
        self._size += len(whole)
        self.position = _advanced(self.position, lines)

    def _roll(self) -> None:
        self._file.close()
        if self._part.start == 0:
            self._in_head = bytes_in(self.position)
        self._part = Part.begun(self._head, self._part.start + self._size, self.position, in_head=self._in_head)
        self._file, self._size = self._part.path.open("ab", buffering=0), 0
        for old in parts_of(self._head)[1:-_TAIL_PARTS]:
            old.path.unlink(missing_ok=True)

    async def seal(self) -> None:
        self._logs.notify(self._run, is_sealed=True)

    async def tail(self, *, lines: int, characters: int) -> str:
        return await anyio.to_thread.run_sync(_tail_text, self._head, lines, characters)

    def close(self) -> None:
        self._file.close()


def _remove_all(directory: Path, prefix: str) -> None:
    for path in directory.glob(f"{glob.escape(prefix)}*"):
        path.unlink(missing_ok=True)


def _frame(line: LogLine) -> bytes:
    if line.left_out:
        return b"%s %s%s %d\n" % (line.at.encode(), _LETTER[line.stream], _LEFT_OUT, line.left_out)
    mark = _PARTIAL if line.is_partial else _WHOLE
    return b"%s %s%s %s\n" % (line.at.encode(), _LETTER[line.stream], mark, line.text)


def _line(raw: bytes) -> LogLine:
    at, kind, text = raw.split(b" ", 2)
    stream, mark = _STREAM[kind[0]], kind[1:]
    if mark == _LEFT_OUT:
        return LogLine(at=at.decode(), stream=stream, text=b"", left_out=int(text))
    return LogLine(at=at.decode(), stream=stream, text=text, is_partial=mark == _PARTIAL)


def _parse(raw: bytes, offset: int) -> LogEntry:
    line = _line(raw)
    if line.left_out:
        return _notice(line.left_out, line.at, offset)
    return LogEntry(offset=offset, at=line.at, stream=line.stream, text=line.text, is_partial=line.is_partial)


def _notice(left_out: int, at: str, offset: int) -> LogEntry:
    """Beside the output, not in it: whoever reads only what the job printed is not told by the job."""
    text = f"[windlass: {_size(left_out)} of its output left out here]".encode()
    return LogEntry(offset=offset, at=at, stream=Stream.STDERR, text=text)


def _size(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _whole_entries(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


async def _entries(head: Path, offset: int) -> AsyncIterator[LogEntry]:
    """Whole entries from `offset` to the end as it is now, past the parts that are gone. What is written meanwhile is not waited
    for: a reader would run after a quick writer for as long as that one goes on."""
    until = await anyio.to_thread.run_sync(_end_of, head)
    while offset < until:
        part, data = await anyio.to_thread.run_sync(_read_chunk, head, offset)
        whole = _whole_entries(data)
        if not whole:
            return
        if part.start > offset:  # what was there is gone
            yield _notice(part.left_out, whole.split(b" ", 1)[0].decode(), part.start)
            offset = part.start
        for raw in whole[:-1].split(b"\n"):
            offset += len(raw) + 1
            yield _parse(raw, offset)


def _end_of(head: Path) -> int:
    return max(part.end() for part in parts_of(head))


def _read_chunk(head: Path, offset: int) -> tuple[Part, bytes]:
    """At least one whole entry if there is one: an entry may be longer than a chunk. Of the part that has `offset`, or the next."""
    for part in parts_of(head):
        if part.end() > max(offset, part.start):
            try:
                return part, _read_part(part, max(offset, part.start))
            except FileNotFoundError:  # the oldest went while we looked: the next has what is left
                continue
    return Part(head, 0, 0), b""


def _read_part(part: Part, offset: int) -> bytes:
    size = _CHUNK
    with part.path.open("rb") as file:
        while True:
            file.seek(part.at(offset))
            data = file.read(size)
            if len(data) < size or b"\n" in data:
                return data
            size *= 2


def _advanced(held: LogPosition, lines: Sequence[LogLine]) -> LogPosition:
    """Where the runtime's stream is to be resumed once `lines` are held too."""
    last_at = held.last_at
    lines_at, bytes_of = Counter(held.lines_at_last), Counter(held.bytes_of)
    for line in lines:
        if line.at != last_at:
            last_at, lines_at = line.at, Counter()
        lines_at[line.stream] += not line.left_out
        bytes_of[line.stream] += line.left_out or len(line.text) + (not line.is_partial)
    count = held.lines + len(lines)
    return LogPosition(last_at=last_at, lines_at_last=dict(lines_at), bytes_of=dict(bytes_of), lines=count)


def _repair(head: Path) -> tuple[Part, LogPosition]:
    """Cut off a torn end of the newest part; say where its stream is to be resumed."""
    part = parts_of(head, repairs=True)[-1]
    held, whole = part.position(), part.at(part.start)
    if not part.path.exists():
        return part, held
    with part.path.open("r+b") as file:
        file.seek(whole)
        while batch := file.readlines(_CHUNK):
            complete = [raw for raw in batch if raw.endswith(b"\n")]
            whole += sum(map(len, complete))
            held = _advanced(held, [_line(raw[:-1]) for raw in complete])
        file.truncate(whole)
    return part, held


def _last_lines(head: Path, count: int) -> tuple[int, list[bytes]]:
    """The last `count` entries and the offset where they begin, read backwards."""
    kept, offset = list[bytes](), 0
    for part in reversed(parts_of(head)):
        try:
            offset, found = _last_of(part, count - len(kept))
        except FileNotFoundError:
            break
        kept = found + kept
        if len(kept) >= count:
            break
    return offset, kept


def _last_of(part: Part, count: int) -> tuple[int, list[bytes]]:
    """In chunks, from its end."""
    with part.path.open("rb") as file:
        least = part.at(part.start)
        start = file.seek(0, 2)
        data = b""
        while start > least and data.count(b"\n") <= count:
            step = min(_CHUNK, start - least)
            start -= step
            file.seek(start)
            data = file.read(step) + data
    lines = _whole_entries(data).split(b"\n")[:-1]
    kept = lines[-count:] if count else []
    dropped = sum(len(line) + 1 for line in lines[: len(lines) - len(kept)])
    return part.start + start - least + dropped, kept


def _offset_of_tail(path: Path, count: int) -> int:
    return _last_lines(path, count)[0]


def _tail_text(path: Path, lines: int, characters: int) -> str:
    _, kept = _last_lines(path, lines)
    text = "\n".join(_parse(raw, 0).text.decode("utf-8", "replace") for raw in kept)
    return text if len(text) <= characters else "…" + text[-(characters - 1) :]
