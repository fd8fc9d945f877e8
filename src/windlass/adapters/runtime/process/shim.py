"""The keeper of a run: a fork of the executor that owns the workload, outlives its maker, and writes down how it ended.

It holds the lock on the run's journal for as long as it lives: that lock, not a pid, tells a later executor that the run is
being looked after. A stop, once ordered, is the shim's own affair and outlives whoever ordered it.
Standard library only; every path out of here is `os._exit`.
"""

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from typing import NoReturn

from windlass.adapters.runtime.cgroups import Cgroups, Group
from windlass.adapters.runtime.process import frames, journal, kernel, launch, records, sockets
from windlass.adapters.runtime.process.family import Family, start_ticks
from windlass.adapters.runtime.process.loop import Loop
from windlass.adapters.runtime.process.records import Record
from windlass.adapters.runtime.process.relay import Relay

SIGNALS = (signal.SIGCHLD, signal.SIGTERM)
"""Blocked across the fork, so that none is lost before the shim listens."""
GRACE_MS = 10_000
"""When a SIGTERM comes without an order, say at a shutdown of the machine."""
_MESSAGE = 1 << 16
_NO_ROOM_SECONDS = 1.0
_BACKLOG = 65_536
_BACKLOG_OF_STREAMS = 16 << 20
"""What goes on in a pipe must not lack its beginning: more than is printed before somebody comes who was on the way."""
_UMASK = 0o022


def keep_runs(channel: socket.socket, cgroups: Cgroups | None, *, files_soft: int) -> NoReturn:
    """The life of a shim, in the forked child: one run after another, as the executor orders over `channel`."""

    def live() -> None:
        launch.shed((channel.fileno(),), name="windlass-shim", files_soft=files_soft)
        if cgroups is None:
            launch.yield_priority()
        _Shim(channel, cgroups).live()

    launch.live_and_end(live)


class _Shim:
    def __init__(self, channel: socket.socket, cgroups: Cgroups | None) -> None:
        self._channel = channel
        self._cgroups = cgroups
        self._loop = Loop()
        self._next: tuple[str, int, Record] | None = None
        self._run: _Run | None = None
        self._is_leaving = False

    def live(self) -> None:
        self._loop.watch_signals(SIGNALS, self._on_signals)
        self._loop.watch(self._channel.fileno(), self._hear)
        while not self._is_leaving:
            self._loop.turn()
            if self._next is not None:
                (path, book, handed), self._next = self._next, None
                self._keep(path, book, handed)

    def _keep(self, path: str, book: int, handed: Record) -> None:
        order = (journal.read(path) or {}).get("order", {})
        order["environment"] = records.table(order, "environment") | handed
        group = self._group(order)
        self._run = _Run(path, order, group, book, self._loop)
        ended = self._run.live(lambda running: self._tell({"running": running}))
        self._is_leaving = self._is_leaving or self._run.has_terminal or self._run.has_input
        os.close(book)  # with it goes the lock
        self._tell({"exit": ended, "is_leaving": self._is_leaving})
        self._run.say_goodbye()
        self._run = None

    def _group(self, order: Record) -> Group | None:
        if self._cgroups is None:
            return None
        cut = records.table(order, "slice")
        limits = launch.limits_of(cut)
        return self._cgroups.group(
            records.text(order, "run"), slice_name=records.text(cut, "name"), slice_limits=limits
        )

    def _hear(self) -> None:
        data, fds = b"", list[int]()
        with contextlib.suppress(ConnectionResetError):
            data, fds, _, _ = socket.recv_fds(self._channel, _MESSAGE, 2)
        if not data:  # the executor is gone, or has no more work for us
            self._loop.forget(self._channel.fileno())
            self._is_leaving = True
            return
        word: Record = json.loads(data)
        if "keep" in word:
            os.set_inheritable(fds[0], False)
            self._next = (records.text(word, "keep"), fds[0], _read_handed(fds[1:]))
        elif self._run is not None and word.get("stop") == self._run.path:
            self._run.family.stop(records.number(word, "grace_ms"))

    def _tell(self, word: Record) -> None:
        with contextlib.suppress(OSError):  # a later executor reads the journal
            self._channel.send(json.dumps(word).encode())

    def _on_signals(self, numbers: bytes) -> None:
        """Orders of an executor that did not fork us, or somebody's `kill`, or the machine shutting down."""
        if signal.SIGTERM in numbers and self._run is not None:
            ordered = records.read(f"{self._run.path}/stop.json")
            self._run.family.stop(GRACE_MS if ordered is None else records.number(ordered, "grace_ms"))


class _Run:
    def __init__(self, path: str, order: Record, group: Group | None, book: int, loop: Loop) -> None:
        self.path = path
        self.has_terminal = bool(order.get("terminal"))
        self.has_input = bool(order.get("input"))
        self.family = Family(loop)
        self._order = order
        self._group = group
        self._book = book
        self._loop = loop
        self._relay: Relay | None = None
        self._listener: socket.socket | None = None

    def live(self, tell: Callable[[Record], None]) -> Record:
        """How it ended; that is durable by then."""
        started_wall, started = time.time(), time.monotonic()
        try:
            self._spawn()
        except launch.CannotStart as error:
            return self._write_exit(error.exit_code, started_wall, 0, error=str(error))
        tell(self._write_running(started_wall))
        self.family.outlive()
        os.chdir("/")  # hold nobody's volume
        if self._relay is not None:
            self._relay.drain()  # who sees the end in the journal must find all of the output
        return self._write_exit(self.family.exit_code, started_wall, int((self.family.finished - started) * 1000))

    def _spawn(self) -> None:
        stdout = _append_to(f"{self.path}/stdout")
        stderr = _append_to(f"{self.path}/stderr")
        os.umask(_UMASK)
        with launch.inside(self._group, self._order):
            if self.has_terminal:
                self.family.pid, master = launch.spawn_on_terminal(self._order)
                sources, logs = {frames.STDOUT: master}, {frames.STDOUT: stdout}
                self._relay = Relay(self._loop, sources=sources, sink=master, logs=logs, is_terminal=True)
                self._listen()
            elif self.has_input:
                self._spawn_with_input(stdout, stderr)
                return
            else:
                nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
                self.family.pid = launch.spawn(self._order, (nothing, stdout, stderr))
                os.close(nothing)
                os.close(stdout)
        os.close(stderr)

    def _spawn_with_input(self, stdout: int, stderr: int) -> None:
        """By pipes in all directions: whoever gives the input sees the output as it comes, and the files are written here."""
        given, sink = os.pipe2(os.O_CLOEXEC)
        out, written = os.pipe2(os.O_CLOEXEC)
        err, warned = os.pipe2(os.O_CLOEXEC)
        self.family.pid = launch.spawn(self._order, (given, written, warned))
        for fd in (given, written, warned):
            os.close(fd)
        relay = self._relay = Relay(
            self._loop,
            sources={frames.STDOUT: out, frames.STDERR: err},
            sink=sink,
            logs={frames.STDOUT: stdout, frames.STDERR: stderr},
            is_terminal=False,
            on_alone=lambda: relay.end_input(),
        )
        self._listen()

    def _write_running(self, started_wall: float) -> Record:
        pid = self.family.pid
        running: Record = {
            "shim": os.getpid(),
            "pid": pid,
            "pid_ticks": start_ticks(pid),
            "boot": kernel.boot_id(),
            "started_wall": started_wall,
        }
        with contextlib.suppress(OSError):  # a full disk: the lock alone tells of us then
            journal.append(self._book, "running", running, is_durable=False)
        return running

    def _write_exit(self, code: int, started_wall: float, ran_ms: int, *, error: str = "") -> Record:
        is_oom = code != 0 and self._group is not None and self._group.oom_kills() > 0
        memory_peak = self._group.memory_peak() if self._group is not None else 0
        if self._group is not None:
            self._group.remove()
        record: Record = {
            "exit_code": code,
            "is_oom": is_oom,
            "started_wall": started_wall,
            "finished_wall": started_wall + ran_ms / 1000,
            "ran_ms": ran_ms,
            "cpu_used_ms": int(self.family.cpu_seconds * 1000),
            "memory_peak_bytes": memory_peak or self.family.memory_peak_bytes,
            "error": error,
        }
        _insist(lambda: journal.append(self._book, "exit", record, is_durable=True))
        return record

    # --- its terminal

    def _listen(self) -> None:
        self._listener = sockets.listen(self.path, sockets.TERMINAL)
        self._loop.watch(self._listener.fileno(), self._on_viewer)

    def _on_viewer(self) -> None:
        assert self._listener is not None
        assert self._relay is not None
        peer, _ = self._listener.accept()
        if sockets.is_own_user(peer):
            self._relay.join(peer, self._printed())
        else:
            peer.close()

    def _printed(self) -> dict[int, bytes]:
        if self.has_terminal:
            return {frames.STDOUT: _tail(f"{self.path}/stdout", _BACKLOG)}
        names = {frames.STDOUT: "stdout", frames.STDERR: "stderr"}
        return {kind: _tail(f"{self.path}/{name}", _BACKLOG_OF_STREAMS) for kind, name in names.items()}

    def say_goodbye(self) -> None:
        if self._relay is None:
            return
        self._relay.finish(self.family.exit_code)
        self._relay.flush()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.path}/{sockets.TERMINAL}")


def _read_handed(fds: list[int]) -> Record:
    """Variables that came with the order and are in no file that has a name."""
    handed: Record = {}
    for fd in fds:
        with open(fd, "rb") as file:
            handed |= json.loads(file.read())
    return handed


def _append_to(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _tail(path: str, most: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most)


def _insist(write: Callable[[], None]) -> None:
    """A full disk must not cost us the exit code: wait for room."""
    while True:
        try:
            write()
            return
        except OSError:
            time.sleep(_NO_ROOM_SECONDS)
