"""What placement answers: a place, or the reasons why there is none."""

from typing import Final

from msgspec import Struct

from windlass.core.model.ids import NodeId

IN_USE: Final = " in use"
"""How a reason ends that room alone would lift."""


class Spot(Struct, frozen=True, kw_only=True, gc=False):
    """A place on a node, with the devices that go with it."""

    node: NodeId
    gpu_ids: tuple[str, ...] = ()


class Waiting(Struct, frozen=True, kw_only=True):
    """No place now: each reason with the number of nodes it ruled out, most frequent first."""

    reasons: tuple[tuple[str, int], ...]

    @property
    def scarce(self) -> str:
        """What most nodes that could take it lack: `cpu`, `memory`, `gpu`; nothing when it is none of them."""
        in_use = (reason.removesuffix(IN_USE) for reason, _ in self.reasons if reason.endswith(IN_USE))
        return next(in_use, "")
