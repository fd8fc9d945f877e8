"""What a node writes to its disk, in memory: logs and the agent's journal. It outlives whoever wrote it."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.lowlevel import checkpoint

from windlass.agent.journal import Journal
from windlass.core.errors import NotFound
from windlass.core.model.ids import JobId, RunId
from windlass.ports.logs import LogEntry
from windlass.ports.runtime import LogLine, LogPosition


class MemoryLogs:
    """`ports.logs.Logs`. An entry's offset is its number."""

    def __init__(self) -> None:
        self.lines: defaultdict[RunId, list[LogLine]] = defaultdict(list)
        self.sealed: set[RunId] = set()
        self._grown = anyio.Event()
        self._written: dict[RunId, anyio.Event] = {}

    @asynccontextmanager
    async def writer(self, run: RunId) -> AsyncIterator["MemoryLogWriter"]:
        await checkpoint()
        left = self._written[run] = anyio.Event()
        try:
            yield MemoryLogWriter(self, run)
        finally:
            left.set()

    async def read(
        self, run: RunId, *, after: int = 0, follow: bool = False, tail: int | None = None
    ) -> AsyncIterator[LogEntry]:
        if run not in self.lines and not follow:
            raise NotFound(f"run {run} has no log", code="log-absent")
        offset = max(0, len(self.lines[run]) - tail) if tail is not None and after == 0 else after
        while True:
            grown, is_sealed = self._grown, run in self.sealed
            for line in self.lines[run][offset:]:
                offset += 1
                yield LogEntry(
                    offset=offset, at=line.at, stream=line.stream, text=line.text, is_partial=line.is_partial
                )
            if is_sealed or not follow:
                return
            await grown.wait()

    def is_there(self, run: RunId) -> bool:
        return run in self.lines

    def is_sealed(self, run: RunId) -> bool:
        return run in self.sealed

    async def closed(self, run: RunId) -> None:
        if run in self._written:
            await self._written[run].wait()

    async def jobs(self) -> tuple[JobId, ...]:
        await checkpoint()
        return tuple(sorted({JobId(run.rpartition("-")[0]) for run in self.lines}))

    async def forget(self, job: JobId) -> None:
        await checkpoint()
        for run in [run for run in self.lines if run.startswith(f"{job}-")]:
            del self.lines[run]
            self.sealed.add(run)
        self.grow()

    def grow(self) -> None:
        self._grown.set()
        self._grown = anyio.Event()


class MemoryLogWriter:
    def __init__(self, logs: MemoryLogs, run: RunId) -> None:
        self._logs = logs
        self._run = run
        self.position = self._held()

    def _held(self) -> LogPosition:
        lines = self._logs.lines[self._run]
        last_at = lines[-1].at if lines else ""
        bytes_of: Counter[str] = Counter()
        for line in lines:
            bytes_of[line.stream] += len(line.text) + (not line.is_partial)
        at_last = Counter(str(line.stream) for line in lines if line.at == last_at)
        return LogPosition(last_at=last_at, lines_at_last=dict(at_last), bytes_of=dict(bytes_of))

    async def append(self, lines: Sequence[LogLine]) -> None:
        self._logs.lines[self._run] += lines
        self.position = self._held()
        self._logs.grow()
        await checkpoint()

    async def seal(self) -> None:
        self._logs.sealed.add(self._run)
        self._logs.grow()

    async def tail(self, *, lines: int, characters: int) -> str:
        await checkpoint()
        texts = [line.text.decode("utf-8", "replace") for line in self._logs.lines[self._run][-lines:]]
        return "\n".join(texts)[-characters:]


class Disk:
    """One file that survives: what was synced is there after a crash, what was not may be."""

    def __init__(self, sync: Callable[[], Awaitable[None]] = checkpoint) -> None:
        """`sync` takes as long as the disk does."""
        self.sync = sync
        self.data = b""


class MemoryJournal(Journal):
    """The agent's journal on a `Disk`: the product's own but for the file."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__(Path("journal"))

    def close(self) -> None:
        return None

    def _load(self) -> bytes:
        return self._disk.data

    async def _sync(self, data: bytes) -> None:
        await self._disk.sync()
        self._disk.data += data
        await checkpoint()

    def _replace(self, data: bytes) -> None:
        self._disk.data = data
