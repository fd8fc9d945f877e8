"""A read model that does not keep up, for as long as a test wants it to."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import anyio

from windlass.control.readmodel import ReadModel
from windlass.ports.store import Change


@contextmanager
def held_back(read_model: ReadModel) -> Iterator[None]:
    """Inside, it takes nothing more in; after, it goes on where it was."""
    take_in, released = read_model._take_in, anyio.Event()  # noqa: SLF001 — between the watch and the tables is no other door

    async def later(changes: Sequence[Change]) -> None:
        await released.wait()
        await take_in(changes)

    read_model._take_in = later  # type: ignore[method-assign]  # noqa: SLF001
    try:
        yield
    finally:
        read_model._take_in = take_in  # type: ignore[method-assign]  # noqa: SLF001
        released.set()
