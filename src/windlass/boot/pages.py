"""Large pages for a large World. Its records are walked at random, and with small pages a good part of a decision is spent finding
out where in memory they lie.

The interpreter cannot be told to take them from the start. So what it has is gathered into large ones by the kernel (Linux 6.1 and
newer) once everything is loaded, and again whenever it has doubled. A kernel that cannot, or is set to `never`, changes nothing.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

WORTH_BYTES: Final = 256 << 20
"""Below, the processor remembers the addresses by itself, and a start should not wait for it."""
LOOK_SECONDS: Final = 60
_LARGE: Final = 2 << 20
_MADV_HUGEPAGE: Final = 14
_MADV_COLLAPSE: Final = 25


def gather(worth: int = WORTH_BYTES) -> int:
    """Answers how much memory was resident then; 0: too little to bother."""
    resident = _resident_bytes()
    if resident < worth:
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, end in list(_own_memory()):
        madvise(start, end - start, _MADV_HUGEPAGE)
        madvise(start, end - start, _MADV_COLLAPSE)  # an answer that says it could not, or not all, is as good
    return resident


async def keep_gathering(gathered: int) -> None:
    """Whenever there is twice as much as last time; beside the loop, which goes on meanwhile."""
    while True:
        await anyio.sleep(LOOK_SECONDS)
        if _resident_bytes() >= 2 * gathered:
            gathered = await to_thread.run_sync(gather) or gathered


def _resident_bytes() -> int:
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _own_memory() -> Iterator[tuple[int, int]]:
    """Where its objects lie, as far as whole large pages go: neither files nor stacks."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, _, _, inode, *name = line.split(maxsplit=5)
        if rights == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            low, _, high = span.partition("-")
            start, end = -(-int(low, 16) // _LARGE) * _LARGE, int(high, 16) // _LARGE * _LARGE
            if start < end:
                yield start, end
