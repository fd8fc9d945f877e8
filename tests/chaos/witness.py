"""What really happened, by the engine's own record: starts per run.

The engine remembers its last 256 events and forgets the rest without a word, so who asks afterwards has seen a part and
takes it for the whole. The witness listens from the beginning, and knows that it has heard everything up to now.
"""

import contextlib
import json
import secrets
import threading
import time
from collections import Counter
from types import TracebackType
from typing import Any, Self

from tests.parts.dockerd import DockerEngine
from tests.parts.engine_api import Stream
from tests.parts.waiting import wait_for


class Witness:
    """Of everything that starts on the engine while it is open."""

    def __init__(self, engine: DockerEngine) -> None:
        self._engine = engine
        self._starts: list[str] = []
        self._marks: set[str] = set()
        self._stream: Stream | None = None
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        # The engine answers before it listens for us; what comes in between it hands over, because we say since when.
        self._stream = self._engine.stream("/events", since=f"{time.time():.9f}")
        self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.end()
            self._listener.join(60)

    def starts(self) -> Counter[str]:
        """Starts per run so far, by the label that every container of ours carries."""
        self._hear_all_until_now()
        return Counter(self._starts)

    def in_order(self) -> list[str]:
        """The runs, as their containers started."""
        self._hear_all_until_now()
        return list(self._starts)

    @property
    def heard(self) -> int:
        """How many starts it has heard of, at once and perhaps a little behind."""
        return len(self._starts)

    def _listen(self) -> None:
        assert self._stream is not None
        with contextlib.suppress(OSError, ValueError):  # ended by us; who still needs it asks whether we live
            for line in self._stream:
                self._note(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        happened, actor = (event["Type"], event["Action"]), event["Actor"]
        if happened == ("container", "start") and "windlass.dev/run" in actor["Attributes"]:
            self._starts.append(actor["Attributes"]["windlass.dev/run"])
        elif happened == ("volume", "create"):
            self._marks.add(actor["ID"])

    def _hear_all_until_now(self) -> None:
        """Events come in their order: what was before an event of our own has been heard when that one is."""
        mark = f"witness-{secrets.token_hex(6)}"
        self._engine.call("POST", "/volumes/create", body={"Name": mark})
        try:
            wait_for(lambda: self._heard(mark), 120, "the engine's events")
        finally:
            self._engine.call("DELETE", f"/volumes/{mark}")

    def _heard(self, mark: str) -> bool:
        assert self._listener.is_alive(), "the engine's events broke off"
        return mark in self._marks
