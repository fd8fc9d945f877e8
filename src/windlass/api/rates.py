"""How fast a tenant may ask. Checked once a token is verified: what somebody only claims to be must not use up another's share."""

import time
from collections.abc import Callable

from windlass.core.admission.rate import SECOND_NS, Buckets
from windlass.core.errors import Excess, OverLimit
from windlass.core.model.tenant import RateLimit, Tenant


class Rates:
    """`default` is for tenants without a limit of their own; None lets them ask as fast as they can."""

    def __init__(self, default: RateLimit | None = None, *, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._default = default
        self._clock_ns = clock_ns
        self._buckets: Buckets[str] = Buckets()

    def check(self, tenant: Tenant) -> None:
        limit = tenant.rate or self._default
        if limit is None:
            return
        wait_ns = self._buckets.take(tenant.id, limit.per_second, limit.at_once, self._clock_ns())
        if wait_ns:
            raise OverLimit(
                f"tenant {tenant.id} may ask {limit.per_second} times a second, {limit.at_once} at once after a pause",
                code="rate-limited",
                hint="ask less often: follow events, and submit in bulk",
                retry_after_seconds=-(-wait_ns // SECOND_NS),
                limits=[
                    Excess(code="rate-limited", used=full, asked=1, limit=full, unit=unit)
                    for full, unit in ((limit.at_once, "requests at once"), (limit.per_second, "requests a second"))
                ],
            )
