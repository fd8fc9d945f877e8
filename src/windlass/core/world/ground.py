"""The machine under a node's slices."""

from typing import Final

from msgspec import Struct

from windlass.core.model.ids import NodeId
from windlass.core.model.resources import Resources

SLICE: Final = "slice"
"""The provisioner of such."""


class Ground(Struct, frozen=True, kw_only=True):
    """The machine that slices are cut from: its own node keeps what no pool of slices may ever take."""

    node: NodeId
    capacity: Resources
