"""`egpu debug` at a real terminal: keys arrive, the window's size follows, Ctrl-C reaches the command, its code comes back."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from tests.kube.lab import DEADLINE, Egpu, Lab
from tests.kube.operator import ROOT, Operator
from tests.parts import busybox
from tests.parts.waiting import wait_for

PROGRAM = "from windlass.boot.entry import egpu; egpu()"


class Person:
    """Somebody at a terminal of their own, with `egpu …` in it."""

    def __init__(self, lab: Lab, *words: str) -> None:
        home = ("--kubeconfig", str(lab.cluster.kubeconfig), "-n", lab.namespace)
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src", "WINDLASS_SIDE_IMAGE": busybox.IMAGE, "TERM": "xterm"}
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, [sys.executable, "-c", PROGRAM, *home, *words], environment)
        self.seen = ""
        self.code: int | None = None

    def types(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def sizes_the_window(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def reads(self, words: str, deadline: float = DEADLINE) -> bool:
        """Until the words were shown after whatever was asked for last; forgets what it has read."""
        end = time.monotonic() + deadline
        while words not in self.seen:
            if time.monotonic() > end or not self._read(end):
                raise AssertionError(f"{words!r} was never shown; this was: {self.seen!r}")
        self.seen = self.seen.partition(words)[2]
        return True

    def leaves(self) -> int:
        """Until the program has ended; its exit code."""
        end = time.monotonic() + DEADLINE
        while self._read(end):
            pass
        _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def close(self) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], max(0, end - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing more was shown; this was: {self.seen!r}")
        try:
            shown = os.read(self._terminal, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += shown.decode(errors="replace")
        return bool(shown)


@pytest.fixture
def person(lab: Lab, operator: Operator, egpu: Egpu) -> Iterator[Person]:
    light = ("--image", busybox.IMAGE, "--gpu", "0", "--cpu", "100m", "--memory", "64Mi")
    egpu("create", "seen", *light, "--watch", "--", "sh", "-c", "echo kept > /artifacts/it")
    somebody = Person(lab, "debug", "seen")
    somebody.sizes_the_window(33, 91)
    yield somebody
    somebody.close()


def test_debug_is_a_real_terminal_from_its_size_to_its_exit_code(lab: Lab, person: Person) -> None:
    person.reads("/mnt $")  # not before: what is typed ahead of the shell's own terminal is thrown away
    person.types("cat /mnt/it\r")
    person.reads("kept")
    # The size is told beside the keys, so a command may run before it is there.
    ask = "until stty size | grep -q '{0} {1}'; do sleep 0.2; done; echo it fi\"\"ts\r"
    person.types(ask.format(33, 91))
    person.reads("it fits")
    person.sizes_the_window(44, 101)
    person.types(ask.format(44, 101))
    person.reads("it fits")
    # Printed words are told from typed ones by the quotes in them.
    person.types("sh -c 'echo wait\"\"ing; exec sleep 3000'\r")  # by itself, so that it is there to be ended
    person.reads("waiting")
    person.types("\x03")
    person.types('echo al""ive\r')
    person.reads("alive")
    person.types("exit 7\r")
    assert person.leaves() == 7
    wait_for(lambda: lab.items("pods") == [], DEADLINE, "the debug pod to go")
