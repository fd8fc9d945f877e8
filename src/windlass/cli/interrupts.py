"""Ctrl-C while a job is being followed: the job lives on the server, so the question is what to do with it.

The answer is asked for inside the signal handler, so the log stream that was being read is neither broken nor skipped: when
the answer is "continue", reading goes on at the very byte where it stood.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType

from windlass.cli.failures import show
from windlass.core.errors import WindlassError

QUESTION = "\n{name} is not over.  [c]ancel it   [d]etach and let it go on   [Enter] keep watching: "


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
    ) -> None:
        """`asking` holds while the question stands: whatever draws on the terminal keeps still."""
        self._name = name
        self._cancel = cancel
        self._asking = asking
        self.was_cancelled = False

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
            answer = self._ask() if sys.stdin.isatty() and sys.stderr.isatty() else "c"
        if answer.startswith("d"):
            raise Detached
        if answer.startswith("c"):
            self._do_cancel()

    def _ask(self) -> str:
        """A second Ctrl-C, or an end of input, means cancel."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            os.write(2, QUESTION.format(name=self._name).encode())
            line = os.read(0, 100)
            return line.decode(errors="replace").strip().lower() if line else "c"
        except KeyboardInterrupt:
            return "c"
        finally:
            signal.signal(signal.SIGINT, self._on_interrupt)

    def _do_cancel(self) -> None:
        self.was_cancelled = True
        os.write(2, f"\ncancelling {self._name} …\n".encode())
        try:
            self._cancel()
        except WindlassError as exc:
            if exc.code != "already-over":
                show(exc)
