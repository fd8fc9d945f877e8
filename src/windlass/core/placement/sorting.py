"""Tuples kept sorted in short blocks: adding, removing, finding and counting cost O(√n) at worst, and a few steps in practice."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

Item = tuple[int, int, int, str]
Bound = tuple[int | str, ...]
"""An item, or how one begins: below every item that begins so."""
_BLOCK: Final = 256


class Sorted:
    def __init__(self) -> None:
        self._blocks: list[list[Item]] = [[]]
        self._lasts: list[Item] = []
        """The last of each block, but of the last block."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, item: Item) -> None:
        self._count += 1
        at = bisect_left(self._lasts, item)
        block = self._blocks[at]
        insort(block, item)
        if len(block) > 2 * _BLOCK:
            self._blocks[at : at + 1] = [block[:_BLOCK], block[_BLOCK:]]
            self._lasts.insert(at, block[_BLOCK - 1])

    def remove(self, item: Item) -> None:
        """One that is in it."""
        self._count -= 1
        at = bisect_left(self._lasts, item)
        block = self._blocks[at]
        del block[bisect_left(block, item)]
        if not block and len(self._blocks) > 1:
            del self._blocks[at]
            del self._lasts[min(at, len(self._lasts) - 1)]

    def at_least(self, item: Bound) -> Item | None:
        """The first that is not below it."""
        for at in range(bisect_left(self._lasts, item), len(self._blocks)):
            block = self._blocks[at]
            if block and block[-1] >= item:
                return block[bisect_left(block, item)]
        return None

    def below(self, item: Bound) -> int:
        """How many are below it."""
        at = bisect_left(self._lasts, item)
        return sum(len(block) for block in self._blocks[:at]) + bisect_left(self._blocks[at], item)

    def descending(self) -> Iterator[Item]:
        for block in reversed(self._blocks):
            yield from reversed(block)
