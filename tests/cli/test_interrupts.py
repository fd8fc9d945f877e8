"""Ctrl-C in a real terminal while a job is followed: cancel, detach, continue; and a second one cancels."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.person import DEADLINE_SECONDS, PROGRAM, Person, at_a_stub
from tests.cli.stub import Stub

from windlass.cli import exits


@pytest.fixture
def running(stub: Stub, tmp_path: Path) -> Iterator[Person]:
    """A job that has printed a line and goes on."""
    stub.lines["long"] = [("stdout", "started")]
    stub.held["long"] = threading.Event()
    with at_a_stub(stub, tmp_path, "run", "--name", "long", "img", "--", "sleep", "999") as person:
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


def test_detach_keeps_also_what_was_to_be_removed(stub: Stub, tmp_path: Path) -> None:
    stub.lines["long"] = [("stdout", "started")]
    stub.held["long"] = threading.Event()
    with at_a_stub(stub, tmp_path, "run", "--rm", "--name", "long", "img") as person:
        person.reads("started")
        person.types("\x03")
        person.reads("[c]ancel")
        person.types("d")
        person.reads("--rm will not be served")
        assert person.waits() == exits.OK
    stub.held["long"].set()
    assert stub.requests("DELETE") == []


def test_continue_goes_on_where_it_was(stub: Stub, running: Person) -> None:
    running.types("\r")
    stub.held["long"].set()
    running.reads("long SUCCEEDED")
    assert running.waits() == exits.OK
    assert running.seen.count("started") == 1
    assert len(stub.requests("GET /api/v1/jobs/0190")) >= 1


def test_without_a_terminal_an_interrupt_cancels_at_once(stub: Stub, tmp_path: Path) -> None:
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
