"""Said once to whoever waits for a job that nobody has looked at: on a cluster the one who drives it may not be there."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from windlass.cli.output import note
from windlass.client.client import Client
from windlass.client.kube.unseen import UNSEEN_SECONDS
from windlass.core.errors import WindlassError


@contextmanager
def unseen_told(
    client: Client,
    ref: str,
    *,
    still: Callable[[], AbstractContextManager[object]] = nullcontext,
    seconds: float = UNSEEN_SECONDS,
) -> Iterator[None]:
    """`still` holds while it is said: whatever draws on the terminal keeps still."""

    def tell() -> None:
        another = client.another()
        with suppress(WindlassError, OSError):  # whoever waits has the same trouble and reports it better
            if words := another.unseen(ref):
                with still():
                    note(words)
        another.close()

    timer = threading.Timer(seconds, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
