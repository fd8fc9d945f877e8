"""The executor's shims. Each keeps one run at a time and may keep another after it: a fork costs more than a small run.

A shim that we forked is spoken to over its channel; with an order goes the journal's descriptor, already locked, so that the
run is looked after at every moment, also when we die between sending and its hearing. One that an earlier executor forked is
spoken to by file and signal, and watched by its pid.  Standard library only.
"""

import array
import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable

from windlass.adapters.runtime.cgroups import Cgroups
from windlass.adapters.runtime.process import family, records, shim
from windlass.adapters.runtime.process.loop import Loop
from windlass.adapters.runtime.process.records import Record

_IDLE_MAX = 32
_TRIM_SECONDS = 1.0
_MESSAGE = 1 << 16


class Shim:
    """Raises ProcessLookupError when there is no such process."""

    def __init__(self, pid: int, channel: socket.socket | None = None) -> None:
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.channel = channel
        self.run = ""

    def stop(self, path: str, grace_ms: int) -> None:
        with contextlib.suppress(OSError):  # it is gone, and so is its run
            if self.channel is not None:
                self.channel.send(json.dumps({"stop": path, "grace_ms": grace_ms}).encode())
            else:
                records.write(f"{path}/stop.json", {"grace_ms": grace_ms}, is_durable=False)
                signal.pidfd_send_signal(self.pidfd, signal.SIGTERM)

    def close(self) -> None:
        """Forget it; an idle one ends by that."""
        os.close(self.pidfd)
        if self.channel is not None:
            self.channel.close()


class Crew:
    """`on_word` is told what a shim says of its run, `on_death` of a shim that is gone with the run it kept."""

    def __init__(
        self,
        loop: Loop,
        cgroups: Cgroups | None,
        *,
        on_word: Callable[[str, Record], None],
        on_death: Callable[[str], None],
        files_soft: int,
    ) -> None:
        self._loop = loop
        self._cgroups = cgroups
        self._on_word = on_word
        self._on_death = on_death
        self._files_soft = files_soft
        self._idle: list[Shim] = []
        self._pids: set[int] = set()
        self._is_trimming = False

    def keep(self, run: str, path: str, book: int, handed: Record) -> Shim:
        """Have a shim start the run and look after it. Takes `book` over. OSError when there is none to be had.

        What is handed over goes in a file without a name, in memory: it may be larger than a message."""
        given: list[int] = []
        try:
            if handed:
                given.append(_in_memory(json.dumps(handed).encode()))
            while True:
                one = self._idle.pop() if self._idle else self._fork()
                assert one.channel is not None
                fds = array.array("i", [book, *given])
                try:
                    one.channel.sendmsg(
                        [json.dumps({"keep": path}).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
                    )
                except (BrokenPipeError, ConnectionResetError):  # it died idle: its end is on the way to us
                    continue
                one.run = run
                return one
        finally:
            for fd in (book, *given):
                os.close(fd)

    def adopt(self, run: str, pid: int) -> Shim:
        one = Shim(pid)
        one.run = run
        self._loop.watch(one.pidfd, lambda: self._bury(one))
        return one

    def visit(self, keep: Callable[[], None], on_end: Callable[[int], None]) -> int:
        """A shim of another kind, for an exec or debug session."""
        one = Shim(_fork(keep))
        self._pids.add(one.pid)

        def ended() -> None:
            self._forget(one)
            on_end(one.pid)

        self._loop.watch(one.pidfd, ended)
        return one.pid

    def strays(self) -> list[int]:
        """What a killed shim left to us."""
        return family.strays(self._pids)

    def _fork(self) -> Shim:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            one = Shim(_fork(lambda: shim.keep_runs(theirs, self._cgroups, files_soft=self._files_soft)), ours)
        ours.setblocking(False)
        self._pids.add(one.pid)
        self._loop.watch(ours.fileno(), lambda: self._hear(one))
        self._loop.watch(one.pidfd, lambda: self._bury(one))
        return one

    def _hear(self, one: Shim) -> None:
        assert one.channel is not None
        data = b""
        with contextlib.suppress(ConnectionResetError):
            data = one.channel.recv(_MESSAGE)
        if not data:  # it is going; its pid will tell when it is gone
            self._loop.forget(one.channel.fileno())
            return
        word: Record = json.loads(data)
        run = one.run
        if "exit" in word:
            one.run = ""
            if word.get("is_leaving") or len(self._idle) >= _IDLE_MAX:
                one.channel.shutdown(socket.SHUT_WR)
            else:
                self._idle.append(one)
                self._trim_later()
        self._on_word(run, word)

    def _trim_later(self) -> None:
        if not self._is_trimming:
            self._is_trimming = True
            self._loop.later(_TRIM_SECONDS, self._trim)

    def _trim(self) -> None:
        """Half of the idle go at a time, the longest idle first; one stays for the next run."""
        self._is_trimming = False
        going = len(self._idle) // 2
        for one in self._idle[:going]:
            assert one.channel is not None
            with contextlib.suppress(OSError):
                one.channel.shutdown(socket.SHUT_WR)
        self._idle = self._idle[going:]
        if len(self._idle) > 1:
            self._trim_later()

    def _bury(self, one: Shim) -> None:
        if one in self._idle:
            self._idle.remove(one)
        self._forget(one)
        if one.run:
            self._on_death(one.run)

    def _forget(self, one: Shim) -> None:
        self._loop.forget(one.pidfd)
        if one.channel is not None:
            self._loop.forget(one.channel.fileno())
        one.close()
        self._pids.discard(one.pid)
        reap()


def _in_memory(data: bytes) -> int:
    fd = os.memfd_create("windlass-handed", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def reap() -> None:
    """Shims, and orphans of those that were killed."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _fork(keep: Callable[[], None]) -> int:
    """Signals that a shim waits for are blocked across the fork, so that none is lost before it listens."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, shim.SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            keep()
            os._exit(70)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
