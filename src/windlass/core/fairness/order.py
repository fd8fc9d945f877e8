"""Numbers of which the lowest is wanted next, many thousands of them: sorted only as far as anybody has looked.

A heap of ten thousand entries touches two dozen of them, far apart, whenever one is replaced; most of the time is then spent
waiting for memory. Here the few that come next are sorted; the rest lies in blocks that follow each other but are in no order
inside. To push is to find the block and append; a block is sorted, and cut when it is long, once its turn has come. O(log n),
amortised.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable
from typing import Final

_BLOCK: Final = 256


class Order:
    __slots__ = ("_blocks", "_bounds", "count", "near")

    def __init__(self, entries: Iterable[int] = ()) -> None:
        self.reset(entries)

    def __len__(self) -> int:
        return self.count

    def reset(self, entries: Iterable[int]) -> None:
        self.near: list[int] = []
        """Those that come next, sorted; all of them below the first bound. Empty only when there is nothing at all."""
        self._bounds: list[int] = []
        """No entry of a block is below its bound, nor above the next one."""
        self._blocks: list[list[int]] = []
        everything = sorted(entries)
        self.count = len(everything)
        self._spread(everything)

    def push(self, entry: int) -> None:
        self.count += 1
        at = bisect_right(self._bounds, entry)
        if at:
            self._blocks[at - 1].append(entry)
        else:
            self._come_near(entry)

    def drop_first(self) -> None:
        self.count -= 1
        del self.near[0]
        if not self.near:
            self._open_block()

    def raise_first(self, entry: int) -> bool:
        """The first one becomes `entry`, which is no lower; False when another is first now."""
        near = self.near
        if len(near) > 1 and near[1] > entry:
            near[0] = entry
            return True
        del near[0]
        at = bisect_right(self._bounds, entry)
        if at:
            self._blocks[at - 1].append(entry)
        else:
            self._come_near(entry)
        if not self.near:
            self._open_block()
        return self.near[0] == entry

    def _come_near(self, entry: int) -> None:
        """Below every bound."""
        near = self.near
        insort(near, entry)
        if len(near) > 2 * _BLOCK:
            self._spread(near)

    def _open_block(self) -> None:
        if self._blocks:
            del self._bounds[0]
            block = self._blocks.pop(0)
            block.sort()
            self._spread(block)

    def _spread(self, entries: list[int]) -> None:
        """Sorted, and below every bound there is: the first of them come near, the others become blocks at the front."""
        self.near = entries[:_BLOCK]
        blocks = [entries[at : at + _BLOCK] for at in range(_BLOCK, len(entries), _BLOCK)]
        if blocks:
            self._blocks[:0] = blocks
            self._bounds[:0] = [block[0] for block in blocks]
