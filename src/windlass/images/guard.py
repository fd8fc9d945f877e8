"""The disk guard: before an image goes to a node, is there room for it above the low-water mark?

What is under way counts as already there; an image that does not fit is refused, smaller ones may follow.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from windlass.images.errors import NodeError
from windlass.images.nodes import Node
from windlass.images.text import show_size

_PEAK: Final = 2
"""While an image is unpacked, what was downloaded and what is unpacked lie on the disk together."""


class NoRoom(NodeError):
    """The node's image disk would fall below MIN_FREE."""


class DiskGuard:
    def __init__(self, min_free_bytes: int) -> None:
        self._min_free = min_free_bytes
        self._under_way: defaultdict[str, int] = defaultdict(int)

    async def check(self, node: Node, size: int) -> None:
        """Raise `NoRoom` when `size` more bytes would pass the mark. A mark of 0 turns the guard off."""
        if self._min_free == 0:
            return
        free = await node.free_bytes()
        left = free - self._under_way[node.name] - _PEAK * size
        if left < self._min_free:
            what = f"{show_size(free)} free, the image takes up to {show_size(_PEAK * size)} while it is unpacked"
            step = "prune the node, or lower MIN_FREE"
            raise NoRoom(
                "disk.low", what, where=node.name, expected=f"{show_size(self._min_free)} left after it", next_step=step
            )

    @contextlib.contextmanager
    def reserved(self, node: Node, size: int) -> Iterator[None]:
        self._under_way[node.name] += _PEAK * size
        try:
            yield
        finally:
            self._under_way[node.name] -= _PEAK * size
