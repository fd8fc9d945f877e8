"""What is found about a job whose turn it is, before it is given a place."""

from msgspec import Struct

from windlass.core.model.ids import Millis


class Start(Struct, frozen=True):
    """The quota allows it."""

    is_over: bool = False
    """Beyond the quota: in the open burst session, or one that has to be opened with the start."""


class Hold(Struct, frozen=True):
    """At a limit of its tenant."""

    reasons: tuple[tuple[str, int], ...]
    until: Millis | None = None
    """When time alone may change it."""
    is_for_room: bool = False
    """Room that anybody frees may be what it waits for."""


class Yields(Struct, frozen=True):
    """There is room, but only where somebody who is first was promised it."""

    reasons: tuple[tuple[str, int], ...] = (("kept free for a job that is first", 1),)
