"""Who is served next where each may take long: so many at once, of one tenant no more than its share, the least served first."""

from collections import Counter, deque

from windlass.core.model.ids import JobId, TenantId


class Turns:
    """Holds what waits and what is being served. Starts nothing."""

    def __init__(self, *, at_once: int, of_one_tenant: int) -> None:
        self._at_once = at_once
        self._of_one_tenant = of_one_tenant
        self._waiting: dict[TenantId, deque[JobId]] = {}
        self._served: Counter[TenantId] = Counter()
        self._known: dict[JobId, TenantId] = {}

    def __contains__(self, job: JobId) -> bool:
        return job in self._known

    def add(self, tenant: TenantId, job: JobId) -> None:
        self._known[job] = tenant
        self._waiting.setdefault(tenant, deque()).append(job)

    def take(self) -> JobId | None:
        """The next to be served; None while there is no slot for any that waits."""
        if self._served.total() >= self._at_once:
            return None
        free = [tenant for tenant in self._waiting if self._served[tenant] < self._of_one_tenant]
        if not free:
            return None
        tenant = min(free, key=lambda one: self._served[one])
        queue = self._waiting[tenant]
        job = queue.popleft()
        if not queue:
            del self._waiting[tenant]
        self._served[tenant] += 1
        return job

    def done(self, job: JobId) -> None:
        tenant = self._known.pop(job)
        self._served[tenant] -= 1
        if not self._served[tenant]:
            del self._served[tenant]
