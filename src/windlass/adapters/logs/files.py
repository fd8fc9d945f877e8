"""Logs of runs in files, one per run: a line per entry, `<time> <o|e><+|.> <text>`, in the order they were seen.

`+` marks an entry whose newline is still to come. The file itself is the checkpoint: after a crash a torn last entry is cut
off, and what is left says exactly where the runtime's stream is to be resumed. A file `<run>.sealed` says nothing more will come.
"""

import glob
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

from windlass.core.errors import NotFound
from windlass.core.model.ids import JobId, RunId
from windlass.ports.logs import LogEntry
from windlass.ports.runtime import LogLine, LogPosition, Stream

_LETTER: Final = {Stream.STDOUT: b"o", Stream.STDERR: b"e"}
_STREAM: Final = {ord("o"): Stream.STDOUT, ord("e"): Stream.STDERR}
_UUID_LENGTH: Final = 36
_CHUNK: Final = 1 << 18
_BYTES_MAX: Final = 100 << 20


class FileLogs:
    def __init__(self, directory: Path, *, bytes_max: int = _BYTES_MAX) -> None:
        self._directory = directory
        self._bytes_max = bytes_max
        self._grown: dict[RunId, anyio.Event] = {}
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    @asynccontextmanager
    async def writer(self, run: RunId) -> AsyncIterator["FileLogWriter"]:
        path = self._path(run)
        held = await anyio.to_thread.run_sync(_repair, path)
        writer = FileLogWriter(self, run, path, held, self._bytes_max)
        try:
            yield writer
        finally:
            writer.close()

    async def read(
        self, run: RunId, *, after: int = 0, follow: bool = False, tail: int | None = None
    ) -> AsyncIterator[LogEntry]:
        path = self._path(run)
        offset = after
        if tail is not None and after == 0:
            offset = await anyio.to_thread.run_sync(_offset_of_tail, path, tail)
        while True:
            grown = self._grown.setdefault(run, anyio.Event())
            is_sealed = self._sealed(run).exists()
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
    def __init__(self, logs: FileLogs, run: RunId, path: Path, held: LogPosition, bytes_max: int) -> None:
        self.position = held
        self._logs = logs
        self._run = run
        self._path = path
        self._file = path.open("ab", buffering=0)
        self._left = bytes_max - self._file.tell()

    async def append(self, lines: Sequence[LogLine]) -> None:
        """Lines of one call go out in one write, so that a reader sees whole entries."""
        kept = b"".join(map(_frame, lines))
        if self._left <= 0 or not lines:
            self.position = _advanced(self.position, lines)
            return
        if len(kept) > self._left:
            at = lines[-1].at
            notice = LogLine(
                at=at, stream=Stream.STDERR, text=b"[windlass: the log has reached its limit; the rest is dropped]"
            )
            kept = _whole_entries(kept[: self._left]) + _frame(notice)
            self._left = 0
        else:
            self._left -= len(kept)
        self._file.write(kept)
        self.position = _advanced(self.position, lines)
        self._logs.notify(self._run)

    async def seal(self) -> None:
        self._logs.notify(self._run, is_sealed=True)

    async def tail(self, *, lines: int, characters: int) -> str:
        return await anyio.to_thread.run_sync(_tail_text, self._path, lines, characters)

    def close(self) -> None:
        self._file.close()


def _remove_all(directory: Path, prefix: str) -> None:
    for path in directory.glob(f"{glob.escape(prefix)}*"):
        path.unlink(missing_ok=True)


def _frame(line: LogLine) -> bytes:
    return b"%s %s%s %s\n" % (line.at.encode(), _LETTER[line.stream], b"+" if line.is_partial else b".", line.text)


def _parse(raw: bytes, offset: int) -> LogEntry:
    at, kind, text = raw.split(b" ", 2)
    return LogEntry(offset=offset, at=at.decode(), stream=_STREAM[kind[0]], text=text, is_partial=kind[1:] == b"+")


def _whole_entries(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


async def _entries(path: Path, offset: int) -> AsyncIterator[LogEntry]:
    """Whole entries from `offset` to the end as it is now."""
    while True:
        data = await anyio.to_thread.run_sync(_read_chunk, path, offset)
        whole = _whole_entries(data)
        if not whole:
            return
        for raw in whole[:-1].split(b"\n"):
            offset += len(raw) + 1
            yield _parse(raw, offset)


def _read_chunk(path: Path, offset: int) -> bytes:
    """At least one whole entry if there is one: an entry may be longer than a chunk."""
    size = _CHUNK
    try:
        with path.open("rb") as file:
            while True:
                file.seek(offset)
                data = file.read(size)
                if len(data) < size or b"\n" in data:
                    return data
                size *= 2
    except FileNotFoundError:
        return b""


def _advanced(held: LogPosition, lines: Sequence[LogLine] | Sequence[LogEntry]) -> LogPosition:
    """Where the runtime's stream is to be resumed once `lines` are held too."""
    last_at = held.last_at
    lines_at, bytes_of = Counter(held.lines_at_last), Counter(held.bytes_of)
    for line in lines:
        if line.at != last_at:
            last_at, lines_at = line.at, Counter()
        lines_at[line.stream] += 1
        bytes_of[line.stream] += len(line.text) + (not line.is_partial)
    return LogPosition(last_at=last_at, lines_at_last=dict(lines_at), bytes_of=dict(bytes_of))


def _repair(path: Path) -> LogPosition:
    """Cut off a torn end; count what is held."""
    held, whole = LogPosition(), 0
    if not path.exists():
        return held
    with path.open("r+b") as file:
        while batch := file.readlines(_CHUNK):
            complete = [raw for raw in batch if raw.endswith(b"\n")]
            whole += sum(map(len, complete))
            held = _advanced(held, [_parse(raw[:-1], 0) for raw in complete])
        file.truncate(whole)
    return held


def _last_lines(path: Path, count: int) -> tuple[int, list[bytes]]:
    """The last `count` entries and the offset where they begin, read backwards in chunks."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            data = b""
            start = end
            while start > 0 and data.count(b"\n") <= count:
                step = min(_CHUNK, start)
                start -= step
                file.seek(start)
                data = file.read(step) + data
    except FileNotFoundError:
        return 0, []
    lines = _whole_entries(data).split(b"\n")[:-1]
    kept = lines[-count:] if count else []
    dropped = sum(len(line) + 1 for line in lines[: len(lines) - len(kept)])
    return start + dropped, kept


def _offset_of_tail(path: Path, count: int) -> int:
    return _last_lines(path, count)[0]


def _tail_text(path: Path, lines: int, characters: int) -> str:
    _, kept = _last_lines(path, lines)
    text = "\n".join(_parse(raw, 0).text.decode("utf-8", "replace") for raw in kept)
    return text if len(text) <= characters else "…" + text[-(characters - 1) :]
