"""Chance and identity, from outside, so that a simulation with a seed makes the same ones again."""

from typing import Protocol


class Ids(Protocol):
    def uuid7(self) -> str:
        """A UUIDv7, growing within the process."""
        ...

    def token(self) -> str:
        """32 random bytes, URL-safe."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1)."""
        ...
