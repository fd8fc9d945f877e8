"""Waiting for whichever comes first: a fact or a moment."""

from typing import Final

import anyio
import anyio.lowlevel

from windlass.core.model.ids import Millis
from windlass.ports.clock import Clock

_LOOK_AGAIN_MS: Final = 30_000
"""A suspended machine stops the loop's timers, but not the clock."""


async def woken_or_due(fact: anyio.Event, clock: Clock, due: Millis) -> None:
    """A deadline on the wait itself: the loops come by here after every decision, and tasks of their own for both would
    cost more than what they wait for."""
    await anyio.lowlevel.checkpoint()
    while not fact.is_set() and (left := due - clock.now()) > 0:
        with anyio.move_on_after(min(left, _LOOK_AGAIN_MS) / 1000):
            await fact.wait()
