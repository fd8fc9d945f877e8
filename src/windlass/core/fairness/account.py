"""One tenant's account with the fair queue, as it is stored."""

from msgspec import Struct

Work = int
"""Nano-units: a thousandth of a micro-unit, because a short run of a small job is worth less than one micro-unit."""


Virtual = int
"""Work for a weight of one share (1000 thousandths). Plain numbers both: every placing passes here, and a call costs."""


class Account(Struct, frozen=True, omit_defaults=True, gc=False):
    """One tenant's standing. Stored with every placing and every end, so that a rebuilt World serves in the same order."""

    finish: Virtual = 0
    """F: where its next placing starts, unless V has passed it by."""
    seen: Virtual = 0
    """V at its newest placing. The highest over all accounts is V."""
    owed: Virtual = 0
    """What early ends gave back beyond V: taken off the next charges. Never more than the others were given meanwhile."""
    work: Work = 0
    """All it was charged, corrections included."""
    mark: Work = 0
    """What all others had been charged when it began to wait: "meanwhile" is counted from there."""
