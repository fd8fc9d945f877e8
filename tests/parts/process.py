"""One real server as a context manager: the base of every part.

A part has a directory of its own, a log in it, and is ready when it can do its work, not when its process exists. It ends
by pid: SIGTERM, then SIGKILL. What it leaves outside its directory is told by `traces`, and removed.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.parts import present, warden
from tests.parts.failures import PartFailed
from tests.parts.traces import Process, Traces, process, remove_directory, sweep
from tests.parts.waiting import NeverHappened, wait_for

LOG_TAIL_LINES = 30
KILLED_SECONDS = 120.0
"""What SIGKILL ends is gone when the kernel has come to it."""


class ServerProcess(ABC):
    """A server in the foreground. Subclasses say the command and when it is ready."""

    name = "server"
    ready_deadline_seconds = 120.0
    stop_deadline_seconds = 60.0

    def __init__(self, directory: Path | None = None) -> None:
        self._owns_directory = directory is None
        # Short on purpose: the path of a unix socket may have 107 bytes, and pytest's own directories use most of them.
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"wl-{self.name}-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._born: list[Process] = []

    @abstractmethod
    def command(self) -> list[str]:
        """The argument list of the server, in the foreground."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether the server does its work; asked again and again, so it must be cheap and must not raise."""

    def prepare(self) -> None:  # noqa: B027 - many parts need none
        """Before each start: configuration files, stale pidfiles."""

    def traces(self) -> Traces:
        """What it may leave outside its directory; subclasses add to it."""
        return Traces(directory=str(self.directory), owns_directory=self._owns_directory, processes=tuple(self._born))

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": present.SEARCH}

    @property
    def pid(self) -> int:
        if self._process is None:
            raise PartFailed(f"{self.name} was never started")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it, again if need be, and come back when it is ready."""
        if self.is_running:
            return self
        self.prepare()
        warden.watch(self.traces())
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C ends the tests first, and the tests end the server.
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=self.environment(),
                start_new_session=True,
            )
        self._born = [process(self._process.pid)]
        warden.watch(self.traces())
        try:
            wait_for(self._ready_or_dead, self.ready_deadline_seconds, f"{self.name} to be ready")
        except NeverHappened as never:
            self.kill()
            raise PartFailed(f"{never}\n{self.log_tail()}") from None
        return self

    def stop(self) -> None:
        """Ask it to end; insist when it does not."""
        self.resume()
        self.signal(signal.SIGTERM)
        try:
            self._reap(self.stop_deadline_seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, as a crash would: nothing is tidied by the server."""
        self.signal(signal.SIGKILL)
        self._reap(KILLED_SECONDS)

    def pause(self) -> None:
        """SIGSTOP: it is there, holds its sockets, and answers nothing."""
        self.signal(signal.SIGSTOP)
        # The signal is sent at once, but each thread stops when it next looks.
        wait_for(lambda: _thread_states(self.pid) <= {"T", "t", "Z", "X"}, 120, f"{self.name} to stand still")

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        if self.is_running:
            os.kill(self.pid, number)

    def close(self) -> None:
        """End it and remove every trace; safe to call twice."""
        try:
            self.stop()
        finally:
            traces = self.traces()
            sweep(traces)
            remove_directory(traces)
            warden.forget(self.directory)

    def log_tail(self) -> str:
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return "(no log)"
        return "\n".join([f"--- end of {self.log.name}", *lines[-LOG_TAIL_LINES:]])

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reap(self, seconds: float) -> None:
        if self._process is not None:
            self._process.wait(seconds)

    def _ready_or_dead(self) -> bool:
        if not self.is_running:
            code = self._process.returncode if self._process else None
            raise PartFailed(f"{self.name} ended with {code} before it was ready\n{self.log_tail()}")
        return self.is_ready()


def _thread_states(pid: int) -> set[str]:
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # a thread that ended meanwhile
            states.add(stat.read_text().rpartition(")")[2].split()[0])
    return states
