"""Ctrl-C while a job is being followed: the job lives on the server, so the question is what to do with it.

The answer is asked for inside the signal handler, so the log stream that was being read is neither broken nor skipped: when
the answer is "continue", reading goes on at the very byte where it stood.
"""

import os
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType

from windlass.cli.failures import show
from windlass.core.errors import WindlassError

QUESTION = "\n{name} is not over.\n[c]ancel it   [d]etach and let it go on   [Enter] keep watching: "
"""Two lines, so that none wraps at 80 characters whatever the name: a key is typed at the very place it is asked for."""
CANCEL, DETACH, WATCH = b"c", b"d", b"\n"
_ENDS = (b"", b"\x04")
"""Of the input: none to come, or Ctrl-D."""


LAST_WORDS_SECONDS = 2.0
"""After a cancel: whoever wants an end does not want to watch all that was printed before it, which may take minutes."""


class Detached(Exception):
    """The user leaves, the job stays."""


class Interrupts:
    """`was_cancelled` tells an end we asked for from one that somebody else did."""

    def __init__(
        self,
        name: str,
        cancel: Callable[[], object],
        *,
        asking: Callable[[], AbstractContextManager[object]] = nullcontext,
        can_ask: bool = True,
    ) -> None:
        """`asking` holds while the question stands: whatever draws on the terminal keeps still."""
        self._can_ask = can_ask
        self._name = name
        self._cancel = cancel
        self._asking = asking
        self.was_cancelled = False
        self._cancelled_at = 0.0

    @property
    def is_impatient(self) -> bool:
        """The job was cancelled, and there was time for its last words."""
        return self.was_cancelled and time.monotonic() - self._cancelled_at > LAST_WORDS_SECONDS

    @contextmanager
    def handled(self) -> Iterator[None]:
        previous = signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.was_cancelled:
            raise KeyboardInterrupt  # asked a third time: leave at once
        with self._asking():
            answer = self._ask() if self._can_ask and sys.stdin.isatty() and sys.stderr.isatty() else CANCEL
        if answer == DETACH:
            raise Detached
        if answer == CANCEL:
            self._do_cancel()

    def _ask(self) -> bytes:
        """One key is enough. A second Ctrl-C, or an end of input, means cancel."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with _by_key():
                os.write(2, QUESTION.format(name=self._name).encode())
                return _answer()
        except KeyboardInterrupt:
            return CANCEL
        finally:
            signal.signal(signal.SIGINT, self._on_interrupt)  # first: who sees the line end may ask again at once
            os.write(2, b"\n")

    def _do_cancel(self) -> None:
        self.was_cancelled, self._cancelled_at = True, time.monotonic()
        os.write(2, f"cancelling {self._name} …\n".encode())
        try:
            self._cancel()
        except WindlassError as exc:
            if exc.code != "already-over":
                show(exc)


@contextmanager
def endings_raised() -> Iterator[None]:
    """SIGTERM and SIGHUP as exceptions, as Ctrl-C is one, so that what was begun is taken back. One that whoever started us
    has told us to ignore, as `nohup` does, stays ignored."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    heeded = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for one in heeded:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in heeded:
            signal.signal(one, signal.SIG_DFL)


@contextmanager
def _by_key() -> Iterator[None]:
    """Keys come as they are typed, and unseen. What was typed before the question was no answer to it."""
    saved = termios.tcgetattr(0)
    tty.setcbreak(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, saved)


def _answer() -> bytes:
    """The first key that is one of the answers; any other is read over."""
    while True:
        key = os.read(0, 1).lower()
        if key in _ENDS:
            return CANCEL
        if key in (CANCEL, DETACH, WATCH, b"\r"):
            return key
