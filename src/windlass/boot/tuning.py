"""How the interpreter is set for a server: a large, long-lived World beside many short-lived requests."""

import gc
import sys

from windlass.boot import pages

_YOUNG_OBJECTS = 50_000
_SWITCH_SECONDS = 0.0002


def tune() -> int:
    """Called once everything is loaded; answers how much memory was gathered into large pages.

    What is there now stays for good, so the collector need not look at it again; and it looks less often, since almost all
    of what a request makes is freed by counting. Threads hand the interpreter over sooner than the default 5 ms: the store's
    writer needs it for microseconds, when a commit begins and once it is on disk, and every answer waits for that writer.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 50)
    sys.setswitchinterval(_SWITCH_SECONDS)
    return pages.gather()
