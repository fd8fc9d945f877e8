"""One change that may start a waiting job: what is told of it, and how it is made on the World, inside a trial."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from windlass.core.errors import WindlassError
from windlass.core.model.ids import Millis
from windlass.core.model.run import Run
from windlass.core.world.place import place
from windlass.core.world.world import World

PLACINGS: Final = 32
"""In one trial: a change that lets so many others go first is not the smallest."""

Change = Callable[[World, Millis], object]


class Advice(Struct, frozen=True, kw_only=True):
    does: str
    """`release`, `cancel`, `burst`, `ask-less`, `any-node`, `priority`, `quota`, `budget`, `uncordon`, `scale`, `pool-max`,
    `add-node` (what it takes, where no command does it), `image`"""
    says: str
    command: str = ""
    """What to type, where there is a command for it."""
    is_admins: bool = False
    """Only an admin can do it."""
    values: tuple[tuple[str, str], ...] = ()
    """Of what it changes: field and new value."""


def both(first: Change, second: Change) -> Change:
    def change(world: World, now: Millis) -> None:
        first(world, now)
        second(world, now)

    return change


def placed_with(world: World, change: Change, now: Millis) -> list[Run]:
    """In a trial: who is placed at once, in order. Nobody where it is refused."""
    with world.trial(now):
        try:
            change(world, now)
        except WindlassError:
            return []
        return place(world, now=now, limit=PLACINGS)
