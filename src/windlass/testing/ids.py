"""Identities and chance from a seed: the same ones again in the same order."""

from random import Random

from windlass.ports.clock import Clock


class SeededIds:
    """`ports.ids.Ids`."""

    def __init__(self, chance: Random, clock: Clock) -> None:
        self._chance = chance
        self._clock = clock
        self._made = 0

    def uuid7(self) -> str:
        """Growing: the milliseconds, then a count, then chance."""
        self._made += 1
        millis = round(self._clock.wall(self._clock.now()) * 1000)
        count = f"{self._made:07x}"
        tail = f"{self._chance.getrandbits(44):011x}"
        return f"{millis >> 16:08x}-{millis & 0xFFFF:04x}-7{count[:3]}-8{count[3:6]}-{count[6:]}{tail}"

    def token(self) -> str:
        return f"{self._chance.getrandbits(256):064x}"

    def jitter(self) -> float:
        return self._chance.random()
