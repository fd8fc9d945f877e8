"""Where a tenant stands, as it is told; see `standings`, which measures it."""

from msgspec import Struct

from windlass.core.fairness.account import Work
from windlass.core.model.ids import Millis, TenantId


class Standing(Struct, frozen=True, kw_only=True):
    tenant: TenantId
    weight: int
    deserved: Work
    received: Work

    @property
    def lag(self) -> Work:
        """What it is behind; negative when it is ahead."""
        return self.deserved - self.received


class Mark(Struct, frozen=True, kw_only=True):
    """What everybody had just before the service at `at`, and since the one before it at `served_at`."""

    at: Millis
    served_at: Millis
    had: dict[TenantId, tuple[Work, Work]]
