"""Nodes of one class answer every question alike but for what is free on them: they are asked once, and sorted by that."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from windlass.core.model.ids import NodeId, PoolId
from windlass.core.model.node import Node
from windlass.core.model.resources import Resources
from windlass.core.model.shape import Shape
from windlass.core.placement.rooms import Room, Rooms
from windlass.core.placement.shortage import fits, lacks
from windlass.core.placement.spot import IN_USE, SLOTS_USED

_ANSWERS_KEPT: Final = 1_000

ClassKey = tuple[object, ...]
Labels = tuple[tuple[str, str], ...]


def class_of(node: Node) -> ClassKey:
    return (node.pool, node.runtimes, node.labels, node.hands_on_labels, node.state)


class NodeClass:
    """`node` is one of them: pool, runtimes, labels and state are everyone's."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.members: set[NodeId] = set()
        self.free = Rooms()
        """Those with a run slot left."""
        self._sizes: dict[Resources, set[NodeId]] = {}
        self._too_small: dict[Resources, dict[str, list[NodeId]]] = {}
        """Answers of `too_small`, until a node comes or goes."""

    def __len__(self) -> int:
        return len(self.members)

    def join(self, node: Node) -> None:
        self.members.add(node.id)
        self._sizes.setdefault(node.capacity, set()).add(node.id)
        self._too_small.clear()

    def leave(self, node: Node) -> None:
        self.members.discard(node.id)
        self._too_small.clear()
        self._sizes[node.capacity].discard(node.id)
        if not self._sizes[node.capacity]:
            del self._sizes[node.capacity]

    def fits_ever(self, needs: Resources) -> bool:
        return any(fits(needs, capacity) for capacity in self._sizes)

    def too_small(self, needs: Resources) -> dict[str, list[NodeId]]:
        """Those that would not take it with nothing on them either, by the first thing they lack."""
        found = self._too_small.get(needs)
        if found is None:
            found = {}
            for capacity, nodes in self._sizes.items():
                short = lacks(needs, capacity)
                if short:
                    found.setdefault(short[0], []).extend(nodes)
            if len(self._too_small) >= _ANSWERS_KEPT:
                self._too_small.clear()
            self._too_small[needs] = found
        return found

    def fullest_with(self, needs: Resources, *, besides: NodeId | None = None) -> tuple[Room, NodeId] | None:
        """Of those with room for `needs`, the fullest. Leaps over what has cores but no memory, or neither."""
        free, cpu, memory = self.free, needs.cpu_millis, needs.memory_bytes
        room = free.at_least((needs.gpus, cpu, memory))
        while room is not None:
            if room[1] < cpu:
                room = free.at_least((room[0], cpu, memory))
            elif room[2] < memory:
                room = free.at_least((room[0], room[1], memory))
            elif (node := free.first_in(room, besides=besides)) is not None:
                return room, node
            else:
                room = free.at_least((*room, 0))  # the next one
        return None

    def refusals(self, needs: Resources) -> tuple[tuple[str, int], ...]:
        """What rules its nodes out when none fits: each is counted by the first thing it lacks, whatever its size."""
        free, cpu = self.free, needs.cpu_millis
        lacking_gpu = free.below((needs.gpus,))
        lacking_cpu, room = 0, free.at_least((needs.gpus,))
        while room is not None:
            lacking_cpu += free.below((room[0], cpu)) - free.below((room[0],))
            room = free.at_least((room[0] + 1,))
        return (
            (SLOTS_USED, len(self.members) - len(free)),
            (f"gpu{IN_USE}", lacking_gpu),
            (f"cpu{IN_USE}", lacking_cpu),
            (f"memory{IN_USE}", len(free) - lacking_gpu - lacking_cpu),
        )

    def emptiest(self) -> Iterator[NodeId]:
        return self.free.descending()


def labels_of(node: Node, given: Mapping[PoolId, Labels]) -> dict[str, str]:
    """Its pool's, and its own, which win."""
    return {**dict(given.get(node.pool, ())), **dict(node.labels)}


def mismatch(
    shape: Shape, node: Node, *, closed: Collection[PoolId], given: Mapping[PoolId, Labels]
) -> tuple[str, ...]:
    """What no amount of waiting changes: wrong pool, runtime, label, pinned elsewhere.

    `closed`: pools of named tenants. `given`: labels that nodes have by their pool.
    """
    faults: list[str] = []
    if shape.node is not None and shape.node != node.id:
        faults.append("volume on another node")
    if shape.pools and node.pool not in shape.pools:
        faults.append("pool")
    elif shape.allowed and node.pool not in shape.allowed:
        faults.append("pool not allowed")
    elif node.pool in closed and node.pool not in shape.admitted:
        faults.append("pool of other tenants")
    if shape.runtime not in node.runtimes:
        faults.append("runtime")
    # One that names no pool could end up in a cluster that has no such node, while another pool has.
    if shape.labels and not (node.hands_on_labels and node.pool in shape.pools):
        labels = labels_of(node, given)
        faults.extend(f"label {key}" for key, value in shape.labels if labels.get(key) != value)
    return tuple(faults)
