"""One real server as a context manager: the base of every part.

A part has a directory of its own, a log in it, and is ready when it can do its work, not when its process exists. It ends
by pid: SIGTERM, then SIGKILL. What it leaves outside its directory is removed by its module's `clean_up`.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.parts import present
from tests.parts.waiting import NeverHappened, wait_for

LOG_TAIL_LINES = 30


class PartFailed(Exception):
    """A server did not start, or died; carries the end of its log."""


class ServerProcess(ABC):
    """A server in the foreground. Subclasses say the command and when it is ready."""

    name = "server"
    ready_deadline_seconds = 30.0
    stop_deadline_seconds = 15.0

    def __init__(self, directory: Path | None = None) -> None:
        self._owns_directory = directory is None
        # Short on purpose: the path of a unix socket may have 107 bytes, and pytest's own directories use most of them.
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"wl-{self.name}-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """The argument list of the server, in the foreground."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether the server does its work; asked again and again, so it must be cheap and must not raise."""

    def prepare(self) -> None:  # noqa: B027 - most parts need neither
        """Before each start: configuration files, stale pidfiles."""

    def clean_up(self) -> None:  # noqa: B027
        """After the end: what the server left outside its directory."""

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
        try:
            wait_for(self._ready_or_dead, self.ready_deadline_seconds, f"{self.name} to be ready")
        except NeverHappened as never:
            self.kill()
            raise PartFailed(f"{never}\n{self.log_tail()}") from None
        return self

    def stop(self) -> None:
        """Ask it to end; insist when it does not."""
        if not self.is_running:
            return
        self.resume()
        self.signal(signal.SIGTERM)
        try:
            self._process.wait(self.stop_deadline_seconds)  # type: ignore[union-attr]
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, as a crash would: nothing is tidied by the server."""
        if self.is_running:
            self.signal(signal.SIGKILL)
            self._process.wait(self.stop_deadline_seconds)  # type: ignore[union-attr]

    def pause(self) -> None:
        """SIGSTOP: it is there, holds its sockets, and answers nothing."""
        self.signal(signal.SIGSTOP)
        # The signal is sent at once, but each thread stops when it next looks.
        wait_for(lambda: _thread_states(self.pid) <= {"T", "t", "Z", "X"}, 5, f"{self.name} to stand still")

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
            self.clean_up()
            if self._owns_directory:
                shutil.rmtree(self.directory, ignore_errors=True)

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
