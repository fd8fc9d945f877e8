"""The bands that found no place, sorted by what they lacked: room that grows is offered to those it could be enough for.

Offered in the queue's order, and to one at a time: of a thousand shapes that would fit into one core, one will have it. So a band
is sought, not a list of them. Each shelf holds the bands that lacked one thing, by how much they need of it, in short blocks; a
block knows below which key none of its bands is. A search passes over blocks that need too much, and over those whose bands come
later than what was found: O(√n) at worst, a block or two in practice.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Final

from windlass.core.fairness.lanes import Band
from windlass.core.fairness.ranks import Entry
from windlass.core.model.resources import Resources

_SCARCE: Final = ("cpu", "memory", "gpu")
_BLOCK: Final = 64
_NO_LIMIT: Final = 1 << 62
LAST: Final[Entry] = 1 << 1024
"""Above every entry."""
NOBODY: Final[Entry] = LAST - 1
"""Where a band counts none of whose lanes is asleep and in the running: after all others, but it counts."""

Place = tuple[int, int]
"""What a band needs of the thing it lacked, and its number."""
Look = Callable[[Band], Entry]
"""The true entry of a band that could use what has grown; LAST for one that could not."""


class Parked:
    """One dimension is enough to sort a band by: whoever fits in all of them fits in that one."""

    def __init__(self) -> None:
        self._bands: dict[int, Band] = {}
        self._asked: dict[int, Band] = {}
        """Parked in this round of placing, or hopeless: on no shelf. What has grown before is not offered to them again."""
        self._places: dict[int, tuple[str, Place]] = {}
        """The others, by number: the shelf each stands on, and where."""
        self.has_moved = False
        """One of them may come earlier than when `first` was asked."""
        self._shelves = {name: Shelf(self._bands) for name in ("", *_SCARCE)}
        self._yielding: dict[int, Band] = {}
        self._hopeless: dict[int, Band] = {}

    def __len__(self) -> int:
        return len(self._bands)

    def __iter__(self) -> Iterator[Band]:
        return iter(self._bands.values())

    def add(self, band: Band) -> None:
        """It has been asked just now."""
        self.discard(band)
        self._bands[band.number] = band
        if band.is_hopeless:
            self._hopeless[band.number] = band  # no room that grows is enough for it
            return
        self._asked[band.number] = band
        if band.yields:
            self._yielding[band.number] = band

    def begin_round(self) -> None:
        """From here on room may have grown since they were asked."""
        for number, band in self._asked.items():
            name = band.scarce if band.scarce in _SCARCE else ""
            place = _amount(band.shape.needs, name), number
            self._places[number] = name, place
            self._shelves[name].add(place, _listed(band))
        self._asked.clear()

    def discard(self, band: Band) -> None:
        number = band.number
        if self._bands.pop(number, None) is None or self._hopeless.pop(number, None) is not None:
            return
        self._yielding.pop(number, None)
        if self._asked.pop(number, None) is None:
            name, place = self._places.pop(number)
            self._shelves[name].remove(place)

    def lower(self, band: Band, entry: Entry) -> None:
        """It comes at `entry` now, which may be earlier than before."""
        known = self._places.get(band.number)
        if known is not None:
            self.has_moved = True
            self._shelves[known[0]].lower(known[1], entry)

    def first(self, most: Resources, look: Look) -> tuple[Band, Entry] | None:
        """Of those that need no more of what they lacked than `most`, the first that `look` lets pass, and where it stands."""
        self.has_moved = False
        found: Band | None = None
        entry = LAST
        for name, shelf in self._shelves.items():
            better, entry = shelf.first(_amount(most, name), entry, look)
            found = better or found
        return (found, entry) if found is not None else None

    def yielding(self) -> list[Band]:
        return list(self._yielding.values())

    @property
    def has_yielding(self) -> bool:
        return bool(self._yielding)

    def hopeless(self) -> list[Band]:
        return list(self._hopeless.values())


class Shelf:
    def __init__(self, bands: dict[int, Band]) -> None:
        self._bands = bands
        self._blocks: list[list[Place]] = [[]]
        self._lows: list[Entry] = [LAST]
        """Of each block: none of its bands comes before."""
        self._lasts: list[Place] = []
        """The last place of each block, but of the last block."""

    def add(self, place: Place, entry: Entry) -> None:
        at = bisect_left(self._lasts, place)
        block = self._blocks[at]
        insort(block, place)
        self._lows[at] = min(self._lows[at], entry)
        if len(block) > 2 * _BLOCK:
            self._blocks[at : at + 1] = [block[:_BLOCK], block[_BLOCK:]]
            self._lows[at : at + 1] = [self._lows[at]] * 2
            self._lasts.insert(at, block[_BLOCK - 1])

    def remove(self, place: Place) -> None:
        at = bisect_left(self._lasts, place)
        block = self._blocks[at]
        del block[bisect_left(block, place)]
        if not block and len(self._blocks) > 1:
            del self._blocks[at]
            del self._lows[at]
            del self._lasts[min(at, len(self._lasts) - 1)]

    def lower(self, place: Place, entry: Entry) -> None:
        at = bisect_left(self._lasts, place)
        self._lows[at] = min(self._lows[at], entry)

    def first(self, most: int, before: Entry, look: Look) -> tuple[Band | None, Entry]:
        """The band, and its entry; or none, and `before`."""
        found: Band | None = None
        for at in range(bisect_right(self._lasts, (most, _NO_LIMIT)) + 1):
            if self._lows[at] >= before:
                continue
            for amount, number in self._blocks[at]:
                band = self._bands[number]
                if amount <= most and _listed(band) < before:
                    entry = look(band)
                    if entry < before:
                        found, before = band, entry
            self._lows[at] = min([_listed(self._bands[number]) for _, number in self._blocks[at]], default=LAST)
        return found, before


def _listed(band: Band) -> Entry:
    return band.listed if band.listed is not None else NOBODY


def _amount(resources: Resources, name: str) -> int:
    match name:
        case "cpu":
            return resources.cpu_millis
        case "memory":
            return resources.memory_bytes
        case "gpu":
            return resources.gpus
        case _:
            return 0
