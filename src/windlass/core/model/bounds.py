"""What the numbers of tenants and pools may be: the one place. `wire` takes its limits from here; the World asks once more."""

from collections.abc import Collection, Iterator
from typing import Final

from msgspec import Struct

from windlass.core.errors import Fault
from windlass.core.model.ids import PoolId
from windlass.core.model.pool import Measure, Pool, Scaling, Trigger
from windlass.core.model.tenant import WEIGHT_LEAST, Budget, BurstPolicy, Quota, RateLimit, Tenant


class Bound(Struct, frozen=True):
    """Both ends are allowed."""

    least: int
    most: int

    def holds(self, value: int) -> bool:
        return self.least <= value <= self.most


_HOUR_MS: Final = 3_600_000
MONEY: Final = Bound(0, 10**15)
"""Micro-units: a thousand million."""
PRIORITY: Final = Bound(-100, 100)
WEIGHT: Final = Bound(WEIGHT_LEAST, 10_000)
CPU_MILLIS: Final = Bound(0, 10**9)
MEMORY_BYTES: Final = Bound(0, 1 << 60)
GPUS: Final = Bound(0, 1_000_000)
JOBS: Final = Bound(0, 10_000_000)
WORKERS: Final = Bound(0, 1_000_000)
QUEUED: Final = Bound(0, 10_000_000)
JOBS_PER_MONTH: Final = Bound(0, 10**12)
POOLS_MAX: Final = 1000
BURST_FACTOR: Final = Bound(1000, 10_000)
BURST_PRICE: Final = Bound(1000, 100_000)
BURST_SPAN_MS: Final = Bound(1000, 24 * _HOUR_MS)
BURST_COOLDOWN_MS: Final = Bound(0, 31 * 24 * _HOUR_MS)
BURSTS_PER_DAY: Final = Bound(0, 1000)
BUDGET: Final = Bound(1, MONEY.most)
THRESHOLD: Final = Bound(1, 1000)
THRESHOLDS_MAX: Final = 20
RATE: Final = Bound(1, 1_000_000)
SPAN_MS: Final = Bound(1000, 366 * 24 * _HOUR_MS)


def tenant_faults(tenant: Tenant, *, pools: Collection[PoolId] | None = None, under: str = "spec.") -> list[Fault]:
    """Everything that cannot be meant, each named by its field. `pools`: those there are; None asks nothing of them."""
    found = [
        *_out_of(WEIGHT, "weight", tenant.weight, unit="thousandths of a share"),
        *_quota_faults(tenant.quota, pools),
        *_burst_faults(tenant.burst),
        *(_budget_faults(tenant.budget) if tenant.budget is not None else ()),
        *(_rate_faults(tenant.rate) if tenant.rate is not None else ()),
        *_out_of(SPAN_MS, "sla", tenant.sla_ms, unit="ms"),
        *_out_of(SPAN_MS, "defaultTimeout", tenant.default_timeout_ms, unit="ms"),
    ]
    return [Fault(under + fault.field, fault.message) for fault in found]


POOL_WORKERS: Final = Bound(0, 10_000)
WORKER_CPU_MILLIS: Final = Bound(10, CPU_MILLIS.most)
WORKER_MEMORY_BYTES: Final = Bound(16 << 20, MEMORY_BYTES.most)
TRIGGERS_MAX: Final = 4
SCHEDULES_MAX: Final = 50
POOL_TENANTS_MAX: Final = 1000
POOL_LABELS_MAX: Final = 50
POOL_NAME_MAX: Final = 40
"""The names of its workers begin with it, and are labels too."""
SHARE_HELD: Final = Bound(0, 1000)
DEPTH: Final = Bound(0, 10_000_000)
STEP: Final = Bound(1, 1000)
COOLDOWN_MS: Final = Bound(0, 24 * _HOUR_MS)
PER_MINUTE: Final = Bound(0, 10_000)
IDLE_MS: Final = Bound(1000, 31 * 24 * _HOUR_MS)
READY_MS: Final = Bound(1000, 24 * _HOUR_MS)
RUNS_PER_WORKER: Final = Bound(0, 1_000_000)
_MARKS: Final = {
    Measure.CPU: SHARE_HELD,
    Measure.MEMORY: SHARE_HELD,
    Measure.DEPTH: DEPTH,
    Measure.WAIT: Bound(0, SPAN_MS.most),
}


def pool_faults(pool: Pool, *, under: str = "spec.") -> list[Fault]:
    """Everything that cannot be meant, each named by its field. Room on machines is the World's to judge."""
    found: list[Fault] = []
    if len(pool.tenants) > POOL_TENANTS_MAX:
        found.append(Fault("tenants", f"names {len(pool.tenants)}; expected {POOL_TENANTS_MAX} at most"))
    if pool.is_dynamic != (pool.scaling is not None):
        said = "has none" if pool.is_dynamic else "a static pool has none"
        found.append(Fault("scaling", f"{said}; expected one for a dynamic pool, and only there"))
    if pool.is_dynamic != bool(pool.provisioner):
        found.append(Fault("provisioner", "expected one for a dynamic pool, and only there"))
    if pool.is_paused and not pool.is_dynamic:
        found.append(Fault("paused", "a static pool never grows or shrinks: there is nothing to pause"))
    if pool.scaling is not None:
        found += [Fault(f"scaling.{fault.field}", fault.message) for fault in _scaling_faults(pool.scaling)]
    return [Fault(under + fault.field, fault.message) for fault in found]


def _scaling_faults(scaling: Scaling) -> Iterator[Fault]:
    yield from _out_of(POOL_WORKERS, "min", scaling.workers_min)
    yield from _out_of(POOL_WORKERS, "max", scaling.workers_max)
    if scaling.workers_min > scaling.workers_max:
        yield Fault("min", f"is {scaling.workers_min}; expected no more than the maximum, {scaling.workers_max}")
    yield from _out_of(POOL_WORKERS, "spares", scaling.spares)
    if scaling.spares > scaling.workers_max:
        yield Fault("spares", f"is {scaling.spares}; expected no more than the maximum, {scaling.workers_max}")
    yield from _out_of(WORKER_CPU_MILLIS, "worker.cpu", scaling.worker.cpu_millis, unit="millicores")
    yield from _out_of(WORKER_MEMORY_BYTES, "worker.memory", scaling.worker.memory_bytes, unit="bytes")
    yield from _out_of(Bound(0, 0), "worker.gpu", scaling.worker.gpus)
    yield from _out_of(COOLDOWN_MS, "cooldownUp", scaling.cooldown_up_ms, unit="ms")
    yield from _out_of(COOLDOWN_MS, "cooldownDown", scaling.cooldown_down_ms, unit="ms")
    yield from _out_of(PER_MINUTE, "upPerMinute", scaling.up_per_minute)
    yield from _out_of(PER_MINUTE, "downPerMinute", scaling.down_per_minute)
    yield from _out_of(IDLE_MS, "idle", scaling.idle_ms, unit="ms")
    yield from _out_of(READY_MS, "readyWithin", scaling.ready_within_ms, unit="ms")
    yield from _out_of(RUNS_PER_WORKER, "runsPerWorker", scaling.runs_per_worker)
    if len({trigger.measure for trigger in scaling.triggers}) < len(scaling.triggers):
        yield Fault("triggers", "name a measure twice; expected each once at most")
    for index, trigger in enumerate(scaling.triggers[:TRIGGERS_MAX]):
        yield from _trigger_faults(trigger, f"triggers[{index}].")
    for index, schedule in enumerate(scaling.schedules[:SCHEDULES_MAX]):
        yield from _out_of(POOL_WORKERS, f"schedules[{index}].workers", schedule.workers)
        if schedule.workers > scaling.workers_max:
            said = f"is {schedule.workers}; expected no more than the maximum, {scaling.workers_max}"
            yield Fault(f"schedules[{index}].workers", said)
    if len(scaling.schedules) > SCHEDULES_MAX:
        yield Fault("schedules", f"names {len(scaling.schedules)}; expected {SCHEDULES_MAX} at most")


def _trigger_faults(trigger: Trigger, under: str) -> Iterator[Fault]:
    marks = _MARKS[trigger.measure]
    yield from _out_of(marks, f"{under}up", trigger.up)
    yield from _out_of(marks, f"{under}down", trigger.down)
    yield from _out_of(Bound(1, marks.most), f"{under}target", trigger.target)
    yield from _out_of(STEP, f"{under}stepUp", trigger.step_up)
    yield from _out_of(STEP, f"{under}stepDown", trigger.step_down)
    if trigger.down >= trigger.up:
        yield Fault(f"{under}down", f"is {trigger.down}; expected less than the upper mark, {trigger.up}")


def _quota_faults(quota: Quota, pools: Collection[PoolId] | None) -> Iterator[Fault]:
    if quota.resources is not None:
        yield from _out_of(CPU_MILLIS, "quota.cpu", quota.resources.cpu_millis, unit="millicores")
        yield from _out_of(MEMORY_BYTES, "quota.memory", quota.resources.memory_bytes, unit="bytes")
        yield from _out_of(GPUS, "quota.gpu", quota.resources.gpus)
    yield from _out_of(JOBS, "quota.jobs", quota.jobs)
    yield from _out_of(WORKERS, "quota.workers", quota.workers)
    yield from _out_of(QUEUED, "quota.queuedMax", quota.queued_max)
    yield from _out_of(JOBS_PER_MONTH, "quota.jobsPerMonth", quota.jobs_per_month)
    yield from _out_of(MONEY, "quota.costPerDay", quota.cost_per_day, unit="micro-units")
    if len(quota.pools) > POOLS_MAX:
        yield Fault("quota.pools", f"names {len(quota.pools)} pools; expected {POOLS_MAX} at most")
    for unknown in sorted(set(quota.pools) - set(pools)) if pools is not None else ():
        known = ", ".join(sorted(pools or ())) or "none yet"
        yield Fault("quota.pools", f"there is no pool {unknown!r}; there are: {known}")


def _burst_faults(burst: BurstPolicy) -> Iterator[Fault]:
    yield from _out_of(BURST_FACTOR, "burst.factor", burst.factor, unit="thousandths of the quota")
    yield from _out_of(BURST_SPAN_MS, "burst.span", burst.span_ms, unit="ms")
    yield from _out_of(BURST_COOLDOWN_MS, "burst.cooldown", burst.cooldown_ms, unit="ms")
    yield from _out_of(BURSTS_PER_DAY, "burst.sessionsPerDay", burst.sessions_per_day)
    yield from _out_of(BURST_PRICE, "burst.priceFactor", burst.price_factor, unit="thousandths of the price")


def _budget_faults(budget: Budget) -> Iterator[Fault]:
    yield from _out_of(BUDGET, "budget.perMonth", budget.per_month, unit="micro-units")
    if len(budget.thresholds) > THRESHOLDS_MAX:
        yield Fault("budget.thresholds", f"names {len(budget.thresholds)}; expected {THRESHOLDS_MAX} at most")
    for threshold in budget.thresholds:
        yield from _out_of(THRESHOLD, "budget.thresholds", threshold, unit="thousandths of the budget")


def _rate_faults(rate: RateLimit) -> Iterator[Fault]:
    yield from _out_of(RATE, "rate.perSecond", rate.per_second)
    yield from _out_of(RATE, "rate.atOnce", rate.at_once)


def _out_of(bound: Bound, field: str, value: int | None, *, unit: str = "") -> Iterator[Fault]:
    if value is None or bound.holds(value):
        return
    yield Fault(field, f"is {value}; expected {bound.least} to {bound.most}{f' {unit}' if unit else ''}")
