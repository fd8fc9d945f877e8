"""Somebody at a real terminal, with a program in it: reads what is shown, types, and pulls at the window."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli.stub import Stub

DEADLINE_SECONDS = 180
PROGRAM = "from windlass.cli.app import build; build({})()"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Person:
    """`seen` is everything the program wrote, from its beginning on."""

    def __init__(self, pid: int, terminal: int) -> None:
        self._pid, self._terminal = pid, terminal
        self._decode = codecs.getincrementaldecoder("utf-8")().decode  # what is read at once may end within a character
        self._code: int | None = None
        self._looked = 0
        self.seen = ""

    def reads(self, words: str) -> None:
        """Until the words stand after whatever was read for last."""
        end = time.monotonic() + DEADLINE_SECONDS
        while (at := self.seen.find(words, self._looked)) < 0:
            assert self._read(end), f"it ended without {words!r}: {self.seen!r}"
        self._looked = at + len(words)

    def types(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def sizes_the_window(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def waits(self) -> int:
        """For its end; the exit code."""
        end = time.monotonic() + DEADLINE_SECONDS
        while self._read(end):
            pass
        _, status = os.waitpid(self._pid, 0)
        self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def lines(self) -> list[str]:
        """What stood on one line at any time: a line that was written over counts as often as it was written."""
        return [_CONTROL.sub("", line) for line in re.split(r"[\r\n]+", self.seen)]

    def leaves(self) -> None:
        if self._code is None:
            os.kill(self._pid, signal.SIGKILL)  # a child that nobody has waited for: its id is still its own
            os.waitpid(self._pid, 0)
        os.close(self._terminal)

    def _read(self, end: float) -> bool:
        left = end - time.monotonic()  # also where it goes on to draw, as a spinner does
        assert left > 0, f"no end of {self.seen[-2000:]!r}"
        ready, _, _ = select.select([self._terminal], [], [], left)
        assert ready, f"nothing more was shown after {self.seen[-2000:]!r}"
        try:
            shown = os.read(self._terminal, 65536)
        except OSError:  # how a terminal says that nobody writes to it any more
            return False
        self.seen += self._decode(shown)
        return bool(shown)


@contextmanager
def at_a_terminal(program: str, *words: str, environ: Mapping[str, str]) -> Iterator[Person]:
    """`program` is a line of Python; the window has 24 lines of 80 characters."""
    surroundings = {k: v for k, v in environ.items() if k not in {"COLUMNS", "LINES"}}
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.execve(
            sys.executable, [sys.executable, "-c", program, *words], {**surroundings, "TERM": "xterm", "NO_COLOR": "1"}
        )
    person = Person(pid, terminal)
    try:
        yield person
    finally:
        person.leaves()


@contextmanager
def at_a_stub(stub: Stub, tmp_path: Path, *words: str) -> Iterator[Person]:
    """The command line, before a server that answers by script."""
    environ = {**os.environ, "WINDLASS_URL": stub.url, "WINDLASS_DATA_DIR": str(tmp_path)}
    with at_a_terminal(PROGRAM, *words, environ=environ) as person:
        yield person
