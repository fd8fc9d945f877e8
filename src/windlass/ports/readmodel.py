"""The tables every list, search, page and report is answered from; fed by the store's watch, a whole commit at a time.

The verbs are plain functions: whoever owns the tables calls them in a thread of their own, so that heavy reading never touches
the brain's loop.
"""

from collections.abc import Sequence
from typing import Protocol

from windlass.core.model.audit import AuditPage, AuditQuery
from windlass.core.model.calendar import Day
from windlass.core.model.costs import CostQuery, CostRow, MeteredRun
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.views import Event, EventQuery, JobPage, JobQuery, JobView, VolumeView
from windlass.core.scaling import ScalingStep
from windlass.ports.store import Change


class ReadTables(Protocol):
    def revision(self) -> int:
        """The newest revision taken in; 0 at first."""
        ...

    def apply(self, changes: Sequence[Change], revision: int, *, tells: bool = True) -> tuple[JobView, ...]:
        """Take in all changes up to `revision` in one transaction; with `tells`, answers the jobs that changed."""
        ...

    def reset(self, changes: Sequence[Change], revision: int) -> None:
        """The store has forgotten what we missed: take its present for the live part; history stays."""
        ...

    def find_job(self, tenant: TenantId | None, ref: str) -> JobView:
        """By name, uid or unique beginning of a uid, with its runs. NotFound; Conflict when the beginning is not unique."""
        ...

    def jobs(self, query: JobQuery) -> JobPage: ...

    def events(self, query: EventQuery) -> tuple[Event, ...]:
        """Oldest first."""
        ...

    def volumes(self, tenant: TenantId | None) -> tuple[VolumeView, ...]: ...

    def jobs_over_before(self, moment: Millis, *, limit: int) -> tuple[JobView, ...]:
        """For retention: the oldest first."""
        ...

    def audit(self, query: AuditQuery) -> AuditPage: ...

    def forget_audit(self, before: Millis) -> None: ...

    def counts(self) -> dict[str, int]:
        """Jobs by state."""
        ...

    def costs(self, query: CostQuery) -> tuple[CostRow, ...]:
        """Of runs that are over, dearest first; by day, oldest first."""
        ...

    def metered(self, tenant: TenantId | None, *, since: Day, limit: int) -> tuple[MeteredRun, ...]:
        """Runs that are over and cost something, dearest first."""
        ...

    def drop_costs(self, before: Day) -> None:
        """Retention: forget what is older."""
        ...

    def scaling(self, pool: PoolId, *, before: int | None, limit: int, since: Millis) -> tuple[ScalingStep, ...]:
        """What a pool's autoscaler decided, newest first; those before decision `before`.

        `since`: when the pool was created. What is older is its namesake's, which was deleted.
        """
        ...

    def forget_scaling(self, before: Millis) -> None: ...

    def close(self) -> None: ...
