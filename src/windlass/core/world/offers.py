"""Room that has grown, offered to the shapes that found no place: in the queue's order, one at a time, until nobody can use it.

Of all shapes that would fit into a core that has become free, one will have it. Only that one is unparked and asked; the others
are not touched, and stay parked for the reasons they were. So a placing costs no more with a thousand parked shapes than with ten.
"""

from windlass.core.fairness.lanes import Band, Lane
from windlass.core.fairness.ranks import Entry
from windlass.core.model.resources import Resources
from windlass.core.placement.nodes import Slot
from windlass.core.world.world import World


class Offers:
    """For one round of placing, in which room only shrinks. What is left when it ends early is offered again in the next."""

    def __init__(self, world: World) -> None:
        self._tables = tables = world.tables
        tables.queue.begin_round()
        slots = {node: tables.places.slot(node) for node in tables.grown}
        self._slots = [slot for slot in slots.values() if slot is not None]
        self._most = _most(self._slots)
        self._next: tuple[Band, Entry] | None = None
        if self._slots:
            self._wake_yielding()
            self._seek()
        else:
            tables.grown.clear()

    def wakes(self, head: Lane | None) -> bool:
        """Whether somebody has been unparked who comes before `head`: ask again who is next."""
        if not self._slots:
            return False
        queue = self._tables.queue
        if queue.has_moved:
            self._seek()
        while self._next is not None:
            band, entry = self._next
            if head is not None and head.entry() < entry:
                return False
            can_use = self._could_use(band)  # what it was found for may have been used
            if can_use:
                queue.unpark(band)
            self._seek()
            if can_use:
                return True
        return False

    def _wake_yielding(self) -> None:
        """Who made way for somebody is asked in any case: there is room where it was promised, and that may be theirs now."""
        for band in self._tables.queue.yielding():
            if self._could_use(band):
                self._tables.queue.unpark(band)

    def _seek(self) -> None:
        """The first who could use any of it. If nobody could, nothing is offered any more."""
        self._next = self._tables.queue.first_parked(self._most, self._could_use)
        if self._next is None:
            self._tables.grown.difference_update(slot.node.id for slot in self._slots)
            self._slots = []

    def _could_use(self, band: Band) -> bool:
        return self._tables.places.could_use_any(band.shape, self._slots)


def _most(slots: list[Slot]) -> Resources:
    """No slot has more of anything."""
    rooms = [slot.room for slot in slots]
    gpus, cpu_millis, memory_bytes = (max(column) for column in zip(*rooms, strict=True)) if rooms else (0, 0, 0)
    return Resources(cpu_millis, memory_bytes, gpus)
