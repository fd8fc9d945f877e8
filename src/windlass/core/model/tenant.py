"""Who pays: weight, tier, quota and what happens when it is full, burst, budget, rate. Bounds for all of it are in `bounds.py`.

A `Tenant` with nothing said is bounded by the machine alone: that is the laptop's own. `new_tenant` gives what an admin creates
the limits it starts with.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.money import Micros
from windlass.core.model.resources import Resources

SHARE: Final = 1000
WEIGHT_LEAST: Final = 500
"""Half a share: nobody is lighter."""
"""A single share, and the whole of anything that is given in thousandths."""


class Tier(StrEnum):
    FREE = "free"
    STANDARD = "standard"
    PREMIUM = "premium"
    ENTERPRISE = "enterprise"


TIER_WEIGHTS: Final = {Tier.FREE: 1000, Tier.STANDARD: 2000, Tier.PREMIUM: 3000, Tier.ENTERPRISE: 5000}
"""In thousandths of a share, for a tenant that was given no weight of its own."""


class QuotaPolicy(StrEnum):
    REJECT = "reject"
    """Accepted only while there is quota; PENDING to RUNNING hold it."""
    QUEUE = "queue"
    """Accepted up to `queued_max`; quota is counted from the start."""
    BURST = "burst"
    """As queue; what overflows is priced as burst."""


class Quota(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tenant may hold or use up. None: no limit but what the pools have."""

    resources: Resources | None = None
    jobs: int | None = None
    """Jobs holding quota at once."""
    workers: int | None = None
    """Nodes its runs may be on at once."""
    queued_max: int = 1_000_000
    """Jobs waiting at once, for the policies that let them wait."""
    jobs_per_month: int | None = None
    """Jobs accepted in a calendar month (UTC)."""
    cost_per_day: Micros | None = None
    """Money in a day (UTC): beyond it nothing new is accepted or started until the next; what runs goes on."""
    pools: tuple[PoolId, ...] = ()
    """Pools it may use; empty means any."""


class BurstPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far, how long and how often a tenant may go beyond its quota, and what that costs."""

    factor: int = 1500
    """Of its quota of resources and jobs, in thousandths."""
    span_ms: Millis = Millis(3_600_000)
    cooldown_ms: Millis = Millis(1_800_000)
    """From the end of a session until the next may open."""
    sessions_per_day: int = 3
    """By the UTC day they open in. 0: never."""
    price_factor: int = 1500
    """Of the price, for the time in burst, in thousandths."""


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Money for a calendar month (UTC)."""

    per_month: Micros
    thresholds: tuple[int, ...] = (500, 750, 900, 1000)
    """Thousandths of it; passing one is told."""
    is_hard: bool = False
    """At the whole of it runs are stopped and nothing new is accepted; artifacts are kept."""


class RateLimit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requests to the API: so many a second, and so many at once after a pause."""

    per_second: int = 200
    at_once: int = 400


class Tenant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: TenantId
    tier: Tier = Tier.FREE
    weight: int = SHARE
    """In thousandths: 1000 is a single share. What holds, whoever gave it."""
    is_tier_weight: bool = False
    """Nobody gave it a weight: it has its tier's, also when that changes."""
    policy: QuotaPolicy = QuotaPolicy.QUEUE
    quota: Quota = Quota()
    burst: BurstPolicy = BurstPolicy()
    budget: Budget | None = None
    rate: RateLimit | None = None
    """None: as the server's settings say."""
    sla_ms: Millis | None = None
    """Given to jobs that name no deadline; None leaves them without."""
    default_timeout_ms: Millis | None = None
    """Given to jobs that name no timeout; None leaves them unbounded."""
    created_at: Millis = Millis(0)


DEFAULT_QUOTA: Final = Quota(resources=Resources(cpu_millis=4000, memory_bytes=8 << 30), jobs=10)


def new_tenant(tenant: TenantId, *, tier: Tier = Tier.FREE) -> Tenant:
    """As an admin creates it, before anything else is said."""
    return Tenant(
        id=tenant,
        tier=tier,
        weight=TIER_WEIGHTS[tier],
        is_tier_weight=True,
        policy=QuotaPolicy.REJECT,
        quota=DEFAULT_QUOTA,
    )
