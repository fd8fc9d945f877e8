"""Jobs with equal needs share a shape: one queue per tenant and shape, one placement question for all of them."""

from msgspec import Struct

from windlass.core.model.ids import NodeId, PoolId
from windlass.core.model.resources import Resources


class Shape(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, cache_hash=True):
    needs: Resources
    runtime: str = "container"
    """`container` or `process`: what the node must be able to run."""
    labels: tuple[tuple[str, str], ...] = ()
    """Node labels that must match, sorted by key."""
    pools: tuple[PoolId, ...] = ()
    """Pools it asks for; empty means any."""
    allowed: tuple[PoolId, ...] = ()
    """Pools its tenant may use, sorted; empty means any."""
    admitted: tuple[PoolId, ...] = ()
    """Pools that are open to named tenants only, its own among them; sorted. All other such pools are shut to it."""
    node: NodeId | None = None
    """Pinned, because its volume already lies there."""
