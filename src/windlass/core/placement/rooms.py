"""Nodes by what is free on them. Many have the same left: they share a room, and only the rooms are searched.

A search over ten thousand tuples waits for memory at every step; over the few dozen different ones it does not. Rooms lie sorted
in short blocks, each with the count of its nodes, so that all different costs O(√n) at worst, and a few steps in practice.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

from windlass.core.model.ids import NodeId

Room = tuple[int, ...]
"""Free GPUs, cores, memory: three. Said so, compiled code would take it apart and make it anew at every step."""
Bound = tuple[int, ...]
"""A room, or how one begins: below every room that begins so."""
_BLOCK: Final = 256


class Rooms:
    def __init__(self) -> None:
        self._nodes: dict[Room, list[NodeId]] = {}
        """By name."""
        self._blocks: list[list[Room]] = [[]]
        self._there: list[list[list[NodeId]]] = [[]]
        """The nodes of each room of each block: the lists that `_nodes` has."""
        self._counts: list[int] = [0]
        """Nodes in each block."""
        self._lasts: list[Room] = []
        """The last room of each block, but of the last block."""

    def __len__(self) -> int:
        return sum(self._counts)

    def add(self, room: Room, node: NodeId) -> None:
        at = bisect_left(self._lasts, room)
        self._counts[at] += 1
        nodes = self._nodes.get(room)
        if nodes is not None:
            insort(nodes, node)
        else:
            self._open(at, room, [node])

    def remove(self, room: Room, node: NodeId) -> None:
        """One that is in it."""
        at = bisect_left(self._lasts, room)
        self._counts[at] -= 1
        nodes = self._nodes[room]
        del nodes[bisect_left(nodes, node)]
        if not nodes:
            del self._nodes[room]
            self._close(at, room)

    def at_least(self, bound: Bound) -> Room | None:
        """The first that is not below it."""
        for at in range(bisect_left(self._lasts, bound), len(self._blocks)):
            block = self._blocks[at]
            if block and block[-1] >= bound:
                return block[bisect_left(block, bound)]
        return None

    def first_in(self, room: Room, *, besides: NodeId | None = None) -> NodeId | None:
        nodes = self._nodes[room]
        if nodes[0] != besides:
            return nodes[0]
        return nodes[1] if len(nodes) > 1 else None

    def below(self, bound: Bound) -> int:
        """How many nodes are in rooms below it."""
        at = bisect_left(self._lasts, bound)
        block = self._blocks[at]
        there = self._there[at]
        count = 0
        for place in range(bisect_left(block, bound)):
            count += len(there[place])
        return count + sum(self._counts[:at])

    def descending(self) -> Iterator[NodeId]:
        for block in reversed(self._blocks):
            for room in reversed(block):
                yield from reversed(self._nodes[room])

    def _open(self, at: int, room: Room, nodes: list[NodeId]) -> None:
        self._nodes[room] = nodes
        block, there = self._blocks[at], self._there[at]
        place = bisect_left(block, room)
        block.insert(place, room)
        there.insert(place, nodes)
        if len(block) > 2 * _BLOCK:
            self._blocks[at : at + 1] = [block[:_BLOCK], block[_BLOCK:]]
            self._there[at : at + 1] = halves = [there[:_BLOCK], there[_BLOCK:]]
            self._counts[at : at + 1] = [sum(map(len, half)) for half in halves]
            self._lasts.insert(at, block[_BLOCK - 1])

    def _close(self, at: int, room: Room) -> None:
        block, there = self._blocks[at], self._there[at]
        place = bisect_left(block, room)
        del block[place], there[place]
        if not block and len(self._blocks) > 1:
            del self._blocks[at]
            del self._there[at]
            del self._counts[at]
            del self._lasts[min(at, len(self._lasts) - 1)]
