"""What a trial must give back that no record has. A record of its own module, so that the tables can be compiled."""

from msgspec import Struct

from windlass.core.model.ids import Millis, NodeId, TenantId
from windlass.core.placement.promise import Reservation


class Standstill(Struct, frozen=True, kw_only=True):
    """As it was when a trial began."""

    grown: frozenset[NodeId]
    has_other_nodes: bool
    has_other_pools: bool
    short_of_room: dict[TenantId, frozenset[NodeId]]
    makes_way: frozenset[TenantId]
    held_until: dict[TenantId, Millis]
    is_shut: bool
    promised: Reservation | None
    age: int
    """By how many changes of its node the promise is behind."""
