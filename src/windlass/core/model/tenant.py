"""Who pays. Weight, quota and policy have their seats here; the local home has one tenant whose quota is the machine."""

from enum import StrEnum

from msgspec import Struct

from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.resources import Resources


class QuotaPolicy(StrEnum):
    REJECT = "reject"
    """Accepted only while there is quota; PENDING to RUNNING hold it."""
    QUEUE = "queue"
    """Accepted up to `queued_max`; quota is counted from the start."""
    BURST = "burst"
    """As queue; what overflows is priced as burst."""


class Quota(Struct, frozen=True, kw_only=True, omit_defaults=True):
    resources: Resources | None = None
    """None: as much as the pools have."""
    jobs: int | None = None
    """Jobs holding quota at once."""
    queued_max: int = 1_000_000


class Tenant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: TenantId
    weight: int = 1000
    """In thousandths: 1000 is a single share."""
    policy: QuotaPolicy = QuotaPolicy.QUEUE
    quota: Quota = Quota()
    default_timeout_ms: Millis | None = None
    """Given to jobs that name no timeout; None leaves them unbounded."""
