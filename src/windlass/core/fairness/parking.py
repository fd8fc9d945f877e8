"""The bands that found no place, sorted by what they lacked: room that grows is offered to those it could be enough for."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final

from windlass.core.fairness.lanes import Band
from windlass.core.model.resources import Resources

_SCARCE: Final = ("cpu", "memory", "gpu")
_NO_LIMIT: Final = 1 << 62


class Parked:
    """One dimension is enough to sort a band by: whoever fits in all of them fits in that one."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[str, int]] = {}
        """By a band's number: the list it stands in, and what it needs of that."""
        self._lists: dict[str, list[tuple[int, int]]] = {name: [] for name in ("", *_SCARCE)}
        self._bands: dict[int, Band] = {}
        self._yielding: dict[int, Band] = {}
        self._hopeless: dict[int, Band] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Band]:
        return iter(self._bands.values())

    def add(self, band: Band) -> None:
        self.discard(band)
        name = band.scarce if band.scarce in _SCARCE else ""
        amount = _amount(band.shape.needs, name)
        self._places[band.number] = name, amount
        self._bands[band.number] = band
        insort(self._lists[name], (amount, band.number))
        if band.yields:
            self._yielding[band.number] = band
        if band.is_hopeless:
            self._hopeless[band.number] = band

    def discard(self, band: Band) -> None:
        place = self._places.pop(band.number, None)
        if place is None:
            return
        name, amount = place
        del self._lists[name][bisect_left(self._lists[name], (amount, band.number))]
        del self._bands[band.number]
        self._yielding.pop(band.number, None)
        self._hopeless.pop(band.number, None)

    def within(self, free: Resources) -> list[Band]:
        """Those that need no more of what they lacked than is free."""
        found = []
        for name, sorted_bands in self._lists.items():
            end = bisect_right(sorted_bands, (_amount(free, name), _NO_LIMIT))
            found += [self._bands[number] for _, number in sorted_bands[:end]]
        return found

    def yielding(self) -> list[Band]:
        return list(self._yielding.values())

    def hopeless(self) -> list[Band]:
        return list(self._hopeless.values())


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
