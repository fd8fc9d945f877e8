"""The nodes as placement sees them: what is free, which devices, how many runs. The pick, or the reasons why there is none."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Final

from windlass.core.model.ids import NodeId, PoolId, RunId
from windlass.core.model.node import ACTIVE, Node
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.model.run import Run
from windlass.core.model.shape import Shape
from windlass.core.placement.classes import ClassKey, Labels, NodeClass, class_of, labels_of, mismatch
from windlass.core.placement.rooms import Room
from windlass.core.placement.shortage import lacks
from windlass.core.placement.spot import IN_USE, SLOTS_USED, TOO_SMALL, Reasons, Spot, Waiting

_ANSWERS_KEPT: Final = 10_000
_LOOKED_AT_MAX: Final = 100
"""Nodes that are too small for a shape, when the reasons why it waits are counted; or all, for one that is bound to a node."""
_FULL: Final = (SLOTS_USED, f"gpu{IN_USE}", f"cpu{IN_USE}", f"memory{IN_USE}")


class Slot:
    """One node's ledger of what is held on it."""

    __slots__ = ("free_gpus", "held", "kind", "listed", "node", "room", "runs_max", "version")

    def __init__(self, node: Node, kind: NodeClass) -> None:
        self.node = node
        self.kind = kind
        self.runs_max = node.runs_max
        capacity = node.capacity
        self.room: Room = (capacity.gpus, capacity.cpu_millis, capacity.memory_bytes)
        """What is free, as it is looked for."""
        self.free_gpus = sorted(node.gpu_ids)
        self.held: dict[RunId, Run] = {}
        self.listed: Room | None = None
        """How its class has it; none while it has no run slot left."""
        self.version = 0
        """Grows with each change."""

    @property
    def runs(self) -> int:
        return len(self.held)

    @property
    def free(self) -> Resources:
        gpus, cpu_millis, memory_bytes = self.room
        return Resources(cpu_millis, memory_bytes, gpus)

    def hold(self, run: Run) -> None:
        self.version += 1
        (gpus, cpu, memory), needs = self.room, run.needs
        self.room = (gpus - needs.gpus, cpu - needs.cpu_millis, memory - needs.memory_bytes)
        self.held[run.id] = run
        for gpu in run.gpu_ids:
            if gpu in self.free_gpus:
                self.free_gpus.remove(gpu)

    def release(self, run: Run) -> None:
        self.version += 1
        (gpus, cpu, memory), needs = self.room, run.needs
        self.room = (gpus + needs.gpus, cpu + needs.cpu_millis, memory + needs.memory_bytes)
        self.held.pop(run.id, None)
        if run.gpu_ids:
            self.free_gpus = sorted({*self.free_gpus, *(gpu for gpu in run.gpu_ids if gpu in self.node.gpu_ids)})


class Nodes:
    def __init__(self) -> None:
        self._slots: dict[NodeId, Slot] = {}
        self._classes: dict[ClassKey, NodeClass] = {}
        self._matching: dict[Shape, tuple[NodeClass, ...]] = {}
        """Answers of `_classes_for`, and of `could_ever_fit`, until a node changes: few shapes are asked for, and often."""
        self._lacking: dict[Shape, tuple[str, ...]] = {}
        self._told: dict[Shape, Reasons] = {}
        """Answers of `reasons`, until anything changes: lists show many jobs of a shape."""
        self._closed: set[PoolId] = set()
        """Pools that are open to named tenants only."""
        self._given: dict[PoolId, Labels] = {}
        """What pools have their nodes labelled with."""
        self._growing: dict[PoolId, Node] = {}
        """Dynamic pools, each with what a worker of it would be: a node without a name."""
        self.capacity = NOTHING
        """Of all of them together."""

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots.values())

    def __len__(self) -> int:
        return len(self._slots)

    def set(self, node: Node, held: list[Run]) -> None:
        """A node joined or changed; `held` are its runs that are not over."""
        self.remove(node.id)
        key = class_of(node)
        kind = self._classes.get(key)
        if kind is None:
            kind = self._classes[key] = NodeClass(node)
        kind.join(node)
        slot = self._slots[node.id] = Slot(node, kind)
        for run in held:
            slot.hold(run)
        self.capacity = self.capacity + node.capacity
        _list(slot)

    def remove(self, node: NodeId) -> None:
        self._forget_answers()
        slot = self._slots.pop(node, None)
        if slot is None:
            return
        self.capacity = self.capacity - slot.node.capacity
        kind = slot.kind
        if slot.listed is not None:
            kind.free.remove(slot.listed, node)
        kind.leave(slot.node)
        if not len(kind):
            del self._classes[class_of(slot.node)]

    def set_pool(self, pool: PoolId, *, worker: Node | None, is_closed: bool, labels: Labels = ()) -> None:
        """What is known of a pool beyond its nodes. `worker`: what it could grow by, for one that can."""
        self._forget_answers()
        (self._closed.add if is_closed else self._closed.discard)(pool)
        if labels:
            self._given[pool] = labels
        else:
            self._given.pop(pool, None)
        if worker is None:
            self._growing.pop(pool, None)
        else:
            self._growing[pool] = worker

    def hold(self, run: Run) -> None:
        slot = self._slots.get(run.node)
        if slot is not None:
            slot.hold(run)
            _list(slot)
            if self._told:
                self._told.clear()

    def renew(self, run: Run) -> None:
        """One that is held has changed, but not in what it holds."""
        slot = self._slots.get(run.node)
        if slot is not None:
            slot.version += 1
            slot.held[run.id] = run

    def release(self, run: Run) -> None:
        slot = self._slots.get(run.node)
        if slot is not None:
            slot.release(run)
            _list(slot)
            if self._told:
                self._told.clear()

    def pools(self, shape: Shape) -> frozenset[PoolId]:
        """Those with nodes, or that could grow some; without what its tenant must not know of."""
        return frozenset(node.pool for node in self._shown_to(shape))

    def hides(self, shape: Shape, node: Node) -> bool:
        """It is of a pool closed to the shape's tenant, who must not learn from any answer that there is one."""
        return node.pool in self._closed and node.pool not in shape.admitted

    def labels_of(self, node: Node) -> dict[str, str]:
        """What a job's selector is held against: its pool's, and its own, which win."""
        return labels_of(node, self._given)

    def slot(self, node: NodeId) -> Slot | None:
        return self._slots.get(node)

    def pick(
        self, shape: Shape, *, among: Collection[NodeId] | None = None, besides: NodeId | None = None
    ) -> Spot | Waiting:
        """The fullest node that still has room: small jobs pack, whole nodes stay free for big ones. `among`: of these only.

        Nodes that are there anyway come before those of pools that grow: what is not used can be given back.
        """
        if among is not None or shape.node is not None:
            return self._pick_among(shape, self._slots if among is None else among, besides)
        best: tuple[bool, Room, NodeId] | None = None
        for kind in self._classes_for(shape):
            found = kind.fullest_with(shape.needs, besides=besides)
            if found is not None:
                offer = kind.node.pool in self._growing, *found
                best = offer if best is None or offer < best else best
        if best is None:
            return Waiting(reasons=self._refusals(shape))
        return self._spot(self._slots[best[2]], shape)

    def reasons(self, shape: Shape) -> Reasons:
        """Why it finds no place, as things are; empty when it would find one, or when that is long to look up."""
        found = self._told.get(shape)
        if found is None:
            if shape.node is not None and len(self._slots) > _LOOKED_AT_MAX:
                return ()
            picked = self.pick(shape)
            found = picked.reasons if isinstance(picked, Waiting) else ()
            if len(self._told) >= _ANSWERS_KEPT:
                self._told.clear()
            self._told[shape] = found
        return found

    def candidates(self, shape: Shape, limit: int) -> list[Slot]:
        """Some of the nodes that could take it if they were empty, those with most free first."""
        if shape.node is not None:
            kinds: Iterable[Slot] = [slot for node in (shape.node,) if (slot := self._slots.get(node)) is not None]
        else:
            kinds = (
                self._slots[node] for kind in self._classes_for(shape) for node in islice(kind.emptiest(), 4 * limit)
            )
        return list(islice((slot for slot in kinds if self.could_take(shape, slot.node)), limit))

    def could_take(self, shape: Shape, node: Node) -> bool:
        """If it were empty."""
        return node.state is ACTIVE and not self._never(shape, node)

    def could_use_any(self, shape: Shape, slots: list[Slot]) -> bool:
        """What is free there now. As `refusal`, without the words."""
        needs = shape.needs
        need_gpus, need_cpu, need_memory = needs.gpus, needs.cpu_millis, needs.memory_bytes
        for slot in slots:
            gpus, cpu, memory = slot.room
            if need_cpu <= cpu and need_memory <= memory and need_gpus <= gpus and self._could_use(shape, slot):
                return True
        return False

    def _could_use(self, shape: Shape, slot: Slot) -> bool:
        """It has room enough; and the rest."""
        if len(slot.held) >= slot.runs_max:
            return False
        return slot.kind in self._classes_for(shape) if shape.node is None else self.refusal(shape, slot) is None

    def could_ever_fit(self, shape: Shape) -> tuple[str, ...]:
        """Empty when some node, empty, would take it, or a worker to come; else what the nearest one lacks."""
        lacking = self._lacking.get(shape)
        if lacking is None:
            lacking = () if self._fits_some_class(shape) else self._lacked_by_nearest(shape)
            if len(self._lacking) >= _ANSWERS_KEPT:
                self._lacking.clear()
            self._lacking[shape] = lacking
        return lacking

    def _fits_some_class(self, shape: Shape) -> bool:
        """Nearly always, and told without a look at the nodes."""
        kinds = self._classes.values() if shape.node is None else ()
        return any(kind.fits_ever(shape.needs) and not self._mismatch(shape, kind.node) for kind in kinds)

    def _lacked_by_nearest(self, shape: Shape) -> tuple[str, ...]:
        nearest = self.nearest(shape)
        return self._never(shape, nearest) if nearest is not None else ("node",)

    def nearest(self, shape: Shape) -> Node | None:
        """The node that lacks least for it: one in the right place that is too small before one that is elsewhere.

        Without a name when it is a worker that a pool could grow by. Never one that is hidden from it.
        """
        return min(self._shown_to(shape), key=partial(self._distance, shape), default=None)

    def could_serve(self, pool: PoolId, shape: Shape) -> bool:
        """Whether a worker of that dynamic pool, empty, would take it."""
        worker = self._growing.get(pool)
        return worker is not None and not self._never(shape, worker)

    def worker_to_come(self, pool: PoolId) -> Node | None:
        """What that dynamic pool would grow by; without a name."""
        return self._growing.get(pool)

    def refusal(self, shape: Shape, slot: Slot) -> str | None:
        """The first clause that rules this node out for this shape, or None. What lasts longest comes first."""
        node = slot.node
        faults = self._mismatch(shape, node)
        if faults:
            return faults[0]
        short = lacks(shape.needs, node.capacity)
        if short:
            return f"{short[0]}{TOO_SMALL}"
        return _full(shape, slot) if node.state is ACTIVE else f"node {node.state}"

    def _pick_among(self, shape: Shape, nodes: Iterable[NodeId], besides: NodeId | None) -> Spot | Waiting:
        best: Slot | None = None
        refused: Counter[str] = Counter()
        for slot in (self._slots[one] for one in nodes if one in self._slots and one != besides):
            if self.hides(shape, slot.node):
                continue
            reason = self.refusal(shape, slot)
            if reason is not None:
                refused[reason] += 1
            elif best is None or self._preference(slot) < self._preference(best):
                best = slot
        if best is None:
            return Waiting(reasons=tuple(refused.most_common()) or (("no node", 0),))
        return self._spot(best, shape)

    def _spot(self, slot: Slot, shape: Shape) -> Spot:
        gpus = shape.needs.gpus
        return Spot(node=slot.node.id, gpu_ids=tuple(slot.free_gpus[:gpus]) if gpus else ())

    def _classes_for(self, shape: Shape) -> tuple[NodeClass, ...]:
        found = self._matching.get(shape)
        if found is None:
            kinds = self._classes.values()
            found = tuple(kind for kind in kinds if kind.node.state is ACTIVE and not self._mismatch(shape, kind.node))
            if len(self._matching) >= _ANSWERS_KEPT:
                self._matching.clear()
            self._matching[shape] = found
        return found

    def _refusals(self, shape: Shape) -> tuple[tuple[str, int], ...]:
        """Counted class by class: a node is never looked at. What is hidden from it is not counted."""
        refused: Counter[str] = Counter()
        matching = self._classes_for(shape)
        for kind in self._classes.values():
            if kind in matching:
                refused.update(self._full_or_small(shape, kind))
            elif self.hides(shape, kind.node):
                continue
            elif faults := self._mismatch(shape, kind.node):
                refused[faults[0]] += len(kind)
            else:
                refused.update(_small_or_shut(shape, kind))
        return tuple((reason, count) for reason, count in refused.most_common() if count) or (("no node", 0),)

    def _full_or_small(self, shape: Shape, kind: NodeClass) -> dict[str, int]:
        """Its nodes are counted as if all were of a size; then those that are too small are taken out again.

        Of many it is not looked what each was counted as, but taken to be what it is too small in: that costs the same for any
        number, and can be wrong only about how the others divide.
        """
        counted = {reason: count for reason, count in kind.refusals(shape.needs) if count}
        small = kind.too_small(shape.needs)
        if not small:  # as nearly always
            return counted
        refused = Counter(counted)
        are_few = sum(map(len, small.values())) <= _LOOKED_AT_MAX
        for what, nodes in small.items():
            refused[f"{what}{TOO_SMALL}"] = len(nodes)
            if are_few:
                refused.subtract(filter(None, (_full(shape, self._slots[node]) for node in nodes)))
            else:
                _take_out(refused, len(nodes), first=f"{what}{IN_USE}")
        return +refused

    def _shown_to(self, shape: Shape) -> Iterator[Node]:
        every = chain((slot.node for slot in self._slots.values()), self._growing.values())
        return (node for node in every if not self.hides(shape, node))

    def _mismatch(self, shape: Shape, node: Node) -> tuple[str, ...]:
        return mismatch(shape, node, closed=self._closed, given=self._given)

    def _never(self, shape: Shape, node: Node) -> tuple[str, ...]:
        return (*self._mismatch(shape, node), *lacks(shape.needs, node.capacity))

    def _distance(self, shape: Shape, node: Node) -> tuple[int, ...]:
        """By the kinds of fault; of one as many, a pool that was asked for is nearer than another."""
        faults = self._mismatch(shape, node)
        return (len(faults), "pool" in faults, *_shortage(shape, node))

    def _preference(self, slot: Slot) -> tuple[bool, Room, NodeId]:
        return slot.node.pool in self._growing, slot.room, slot.node.id

    def _forget_answers(self) -> None:
        self._lacking.clear()
        self._matching.clear()
        self._told.clear()


def _shortage(shape: Shape, node: Node) -> tuple[int, int, int, int]:
    """Kinds that are short, then how much of each."""
    needs, has = shape.needs, node.capacity
    return (
        len(lacks(needs, has)),
        max(0, needs.gpus - has.gpus),
        max(0, needs.cpu_millis - has.cpu_millis),
        max(0, needs.memory_bytes - has.memory_bytes),
    )


def _full(shape: Shape, slot: Slot) -> str | None:
    """What it has too little of now."""
    if slot.runs >= slot.runs_max:
        return SLOTS_USED
    missing = lacks(shape.needs, slot.free)
    return f"{missing[0]}{IN_USE}" if missing else None


def _small_or_shut(shape: Shape, kind: NodeClass) -> Counter[str]:
    """Of a class that takes no runs now."""
    small = {f"{what}{TOO_SMALL}": len(nodes) for what, nodes in kind.too_small(shape.needs).items()}
    return Counter({**small, f"node {kind.node.state}": len(kind) - sum(small.values())})


def _take_out(refused: Counter[str], count: int, *, first: str) -> None:
    for reason in (first, *_FULL):
        taken = min(count, refused[reason])
        refused[reason] -= taken
        count -= taken


def _list(slot: Slot) -> None:
    """As its class should have it."""
    listed = slot.room if len(slot.held) < slot.runs_max else None
    if listed == slot.listed:
        return
    free = slot.kind.free
    if slot.listed is not None:
        free.remove(slot.listed, slot.node.id)
    if listed is not None:
        free.add(listed, slot.node.id)
    slot.listed = listed
