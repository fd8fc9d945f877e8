"""The nodes as placement sees them: what is free, which devices, how many runs. The pick, or the reasons why there is none."""

from collections import Counter
from collections.abc import Collection, Iterator

from msgspec import Struct

from windlass.core.model.ids import NodeId
from windlass.core.model.node import Node
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run
from windlass.core.model.shape import Shape

_ANSWERS_KEPT = 10_000


class Spot(Struct, frozen=True, kw_only=True):
    """A place on a node, with the devices that go with it."""

    node: NodeId
    gpu_ids: tuple[str, ...] = ()


class Waiting(Struct, frozen=True, kw_only=True):
    """No place now: each reason with the number of nodes it ruled out, most frequent first."""

    reasons: tuple[tuple[str, int], ...]


class Slot:
    """One node's ledger of what is held on it."""

    __slots__ = ("free", "free_gpus", "node", "runs")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.free = node.capacity
        self.free_gpus = sorted(node.gpu_ids)
        self.runs = 0

    def hold(self, run: Run) -> None:
        self.free = self.free - run.needs
        self.runs += 1
        for gpu in run.gpu_ids:
            if gpu in self.free_gpus:
                self.free_gpus.remove(gpu)

    def release(self, run: Run) -> None:
        self.free = self.free + run.needs
        self.runs -= 1
        self.free_gpus = sorted({*self.free_gpus, *(gpu for gpu in run.gpu_ids if gpu in self.node.gpu_ids)})


class Nodes:
    def __init__(self) -> None:
        self._slots: dict[NodeId, Slot] = {}
        self._lacking: dict[Shape, tuple[str, ...]] = {}
        """Answers of `could_ever_fit`, until a node changes: a burst of jobs asks for few shapes."""

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots.values())

    def set(self, node: Node, held: list[Run]) -> None:
        """A node joined or changed; `held` are its runs that are not over."""
        self._lacking.clear()
        slot = self._slots[node.id] = Slot(node)
        for run in held:
            slot.hold(run)

    def remove(self, node: NodeId) -> None:
        self._lacking.clear()
        self._slots.pop(node, None)

    def slot(self, node: NodeId) -> Slot | None:
        return self._slots.get(node)

    def pick(self, shape: Shape, *, among: Collection[NodeId] | None = None) -> Spot | Waiting:
        """The fullest node that still has room: small jobs pack, whole nodes stay free for big ones. `among`: of these only."""
        best: Slot | None = None
        refused: Counter[str] = Counter()
        slots = self._slots.values() if among is None else [self._slots[one] for one in among if one in self._slots]
        for slot in slots:
            reason = refusal(shape, slot)
            if reason is not None:
                refused[reason] += 1
            elif best is None or _roominess(slot) < _roominess(best):
                best = slot
        if best is None:
            return Waiting(reasons=tuple(refused.most_common()) or (("no node", 0),))
        return Spot(node=best.node.id, gpu_ids=tuple(best.free_gpus[: shape.needs.gpus]))

    def could_ever_fit(self, shape: Shape) -> tuple[str, ...]:
        """Empty when some node, empty, would take it; else what the nearest one lacks."""
        lacking = self._lacking.get(shape)
        if lacking is None:
            nearest = self.nearest(shape)
            lacking = _never(shape, nearest) if nearest is not None else ("node",)
            if len(self._lacking) >= _ANSWERS_KEPT:
                self._lacking.clear()
            self._lacking[shape] = lacking
        return lacking

    def nearest(self, shape: Shape) -> Node | None:
        """The node that lacks least for it: one in the right place that is too small before one that is elsewhere."""
        every = (slot.node for slot in self._slots.values())
        return min(every, key=lambda node: (len(_mismatch(shape, node)), *_shortage(shape, node)), default=None)


def refusal(shape: Shape, slot: Slot) -> str | None:
    """The first clause that rules this node out for this shape, or None."""
    node = slot.node
    if not node.takes_runs:
        return f"node {node.state}"
    mismatch = _mismatch(shape, node)
    if mismatch:
        return mismatch[0]
    if slot.runs >= node.runs_max:
        return "run slots used"
    missing = shape.needs.lacks(slot.free)
    if missing:
        return f"{missing[0]} in use"
    return None


def _mismatch(shape: Shape, node: Node) -> tuple[str, ...]:
    """What no amount of waiting changes: wrong pool, runtime, label, pinned elsewhere."""
    faults: list[str] = []
    if shape.node is not None and shape.node != node.id:
        faults.append("volume on another node")
    if shape.pools and node.pool not in shape.pools:
        faults.append("pool")
    elif shape.allowed and node.pool not in shape.allowed:
        faults.append("pool not allowed")
    if shape.runtime not in node.runtimes:
        faults.append("runtime")
    labels = dict(node.labels)
    faults.extend(f"label {key}" for key, value in shape.labels if labels.get(key) != value)
    return tuple(faults)


def _never(shape: Shape, node: Node) -> tuple[str, ...]:
    return (*_mismatch(shape, node), *shape.needs.lacks(node.capacity))


def _shortage(shape: Shape, node: Node) -> tuple[int, int, int, int]:
    """Kinds that are short, then how much of each."""
    needs, has = shape.needs, node.capacity
    return (
        len(needs.lacks(has)),
        max(0, needs.gpus - has.gpus),
        max(0, needs.cpu_millis - has.cpu_millis),
        max(0, needs.memory_bytes - has.memory_bytes),
    )


def _roominess(slot: Slot) -> tuple[int, int, int, str]:
    free: Resources = slot.free
    return (free.gpus, free.cpu_millis, free.memory_bytes, slot.node.id)
