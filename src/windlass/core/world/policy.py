"""How a World is to decide, where an admin has the choice."""

from enum import StrEnum

from msgspec import Struct

from windlass.core.model.ids import Millis, TenantId


class Queueing(StrEnum):
    FAIR = "fair"
    """By weight: whoever was given least is next."""
    FIRST_COME = "first-come"
    """By priority, then acceptance: accounts count what was used, but no tag moves. What `simulate` compares with."""


class Policy(Struct, frozen=True, kw_only=True):
    """What an admin may turn."""

    queueing: Queueing = Queueing.FAIR
    boost_cap: int = 100
    """How far deadlines may reach across tenants, all of them together: thousandths of a window of service."""
    boost_window_ms: Millis = Millis(3_600_000)
    """That window: what all nodes can do in so long."""
    is_backfilling: bool = True
    """Short jobs may use what is kept free for a big one, if they are over before it starts."""
    burst_reserve: int = 200
    """Thousandths of all capacity that ordinary runs leave free, while any tenant may burst by policy."""
    retry_backoff_ms: Millis = Millis(1_000)
    """Before the first retry; doubles with each."""
    retry_backoff_max_ms: Millis = Millis(60_000)
    only_tenant: TenantId | None = None
    """Nobody else may run anything here: plain processes share one user, one file system, one network."""
    default_timeout_ms: Millis | None = None
    """Given to jobs that name no timeout, of tenants that have no default of their own."""
    key_ttl_ms: Millis = Millis(7 * 86_400_000)
    """How long a repeated request finds its first answer."""
    unclaimed_volume_ttl_ms: Millis = Millis(3_600_000)
    """A copy-file volume whose job never came goes after this."""
