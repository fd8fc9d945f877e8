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

    def say(self, text: str) -> None: ...


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
        TextColumn("{task.fields[images]}/{task.fields[wanted]} images", markup=False),
        DownloadColumn(binary_units=True),
        TimeElapsedColumn(),
    )
    with RichProgress(*columns, console=Console(stderr=True)) as shown:
        yield _Bars(shown)


class _Bars:
    def __init__(self, shown: "RichProgress") -> None:
        self._shown = shown
        self._tasks: dict[str, tuple[TaskID, int, int]] = {}

    def expect(self, node: str, images: int, size: int) -> None:
        if node in self._tasks:
            task, wanted, seen = self._tasks[node]
            self._tasks[node] = (task, wanted + images, seen)
            total = self._shown.tasks[self._shown.task_ids.index(task)].total or 0
            self._shown.update(task, total=total + max(size, 1), wanted=wanted + images)
            return
        task = self._shown.add_task(node, total=max(size, 1), images=0, wanted=images)
        self._tasks[node] = (task, images, 0)

    def done(self, node: str, size: int, *, ok: bool) -> None:
        task, wanted, seen = self._tasks[node]
        self._tasks[node] = (task, wanted, seen + ok)
        self._shown.update(task, advance=size, images=seen + ok)

    def say(self, text: str) -> None:
        self._shown.console.print(text, markup=False, highlight=False)
