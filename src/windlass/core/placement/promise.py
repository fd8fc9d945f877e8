"""What was promised to the first job that found no place: a node, and a start if one can be told. See `reservation`."""

from msgspec import Struct

from windlass.core.model.ids import JobId, Millis, NodeId
from windlass.core.model.resources import Resources


class Reservation(Struct, frozen=True, kw_only=True):
    job: JobId
    node: NodeId
    start: Millis | None
    """Promised, if every run there ends when it said it would. None: nobody knows."""
    spare: Resources
    """Left over on the node when it has started."""
    spare_runs: int
    version: int
    """Of the node's slot when this was found out."""
    holds_until: Millis | None
    """When the first of the runs it counts on is to be over: one that is not has become unpredictable."""
