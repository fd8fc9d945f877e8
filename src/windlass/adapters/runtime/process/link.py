"""The server's connection to the executor: starts it when nobody answers, reconnects, matches answers, hears of ends.

Every request may be repeated, so one that was cut off is simply asked again of the next executor.
"""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import anyio
import structlog
from anyio.abc import ByteStream, TaskGroup

from windlass.adapters.runtime import unix
from windlass.adapters.runtime.process import sockets
from windlass.adapters.runtime.process.doors import PROTOCOL
from windlass.adapters.runtime.process.records import Record, table, text
from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable, WindlassError
from windlass.ports.runtime import StartFailed

log = structlog.get_logger(__name__)

_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.05
_START_SECONDS = 20
_CHUNK = 1 << 18
_REFUSALS: Mapping[str, type[WindlassError]] = {
    "start-failed": StartFailed,
    "not-found": NotFound,
    "conflict": Conflict,
    "invalid": Invalid,
}


class _Cut(Exception):
    """The connection ended before the answer."""


class Answer:
    """Something to wait for: an answer, or the end of a run. `record` stays None when the connection was cut."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self.record: Record | None = None

    def set(self, record: Record | None) -> None:
        self.record = record
        self._event.set()

    async def wait(self) -> Record | None:
        await self._event.wait()
        return self.record


class Link:
    def __init__(self, directory: str, owner: str, tasks: TaskGroup) -> None:
        self.directory = directory
        self.owner = owner
        self.no_limits = ""
        self._tasks = tasks
        self._stream: ByteStream | None = None
        self._connecting = anyio.Lock()
        self._sending = anyio.Lock()
        self._count = 0
        self._pending: dict[int, Answer] = {}
        self._watched: dict[str, list[Answer]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, directory: str, owner: str) -> AsyncIterator["Link"]:
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            try:
                yield cls(directory, owner, tasks)
            except Exception as error:  # out of the group's reach, which would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def start_soon(self, task: Callable[[], Coroutine[object, object, None]]) -> None:
        """For as long as the link is open."""
        self._tasks.start_soon(task)

    async def ask(self, op: str, *, more_seconds: float = 0, **fields: object) -> Record:
        """The executor's answer, by whichever executor there is. Raises what it refuses, and Unavailable when none answers."""
        with anyio.move_on_after(_PATIENCE_SECONDS + more_seconds):
            while True:
                try:
                    stream = await self._connected()
                    return _accept(await self._exchange(stream, op, fields))
                except (_Cut, OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
                    await anyio.sleep(_PAUSE_SECONDS)
        raise Unavailable("the executor of process runs does not answer", hint=f"see {self.directory}/executor.log")

    @contextmanager
    def end_of(self, run: str) -> Iterator[Answer]:
        """Set when the run is over or gone (with what was seen), or when the connection was cut (ask anew)."""
        answer = Answer()
        self._watched.setdefault(run, []).append(answer)
        try:
            yield answer
        finally:
            if (answers := self._watched.get(run)) is not None:
                answers.remove(answer)
                if not answers:
                    del self._watched[run]

    async def call(self, **request: object) -> ByteStream:
        """A connection of its own that, once granted, carries a session."""
        await self.ask("hello")  # there is one now
        stream = await connect(self.directory, sockets.EXECUTOR)
        try:
            with anyio.fail_after(_PATIENCE_SECONDS):
                await stream.send(_line({"id": 0, "owner": self.owner, **request}))
                _accept(json.loads(await _first_line(stream)))
        except BaseException as error:
            await anyio.aclose_forcefully(stream)
            if isinstance(error, anyio.EndOfStream | anyio.BrokenResourceError | TimeoutError):
                raise Unavailable("the executor went away") from error
            raise
        return stream

    # --- one connection

    async def _exchange(self, stream: ByteStream, op: str, fields: Mapping[str, object]) -> Record:
        self._count += 1
        number, answer = self._count, Answer()
        self._pending[number] = answer
        try:
            await self._send(stream, _line({"id": number, "op": op, "owner": self.owner, **fields}))
            record = await answer.wait()
        finally:
            self._pending.pop(number, None)
        if record is None:
            raise _Cut
        return record

    async def _send(self, stream: ByteStream, line: bytes) -> None:
        """A line is sent whole, also when its sender is cancelled: the next one would be taken for its rest."""
        async with self._sending:
            try:
                with anyio.fail_after(_PATIENCE_SECONDS, shield=True):
                    await stream.send(line)
            except TimeoutError:
                await anyio.aclose_forcefully(stream)
                raise

    async def _connected(self) -> ByteStream:
        async with self._connecting:
            if self._stream is None:
                stream = await self._connect()
                self._tasks.start_soon(self._read, stream)
                try:
                    await self._greet(stream)
                except BaseException:
                    await anyio.aclose_forcefully(stream)
                    raise
                self._stream = stream
            return self._stream

    async def _greet(self, stream: ByteStream) -> None:
        hello = _accept(await self._exchange(stream, "hello", {}))
        if hello.get("protocol") != PROTOCOL:
            # Another version's. Its runs do not depend on it: it goes, and ours adopts them.
            await self._exchange(stream, "quit", {"retire": True})
            raise _Cut
        self.no_limits = text(hello, "no_limits")

    async def _connect(self) -> ByteStream:
        try:
            return await connect(self.directory, sockets.EXECUTOR)
        except OSError:
            await anyio.to_thread.run_sync(_start_executor, self.directory)
            log.info("executor.started", directory=self.directory)
        return await connect(self.directory, sockets.EXECUTOR)

    async def _read(self, stream: ByteStream) -> None:
        heard = bytearray()
        try:
            while True:
                heard += await stream.receive(_CHUNK)
                *lines, rest = heard.split(b"\n")
                heard = rest
                for line in lines:
                    self._hear(json.loads(line))
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            return
        finally:
            self._on_cut(stream)
            await anyio.aclose_forcefully(stream)

    def _hear(self, record: Record) -> None:
        if record.get("event") == "over":
            seen = table(record, "seen")
            for answer in self._watched.get(text(seen, "run"), ()):
                answer.set(seen)
        elif isinstance(number := record.get("id"), int) and number in self._pending:
            self._pending[number].set(record)

    def _on_cut(self, stream: ByteStream) -> None:
        if self._stream is stream:
            self._stream = None
        for answer in (*self._pending.values(), *(one for many in self._watched.values() for one in many)):
            answer.set(None)


async def connect(directory: str, name: str) -> ByteStream:
    """By a descriptor of the directory: its path may be longer than the 107 bytes a socket's address holds."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with anyio.fail_after(_START_SECONDS):
            return await unix.connect(f"/proc/self/fd/{fd}/{name}")
    finally:
        os.close(fd)


def _start_executor(directory: str) -> None:
    """With nothing of ours but where Python finds its modules: the server's environment holds secrets."""
    command = [sys.executable, "-P", "-m", "windlass.adapters.runtime.process.executor", directory]
    environment = {"PATH": os.defpath}
    if path := os.environ.get("PYTHONPATH"):
        environment["PYTHONPATH"] = path
    try:
        subprocess.run(
            command, env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, timeout=_START_SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        words = getattr(error, "stderr", None) or str(error).encode()
        raise Unavailable(
            f"the executor of process runs did not start: {words.decode(errors='replace').strip()}"
        ) from error


def _accept(record: Record) -> Record:
    if "ok" in record:
        return table(record, "ok")
    kind, why = text(record, "no"), text(record, "why")
    raise _REFUSALS.get(kind, Unavailable)(why)


def _line(record: Mapping[str, object]) -> bytes:
    return json.dumps(record).encode() + b"\n"


async def _first_line(stream: ByteStream) -> bytes:
    """Byte by byte: what follows the line belongs to the session."""
    line = bytearray()
    while not line.endswith(b"\n"):
        line += await stream.receive(1)
    return bytes(line)
