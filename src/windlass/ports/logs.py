"""The logs of runs, kept on the node past the run's end: written by the agent, read by whoever serves them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from msgspec import Struct

from windlass.core.model.ids import JobId, RunId
from windlass.ports.runtime import LogLine, LogPosition

KEPT_HEAD_BYTES: Final = 50 << 20
KEPT_TAIL_BYTES: Final = 50 << 20
ENTRY_BYTES: Final = 34
"""What is kept of a run's log, its beginning and its end, counted with what each line takes beside its text. Who has given the
first and sees that far more than the second is to come need not give what lies between."""


class LogEntry(Struct, frozen=True, kw_only=True):
    offset: int
    """The position after this entry: where a reader that has it resumes."""
    at: str
    stream: str
    text: bytes
    is_partial: bool = False


class LogWriter(Protocol):
    position: LogPosition
    """What is held already: where the runtime's stream is to be resumed."""

    async def append(self, lines: Sequence[LogLine]) -> None: ...

    async def seal(self) -> None:
        """Nothing more will come: readers that follow may end."""
        ...

    async def tail(self, *, lines: int, characters: int) -> str:
        """The end of the log, for a failure's message."""
        ...


class Logs(Protocol):
    def writer(self, run: RunId) -> AbstractAsyncContextManager[LogWriter]:
        """Opens what is there and repairs a torn end, or begins anew."""
        ...

    def read(
        self, run: RunId, *, after: int = 0, follow: bool = False, tail: int | None = None
    ) -> AsyncIterator[LogEntry]:
        """From `after` on; following ends when the log is sealed. NotFound when there is none and none is awaited."""
        ...

    def is_there(self, run: RunId) -> bool: ...

    def is_sealed(self, run: RunId) -> bool: ...

    async def closed(self, run: RunId) -> None:
        """Returns when nobody writes to it any more: an end may be told before all of the log is here."""
        ...

    async def jobs(self) -> tuple[JobId, ...]:
        """All that have a log, for the sweep of those nobody remembers."""
        ...

    async def forget(self, job: JobId) -> None:
        """The logs of all its runs go; who follows one of them comes to its end."""
        ...
