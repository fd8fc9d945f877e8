"""Ctrl-C in a real terminal while a job is followed: cancel, detach, continue; and a second one cancels."""

import codecs
import os
import pty
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.stub import Stub

from windlass.cli import exits

PROGRAM = "from windlass.cli.app import build; build({})()"
DEADLINE_SECONDS = 180


class Person:
    """Sits at a terminal: reads until words appear, types, and waits for the end."""

    def __init__(self, pid: int, terminal: int) -> None:
        self._pid, self._terminal = pid, terminal
        self._decode = codecs.getincrementaldecoder("utf-8")().decode  # what is read at once may end within a character
        self.seen = ""

    def reads(self, words: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while words not in self.seen:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{words!r} did not appear in {self.seen!r}"
            try:
                self.seen += self._decode(os.read(self._terminal, 65536))
            except OSError:
                raise AssertionError(f"it ended without {words!r}: {self.seen!r}") from None

    def types(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def waits(self) -> int:
        while True:
            try:
                if not os.read(self._terminal, 65536):
                    break
            except OSError:
                break
        _, status = os.waitpid(self._pid, 0)
        return os.waitstatus_to_exitcode(status)


@contextmanager
def at_a_terminal(stub: Stub, tmp_path: Path, *words: str) -> Iterator[Person]:
    environ = {
        **os.environ,
        "WINDLASS_URL": stub.url,
        "WINDLASS_DATA_DIR": str(tmp_path),
        "TERM": "xterm",
        "NO_COLOR": "1",
    }
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", PROGRAM, *words], environ)
    person = Person(pid, terminal)
    try:
        yield person
    finally:
        with_status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) if _is_child(pid) else True
        if with_status is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(terminal)


def _is_child(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


@pytest.fixture
def running(stub: Stub, tmp_path: Path) -> Iterator[Person]:
    """A job that has printed a line and goes on."""
    stub.lines["long"] = [("stdout", "started")]
    stub.held["long"] = threading.Event()
    with at_a_terminal(stub, tmp_path, "run", "--name", "long", "img", "--", "sleep", "999") as person:
        person.reads("started")
        person.types("\x03")
        person.reads("[c]ancel")
        yield person
    stub.held["long"].set()


def test_cancel_is_offered_and_ends_the_job(stub: Stub, running: Person) -> None:
    running.types("c")
    running.reads("long CANCELLED")
    assert running.waits() == exits.INTERRUPTED
    assert stub.jobs["long"]["status"]["state"] == "CANCELLED"


def test_a_second_interrupt_cancels(stub: Stub, running: Person) -> None:
    running.types("\x03")
    running.reads("long CANCELLED")
    assert running.waits() == exits.INTERRUPTED
    assert len(stub.requests("POST /api/v1/jobs/")) == 1


def test_detach_leaves_the_job_running(stub: Stub, running: Person) -> None:
    running.types("?d")  # a key that is no answer is read over
    running.reads("windlass logs -f long")
    assert running.waits() == exits.OK
    assert stub.jobs["long"]["status"]["state"] == "PENDING"


def test_continue_goes_on_where_it_was(stub: Stub, running: Person) -> None:
    running.types("\r")
    stub.held["long"].set()
    running.reads("long SUCCEEDED")
    assert running.waits() == exits.OK
    assert running.seen.count("started") == 1
    assert len(stub.requests("GET /api/v1/jobs/0190")) >= 1


def test_without_a_terminal_an_interrupt_cancels_at_once(stub: Stub, tmp_path: Path) -> None:
    import subprocess

    stub.lines["long"] = [("stdout", "started")]
    stub.held["long"] = threading.Event()
    environ = {**os.environ, "WINDLASS_URL": stub.url, "WINDLASS_DATA_DIR": str(tmp_path)}
    words = [sys.executable, "-c", PROGRAM, "run", "--name", "long", "img"]
    process = subprocess.Popen(
        words, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == exits.INTERRUPTED
    assert b"cancelling long" in err
