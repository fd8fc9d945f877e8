"""An event loop in a thread, for who has none: anyio's, begun so that a signal finds it either there or not."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from anyio.from_thread import BlockingPortal, start_blocking_portal


@contextmanager
def open_portal() -> Iterator[BlockingPortal]:
    """Begun in another thread: anyio's own way, broken off by a signal while it begins, waits for ever for the end of a loop
    that nobody has told to end."""
    held, apart, opening = start_blocking_portal(), ThreadPoolExecutor(1), None
    try:
        opening = apart.submit(held.__enter__)
        yield opening.result()
    except BaseException as exc:
        if opening is not None and opening.exception() is None:
            held.__exit__(type(exc), exc, exc.__traceback__)
        raise
    else:
        held.__exit__(None, None, None)
    finally:
        apart.shutdown(wait=False)
