"""What a run shows while it works: a bar per node on a terminal, nothing elsewhere."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Progress(Protocol):
    def expect(self, node: str, images: int, size: int) -> None:
        """So many images, so many bytes, are to reach this node."""
        ...

    def done(self, node: str, size: int, *, ok: bool) -> None: ...

    def say(self, text: str) -> None:
        """A line above the bars: what the run has come to."""
        ...


class Quiet:
    """For cron, pipes and tests."""

    def expect(self, node: str, images: int, size: int) -> None:
        return None

    def done(self, node: str, size: int, *, ok: bool) -> None:
        return None

    def say(self, text: str) -> None:
        return None


@contextlib.contextmanager
def bars() -> Iterator[Progress]:
    """Bars on stderr, so that stdout stays clean for the summary or JSON."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        DownloadColumn(binary_units=True),
        TimeElapsedColumn(),
    )
    with RichProgress(*columns, console=Console(stderr=True)) as shown:
        yield _Bars(shown)


class _Bars:
    def __init__(self, shown: "RichProgress") -> None:
        self._shown = shown
        self._nodes: dict[str, _Bar] = {}

    def expect(self, node: str, images: int, size: int) -> None:
        bar = self._nodes.get(node)
        if bar is None:
            bar = self._nodes[node] = _Bar(self._shown.add_task(node, total=0, note=""))
        # What a pull did not bring and a peer shall is counted once.
        bar.failed = max(0, bar.failed - images)
        bar.wanted = max(bar.wanted, bar.got + bar.failed + images)
        bar.size = max(bar.size, bar.got_size + size, 1)
        self._shown.update(bar.task, total=bar.size, note=bar.note)

    def done(self, node: str, size: int, *, ok: bool) -> None:
        bar = self._nodes[node]
        bar.got += ok
        bar.failed += not ok
        bar.got_size += size if ok else 0
        # A bar that stops short says that something did not arrive.
        self._shown.update(bar.task, completed=bar.got_size, note=bar.note)

    def say(self, text: str) -> None:
        self._shown.console.print(text, markup=False, highlight=False)


class _Bar:
    """One node's: how many images of how many, and how many failed."""

    def __init__(self, task: "TaskID") -> None:
        self.task = task
        self.wanted = self.got = self.failed = self.size = self.got_size = 0

    @property
    def note(self) -> str:
        return f"{self.got}/{self.wanted} images{f', {self.failed} failed' if self.failed else ''}"
