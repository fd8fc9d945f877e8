"""A bar for bytes on their way. rich is imported only when one is drawn."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Told = Callable[[int], None]


@contextmanager
def transfer(what: str, total: int | None, *, is_drawn: bool) -> Iterator[Told]:
    """Yields a function to be told of every chunk. `total` None: the end is not known beforehand."""
    if not is_drawn:
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=32),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{what:>10}", total=total)
        yield lambda size: bar.advance(task, size)


@contextmanager
def counted(what: str, total: int, *, is_drawn: bool) -> Iterator[Told]:
    """Yields a function to be told how many of `total` are done by now."""
    if not is_drawn:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{what:>10}", total=total)
        yield lambda done: bar.update(task, completed=done)
