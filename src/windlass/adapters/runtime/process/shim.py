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
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import NoReturn

from windlass.adapters.runtime.process import family, frames, journal, launch, records
from windlass.adapters.runtime.process.cgroups import Cgroups, Group, Limits
from windlass.adapters.runtime.process.loop import Loop
from windlass.adapters.runtime.process.records import Record
from windlass.adapters.runtime.process.relay import Relay

SIGNALS = (signal.SIGCHLD, signal.SIGTERM)
"""Blocked across the fork, so that none is lost before the shim listens."""
GRACE_MS = 10_000
"""When a SIGTERM comes without an order, say at a shutdown of the machine."""
_AGAIN_SECONDS = 0.05
_MESSAGE = 1 << 16
_FLUSH_SECONDS = 2.0
_NO_ROOM_SECONDS = 1.0
_BACKLOG = 65_536
_KILLED = 128
_UMASK = 0o022
_NO_LIMITS = 126


class Family:
    """A spawned process and everything below it, ended together."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.pid = 0
        self.status: int | None = None
        self.finished = 0.0
        self._is_doomed = False
        self._is_over = False

    @property
    def exit_code(self) -> int:
        code = os.waitstatus_to_exitcode(self.status or 0)
        return code if code >= 0 else _KILLED - code

    def reap(self) -> bool:
        """Collect the dead; False when nobody is left."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.pid and self.status is None:
                    self.status, self.finished = status, time.monotonic()
        return False

    def stop(self, grace_ms: int) -> None:
        if self.status is not None:
            return
        if grace_ms > 0:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGTERM)
        self._loop.later(grace_ms / 1000, self.kill)

    def kill(self) -> None:
        """Everything, again and again until the last is gone: some of it may be forking meanwhile."""
        self._is_doomed = True
        if not self._is_over:  # a grace that ran out late must not hit the next one
            family.kill(family.descendants(os.getpid()))

    def outlive(self) -> None:
        """Returns when the process and all it left running are gone."""
        while self.reap():
            if self._is_doomed or self.status is not None:
                self.kill()
                self._loop.later(_AGAIN_SECONDS, lambda: None)
            self._loop.turn()
        self._is_over = True


def keep_runs(channel: socket.socket, cgroups: Cgroups | None, *, files_soft: int) -> NoReturn:
    """The life of a shim, in the forked child: one run after another, as the executor orders over `channel`."""

    def live() -> None:
        launch.shed((channel.fileno(),), name="windlass-shim", files_soft=files_soft)
        if cgroups is None:
            launch.yield_priority()
        _Shim(channel, cgroups).live()

    _forever_gone(live)


def keep_session(peer: socket.socket, early: bytes, order: Record, group: Group | None, *, files_soft: int) -> NoReturn:
    """The life of an exec or debug session, in the forked child: one viewer, ended with it."""

    def live() -> None:
        launch.shed((peer.fileno(),), name="windlass-exec", files_soft=files_soft)
        if group is None:
            launch.yield_priority()
        _Session(order, group).live(peer, early)

    _forever_gone(live)


class _Shim:
    def __init__(self, channel: socket.socket, cgroups: Cgroups | None) -> None:
        self._channel = channel
        self._cgroups = cgroups
        self._loop = Loop()
        self._next: tuple[str, int] | None = None
        self._run: _Run | None = None
        self._is_leaving = False

    def live(self) -> None:
        self._loop.watch_signals(SIGNALS, self._on_signals)
        self._loop.watch(self._channel.fileno(), self._hear)
        while not self._is_leaving:
            self._loop.turn()
            if self._next is not None:
                (path, book), self._next = self._next, None
                self._keep(path, book)

    def _keep(self, path: str, book: int) -> None:
        order = (journal.read(path) or {}).get("order", {})
        group = self._cgroups.group(records.text(order, "run")) if self._cgroups else None
        self._run = _Run(path, order, group, book, self._loop)
        ended = self._run.live(lambda running: self._tell({"running": running}))
        self._is_leaving = self._is_leaving or self._run.has_terminal
        os.close(book)  # with it goes the lock
        self._tell({"exit": ended, "is_leaving": self._is_leaving})
        self._run.say_goodbye()
        self._run = None

    def _hear(self) -> None:
        data, fds = b"", list[int]()
        with contextlib.suppress(ConnectionResetError):
            data, fds, _, _ = socket.recv_fds(self._channel, _MESSAGE, 1)
        if not data:  # the executor is gone, or has no more work for us
            self._loop.forget(self._channel.fileno())
            self._is_leaving = True
            return
        word: Record = json.loads(data)
        if "keep" in word:
            os.set_inheritable(fds[0], False)
            self._next = (records.text(word, "keep"), fds[0])
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
        with _inside(self._group, self._order):
            if self.has_terminal:
                self.family.pid, master = _spawn_on_terminal(self._order)
                self._relay = Relay(
                    self._loop, sources={frames.STDOUT: master}, sink=master, log=stdout, is_terminal=True
                )
                self._listen()
            else:
                nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
                self.family.pid = _spawn(self._order, (nothing, stdout, stderr))
                os.close(nothing)
                os.close(stdout)
        os.close(stderr)

    def _write_running(self, started_wall: float) -> Record:
        pid = self.family.pid
        running: Record = {
            "shim": os.getpid(),
            "pid": pid,
            "pid_ticks": family.start_ticks(pid),
            "started_wall": started_wall,
        }
        with contextlib.suppress(OSError):  # a full disk: the lock alone tells of us then
            journal.append(self._book, "running", running, is_durable=False)
        return running

    def _write_exit(self, code: int, started_wall: float, ran_ms: int, *, error: str = "") -> Record:
        is_oom = code != 0 and self._group is not None and self._group.oom_kills() > 0
        if self._group is not None:
            self._group.remove()
        record: Record = {
            "exit_code": code,
            "is_oom": is_oom,
            "started_wall": started_wall,
            "finished_wall": started_wall + ran_ms / 1000,
            "ran_ms": ran_ms,
            "error": error,
        }
        _insist(lambda: journal.append(self._book, "exit", record, is_durable=True))
        return record

    # --- its terminal

    def _listen(self) -> None:
        self._listener = listen(self.path, "terminal")
        self._loop.watch(self._listener.fileno(), self._on_viewer)

    def _on_viewer(self) -> None:
        assert self._listener is not None
        assert self._relay is not None
        peer, _ = self._listener.accept()
        if is_own_user(peer):
            self._relay.join(peer, _tail(f"{self.path}/stdout"))
        else:
            peer.close()

    def say_goodbye(self) -> None:
        if self._relay is None:
            return
        self._relay.finish(self.family.exit_code)
        _flush(self._loop, self._relay)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.path}/terminal")


class _Session:
    def __init__(self, order: Record, group: Group | None) -> None:
        self._order = order
        self._group = group
        self._loop = Loop()
        self._family = Family(self._loop)

    def live(self, peer: socket.socket, early: bytes) -> None:
        self._loop.watch_signals(SIGNALS, self._on_signals)
        try:
            relay = self._spawn()
        except launch.CannotStart as error:
            peer.setblocking(True)
            peer.sendall(frames.encode(frames.STDERR, f"{error}\n".encode()))
            peer.sendall(frames.encode(frames.EXITED, frames.CODE.pack(error.exit_code)))
            return
        relay.join(peer)
        relay.hear(early)
        self._family.outlive()
        relay.finish(self._family.exit_code)
        _flush(self._loop, relay)

    def _spawn(self) -> Relay:
        with _inside(self._group, None):
            if self._order.get("terminal"):
                self._family.pid, master = _spawn_on_terminal(self._order)
                sources, sink = {frames.STDOUT: master}, master
            else:
                given, sink = os.pipe2(os.O_CLOEXEC)
                out, stdout = os.pipe2(os.O_CLOEXEC)
                err, stderr = os.pipe2(os.O_CLOEXEC)
                self._family.pid = _spawn(self._order, (given, stdout, stderr))
                for fd in (given, stdout, stderr):
                    os.close(fd)
                sources = {frames.STDOUT: out, frames.STDERR: err}
        is_terminal = bool(self._order.get("terminal"))
        return Relay(self._loop, sources=sources, sink=sink, is_terminal=is_terminal, on_alone=self._family.kill)

    def _on_signals(self, numbers: bytes) -> None:
        if signal.SIGTERM in numbers:
            self._family.kill()


def listen(directory: str, name: str) -> socket.socket:
    """A unix socket in `directory`, reached by a descriptor: its path may be longer than the 107 bytes an address holds."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{directory}/{name}")
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{fd}/{name}")
    finally:
        os.close(fd)
    listener.listen(64)
    return listener


def is_own_user(peer: socket.socket) -> bool:
    """The directory is closed to others already; the kernel's word on who is calling is the second lock."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder) == os.geteuid()


@contextlib.contextmanager
def _inside(group: Group | None, order: Record | None) -> Iterator[None]:
    """What is spawned here is born in the run's cgroup. A session joins a group that its run has made."""
    if group is None:
        yield
        return
    try:
        if order is not None:
            group.make(_limits(records.table(order, "limits")))
        group.join()
    except OSError as error:
        raise launch.CannotStart(f"its resource limits cannot be set: {error}", _NO_LIMITS) from error
    try:
        yield
    finally:
        group.leave()


def _limits(asked: Record) -> Limits:
    return Limits(
        memory_bytes=records.number(asked, "memory_bytes"),
        cpu_millis=records.number(asked, "cpu_millis"),
        pids_max=records.number(asked, "pids_max"),
    )


def _spawn(order: Record, descriptors: tuple[int, int, int]) -> int:
    return launch.spawn(
        records.texts(order, "command"),
        environment=_environment(order),
        directory=records.text(order, "directory"),
        descriptors=descriptors,
    )


def _spawn_on_terminal(order: Record) -> tuple[int, int]:
    master, slave = os.openpty()
    try:
        pid = launch.spawn(
            records.texts(order, "command"),
            environment=_environment(order),
            directory=records.text(order, "directory"),
            terminal=os.ttyname(slave),
        )
    finally:
        os.close(slave)  # held here, the end of the workload would never be seen as the end of its output
    return pid, master


def _environment(order: Record) -> dict[str, str]:
    return {key: value for key, value in records.table(order, "environment").items() if isinstance(value, str)}


def _append_to(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _tail(path: str) -> bytes:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _BACKLOG))
        return file.read(_BACKLOG)


def _flush(loop: Loop, relay: Relay) -> None:
    deadline = time.monotonic() + _FLUSH_SECONDS
    loop.later(_FLUSH_SECONDS, lambda: None)
    while not relay.is_flushed and time.monotonic() < deadline:
        loop.turn()


def _insist(write: Callable[[], None]) -> None:
    """A full disk must not cost us the exit code: wait for room."""
    while True:
        try:
            write()
            return
        except OSError:
            time.sleep(_NO_ROOM_SECONDS)


def _forever_gone(live: Callable[[], None]) -> NoReturn:
    """A shim never returns into the executor's code it was forked from."""
    try:
        live()
    except BaseException:
        traceback.print_exc()
        os._exit(70)
    os._exit(0)
