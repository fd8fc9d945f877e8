"""Failpoints: named places between a decision, its commit and its act, where a test may kill, delay or fail the process."""

from typing import Protocol


class Failpoints(Protocol):
    async def reach(self, name: str) -> None:
        """Does nothing unless a test armed `name`."""
        ...


class NoFailpoints:
    """What production passes: nothing is ever armed."""

    async def reach(self, name: str) -> None:
        return None


NONE = NoFailpoints()
