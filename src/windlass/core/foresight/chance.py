"""Chance with a seed, the same on every machine and in every version: SplitMix64, and the few shapes the generator needs.

`core` has no `random`; besides, its distributions may change between versions of Python, and a seed is a promise.
"""

from collections.abc import Sequence
from math import cos, exp, log, pi, sqrt
from typing import Final, TypeVar

_MASK: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
T = TypeVar("T")


class Chance:
    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def bits(self) -> int:
        """64 of them."""
        self._state = (self._state + _GOLDEN) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def unit(self) -> float:
        """At least 0, below 1."""
        return (self.bits() >> 11) / (1 << 53)

    def below(self, bound: int) -> int:
        return self.bits() * bound >> 64

    def happens(self, probability: float) -> bool:
        return self.unit() < probability

    def normal(self) -> float:
        return sqrt(-2 * log(1 - self.unit())) * cos(2 * pi * self.unit())

    def lognormal(self, median: float, sigma: float) -> float:
        return median * exp(sigma * self.normal())

    def pareto(self, least: float, alpha: float) -> float:
        """Heavy-tailed: the smaller `alpha`, the heavier."""
        return float(least * (1 - self.unit()) ** (-1 / alpha))

    def pick(self, choices: Sequence[tuple[T, int]]) -> T:
        """One of them, as likely as its weight."""
        left = self.below(sum(weight for _, weight in choices))
        for choice, weight in choices:
            if left < weight:
                return choice
            left -= weight
        return choices[-1][0]
