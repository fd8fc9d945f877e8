"""One living line on the terminal while a job has not said anything yet: why it waits, what it pulls, for how long.

It is asked for again every second, because the reasons change with the rest of the cluster and not with this job.
"""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from windlass.cli.plain import clean
from windlass.cli.render.values import detail, is_over, span, state_of
from windlass.client.client import Client
from windlass.client.documents import Manifest
from windlass.core.errors import WindlassError

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
CLEAR = "\r\x1b[K"
FRAME_SECONDS = 0.1
FRAMES_PER_LOOK = 10


class Announcer:
    """A context: the line is gone when it ends or `hush` is called. Does nothing when not `is_shown`."""

    def __init__(self, client: Client, ref: str, *, is_shown: bool) -> None:
        self._client = client
        self._ref = ref
        self._is_shown = is_shown
        self._hushed = threading.Event()
        self._is_still = False
        self._drawing = threading.RLock()
        """Re-entrant: the signal handler that asks for silence may have interrupted the one who did."""
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Announcer":
        if self._is_shown:
            self._thread = threading.Thread(target=self._live, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        self.hush()

    def hush(self) -> None:
        """Safe to call often and from a signal handler; the first call clears the line."""
        if self._thread is None or self._hushed.is_set():
            return
        with self._drawing:
            self._hushed.set()
            _write(CLEAR)

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nothing is drawn meanwhile."""
        with self._drawing:
            self._is_still = True
            if self._thread is not None and not self._hushed.is_set():
                _write(CLEAR)
        try:
            yield
        finally:
            self._is_still = False

    def _live(self) -> None:
        began, frame, shown = time.monotonic(), 0, "accepted"
        client = self._client.another()
        try:
            while not self._hushed.wait(FRAME_SECONDS):
                if frame % FRAMES_PER_LOOK == 0:
                    job = client.job(self._ref)
                    if is_over(job):
                        return
                    shown = sentence(job)
                frame += 1
                self._draw(f"{FRAMES[frame % len(FRAMES)]} {shown}  {span(time.monotonic() - began)}")
        except (WindlassError, OSError):
            return  # the log stream has the same trouble and reports it better
        finally:
            client.close()

    def _draw(self, text: str) -> None:
        with self._drawing:
            if not self._hushed.is_set() and not self._is_still:
                _write(CLEAR + clean(text)[: shutil.get_terminal_size().columns - 1])


def _write(text: str) -> None:
    """Unbuffered: it is also called inside a signal handler, which may have interrupted a buffered write."""
    os.write(2, text.encode())


def sentence(job: Manifest) -> str:
    state, why = state_of(job), detail(job)
    words = {
        "PENDING": "waiting",
        "SUSPENDED": "held back",
        "SCHEDULED": f"placed on {job['status'].get('node') or 'a node'}",
        "STARTING": "starting",
        "RUNNING": "running, no output yet",
    }.get(state, state.lower())
    return f"{words}: {why}" if why else words
