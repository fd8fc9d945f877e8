"""Files into and out of a directory whose content is not to be trusted: our own unpacking and packing of tar streams.

`tarfile.extractall` of the Pythons we run on escapes its root, with every filter. Here a name is resolved by the kernel below
the root without following any link (openat2; a walk of O_NOFOLLOW steps where the kernel lacks it). The bytes go through
threads.
"""

from collections.abc import AsyncIterator
from typing import Final

import anyio

from windlass.adapters.staging.beneath import steps_of
from windlass.adapters.staging.pack import next_chunk, packed
from windlass.adapters.staging.unpack import Limits, Unpacking

__all__ = ["Limits", "archive", "extract"]

_LIMITS: Final = Limits()


async def extract(root: str, path: str, tar: AsyncIterator[bytes], *, limits: Limits = _LIMITS) -> None:
    """Unpack into `path` below `root`; parents are made. Invalid, TooLarge; what was unpacked until then stays."""
    base = steps_of(path)
    unpacking = await anyio.to_thread.run_sync(Unpacking, root, base, limits)
    try:
        async for chunk in tar:
            await anyio.to_thread.run_sync(unpacking.feed, chunk)
        await anyio.to_thread.run_sync(unpacking.finish)
    finally:
        unpacking.close()


async def archive(root: str, path: str) -> AsyncIterator[bytes]:
    """A tar stream of `path` below `root`, named by its last step; of the root, by `.`. NotFound."""
    pieces = packed(root, steps_of(path))
    try:
        while chunk := await anyio.to_thread.run_sync(next_chunk, pieces):
            yield chunk
    finally:
        pieces.close()
