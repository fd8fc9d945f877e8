"""One gate between an accepted job and its start, as `why` shows it: open or shut, in words and in numbers."""

from enum import StrEnum

from msgspec import Struct

from windlass.core.model.ids import Millis


class GateName(StrEnum):
    """In the order in which a job meets them."""

    RELEASE = "release"
    BACKOFF = "backoff"
    BUDGET = "budget"
    QUOTA = "quota"
    BURST = "burst"
    ORDER = "order"
    POOL = "pool"
    COOLDOWN = "cooldown"
    NODE = "node"
    IMAGE = "image"


class Gate(Struct, frozen=True, kw_only=True):
    name: GateName
    is_open: bool
    says: str
    numbers: tuple[tuple[str, int], ...] = ()
    opens_at: Millis | None = None
    """When time alone opens it."""
