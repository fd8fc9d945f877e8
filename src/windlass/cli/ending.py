"""How a job ends, heard beside its terminal: that tells what its command ended with, not why, nor that the server goes too."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

from windlass.cli.render.values import is_over
from windlass.client.client import Client
from windlass.client.documents import Happening, Manifest
from windlass.core.errors import WindlassError
from windlass.core.model.run import TAKEN_DOWN


class Ending:
    """Listened for from the beginning: a server that is taken down waits until all who listen have heard, and then is gone."""

    def __init__(self, client: Client, job: Manifest) -> None:
        self._client = client.another()
        self._job = job
        self._ended: Manifest | None = None
        self._is_known = threading.Event()

    @contextmanager
    def listened_for(self, on_over: Callable[[], None] = lambda: None) -> Iterator[None]:
        """`on_over` is called in a thread of its own."""
        happenings = self._client.follow_happenings(self._job["metadata"]["uid"])

        def listen() -> None:
            try:
                with suppress(WindlassError, OSError):
                    self._ended = self._judge([*happenings][-1:])
                    if self._ended is not None:
                        on_over()
            finally:
                self._is_known.set()

        threading.Thread(target=listen, daemon=True).start()
        try:
            yield
        finally:
            happenings.close()

    def wait(self, seconds: float | None = None) -> Manifest | None:
        """The job as it ended; None when that could not be heard, or not within this time. Within `listened_for`."""
        self._is_known.wait(seconds)
        return self._ended

    def _judge(self, last: list[Happening]) -> Manifest | None:
        if last and last[0]["reason"] == TAKEN_DOWN:  # with the server: there may be nobody to ask for more
            end = {"state": "CANCELLED", "reason": TAKEN_DOWN, "message": last[0]["message"]}
            self._job["status"] |= cast(Any, end)
            return self._job
        job = self._client.job(self._job["metadata"]["uid"])
        return job if is_over(job) else None
