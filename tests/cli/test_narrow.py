"""Every table in terminals of several widths, and in a pipe: a real server, and real terminals."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest
from tests.cli.server import DEADLINE_SECONDS, RealServer, real_server
from tests.parts.ports import free_port
from tests.parts.waiting import wait_for

from windlass.cli.render.table import columns_of

LONG = "a-name-that-is-rather-long-for-the-narrow-terminals-of-some"
COMMAND = "echo this is a command line that nobody could call short; echo and there is more of it yet; exit 3"
TABLES = (
    ("get", "jobs"),
    ("get", "nodes"),
    ("get", "volumes"),
    ("get", "pools"),
    ("tenants", "list"),
    ("tenants", "tokens", "vision"),
    ("pools", "history", "grows"),
    ("secrets", "list"),
    ("registries", "list"),
    ("cost", "--by", "job"),
    ("cost", "--by", "tenant", "--all"),
    ("fairness",),
    ("queues",),
    ("events",),
    ("audit",),
    ("savings",),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with real_server(tmp_path_factory.mktemp("server"), free_port()) as running:
        _fill(running)
        yield running


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_nothing_is_wider_than_the_terminal(server: RealServer, words: tuple[str, ...]) -> None:
    for width in (60, 80, 120):
        lines = on_terminal(server, width, *words)
        assert lines
        assert max(map(columns_of, lines)) <= width, "\n".join(lines)


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_a_pipe_gets_everything_and_so_does_wide(server: RealServer, words: tuple[str, ...]) -> None:
    for piped in (server.windlass(*words), server.windlass(*words, "-o", "wide")):
        assert piped.returncode == 0, piped.stderr
        assert "…" not in piped.stdout
        assert "-o wide" not in piped.stderr
    wide = on_terminal(server, 60, *words, "-o", "wide")
    assert "…" not in "".join(wide)


def test_a_long_name_gives_way_after_the_command_does(server: RealServer) -> None:
    def the_failed(lines: list[str]) -> str:
        return next(line for line in lines if line.startswith(LONG[:10]) and "FAILED" in line)

    assert COMMAND in the_failed(server.windlass("get", "jobs").stdout.splitlines())
    wide = the_failed(on_terminal(server, 120, "get", "jobs"))
    assert LONG in wide
    assert COMMAND not in wide
    lines = on_terminal(server, 60, "get", "jobs")
    assert the_failed(lines).endswith("exit code 3")
    assert lines[-1] == "-o wide adds RAN, WHAT"


def test_the_page_about_a_job_is_no_wider_either(server: RealServer) -> None:
    lines = on_terminal(server, 60, "describe", "small")
    table = lines[lines.index("Runs") :]
    assert max(map(columns_of, table)) <= 60, "\n".join(lines)


def on_terminal(server: RealServer, width: int, *words: str) -> list[str]:
    """What a person sees who types this where so many characters stand side by side."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    command = [sys.executable, "-c", "from windlass.boot.entry import windlass; windlass()", *words]
    environ = {**server.environ, "TERM": "xterm"}
    environ.pop("COLUMNS", None)
    shown = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=its, stderr=its)
    os.close(its)
    seen = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    assert shown.wait(DEADLINE_SECONDS) == 0, seen
    return seen.decode().splitlines()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how a terminal says that nobody writes to it any more
        return b""


def _fill(server: RealServer) -> None:
    def do(*words: str, stdin: str | None = None) -> None:
        done = server.windlass(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr

    do("run", "--name", "small", "--", "true")
    server.windlass("run", "--name", LONG, "--", "sh", "-c", COMMAND)
    do("pools", "create", "grows", "--cpu", "100m", "--memory", "128Mi", "--min", "1", "--max", "2")
    wait_for(lambda: "grows" in server.windlass("get", "nodes").stdout, 60, "the pool's worker")
    do("run", "-d", "--name", "holds", "--cpu", "1", "--", "sleep", "3600")
    for name in ("waits", f"{LONG}-2"):
        do("run", "-d", "--name", name, "--cpu", "1", "--memory", "2Gi", "--", "sleep", "3600")
    do("tenants", "create", "vision", "--tier", "premium", "--cpu", "16", "--memory", "64Gi")
    do("tenants", "create", LONG)
    do("tenants", "token", "vision", "--subject", "continuous-integration")
    do("secrets", "set", "a-secret-with-a-name-of-some-length", stdin="x")
    do("registries", "login", "registry.somewhere-far-away.example.com:5000", "-u", "ci", stdin="x")
