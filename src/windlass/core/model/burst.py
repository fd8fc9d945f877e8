"""A burst session: for a while a tenant may go beyond its quota, at a price. It ends when it says, also across a restart."""

from msgspec import Struct

from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.money import Micros


class BurstSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    """Epoch and number of the decision that opened it."""
    tenant: TenantId
    opened_at: Millis
    ends_at: Millis
    """When it will end; once it is closed, when it did."""
    factor: int
    """Of the quota, in thousandths; fixed when it opens, as the price is."""
    price_factor: int
    is_asked: bool = False
    """Opened by somebody through the API; else by the tenant's policy, because its quota was full."""
    is_closed: bool = False
    runs: int = 0
    """That went beyond the quota in it and are over."""
    cost: Micros = Micros(0)
    """Of their time in it."""

    def is_open(self, now: Millis) -> bool:
        return not self.is_closed and now < self.ends_at


def burst_id(session: BurstSession) -> str:
    """Its key in the World's table."""
    return f"{session.tenant}/{session.id}"
