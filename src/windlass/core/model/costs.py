"""What is asked of the ledger, and what it answers: sums of runs by tenant, pool, day or job; one line per run for reports."""

from enum import StrEnum

from msgspec import Struct

from windlass.core.model.calendar import Day
from windlass.core.model.ids import JobId, Millis, PoolId, RunId, TenantId
from windlass.core.model.money import Micros, PriceBook
from windlass.core.model.resources import Resources


class CostBy(StrEnum):
    TENANT = "tenant"
    POOL = "pool"
    DAY = "day"
    JOB = "job"


class CostQuery(Struct, frozen=True, kw_only=True):
    """Both days count. `tenant` None is the admin's view of all."""

    tenant: TenantId | None
    by: tuple[CostBy, ...]
    since: Day
    until: Day
    limit: int = 1000


class CostRow(Struct, frozen=True, kw_only=True):
    """One sum. A field that was not asked for is empty."""

    tenant: str = ""
    pool: str = ""
    day: Day | None = None
    job: str = ""
    job_name: str = ""
    cost: Micros = Micros(0)
    burst_cost: Micros = Micros(0)
    """Part of `cost`."""
    stored_cost: Micros = Micros(0)
    """Part of `cost`: of volumes."""
    live_cost: Micros = Micros(0)
    """Part of `cost`: of runs and volumes that are not over, until now."""
    runs: int = 0
    span_ms: Millis = Millis(0)


class MeteredRun(Struct, frozen=True, kw_only=True):
    """One run that is over, with what it asked for and what was measured of it."""

    run: RunId
    job: JobId
    job_name: str
    tenant: TenantId
    pool: PoolId
    day: Day
    needs: Resources
    ran_ms: Millis
    cost: Micros
    prices: PriceBook
    cpu_used_ms: int | None = None
    """Processor time; None: not measured on that node."""
    memory_peak_bytes: int | None = None
