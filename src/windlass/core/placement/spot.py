"""What placement answers: a place, or the reasons why there is none."""

from typing import Final

from msgspec import Struct

from windlass.core.model.ids import NodeId

IN_USE: Final = " in use"
"""How a reason ends that room alone would lift;"""
TOO_SMALL: Final = " too small"
"""and one of a node that would not take it with nothing on it either."""
SLOTS_USED: Final = "run slots used"


Reasons = tuple[tuple[str, int], ...]


class Spot(Struct, frozen=True, kw_only=True, gc=False):
    """A place on a node, with the devices that go with it."""

    node: NodeId
    gpu_ids: tuple[str, ...] = ()


class Waiting(Struct, frozen=True, kw_only=True):
    """No place now: each reason with the number of nodes it ruled out, most frequent first."""

    reasons: Reasons

    @property
    def scarce(self) -> str:
        """What most nodes of the right kind lack: `cpu`, `memory`, `gpu`; nothing when it is none of them."""
        of_room = (reason for reason, _ in self.reasons if reason.endswith((IN_USE, TOO_SMALL)))
        return next((reason.removesuffix(IN_USE).removesuffix(TOO_SMALL) for reason in of_room), "")
