"""Money in the World: a run's cost at its end, a volume's when it goes, totals of days, budgets and limits."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from windlass.core.admission.budget import WARN_AT, job_cost, newly_passed, still_passed
from windlass.core.metering import stored_segments
from windlass.core.model.amounts import money
from windlass.core.model.calendar import Day, day_of, month_of, show_day
from windlass.core.model.ids import JobId, Millis, NodeId, TenantId
from windlass.core.model.job import Job
from windlass.core.model.money import Micros
from windlass.core.model.pool import Worker
from windlass.core.model.run import Intent, Run
from windlass.core.model.spending import BudgetMark, DayTotal, PoolTotal, Segment
from windlass.core.model.tenant import SHARE, Budget
from windlass.core.model.volume import Volume
from windlass.core.world.bursts import bill_burst
from windlass.core.world.records import TOTALS, Table, VolumeStored
from windlass.core.world.world import World

COST_EXCEEDED = "CostExceeded"
BUDGET_EXCEEDED = "BudgetExceeded"
_NOTHING: Final = PoolTotal()


def bill_run(world: World, run: Run, parts: Sequence[Segment], now: Millis, *, finished: Job | None) -> None:
    """Part of the decision that accepts its end: onto the totals of its days, once. `finished`: its job, over as well."""
    counted = day_of(finished.created_at) if finished is not None else None
    if len(parts) == 1 and counted == day_of(parts[0].start):  # as nearly all of them are
        _add_to_day(world, run, counted, parts, jobs=1)
    else:
        by_day: dict[Day, list[Segment]] = {counted: []} if counted is not None else {}
        for part in parts:
            by_day.setdefault(day_of(part.start), []).append(part)
        for day, those in by_day.items():
            _add_to_day(world, run, day, those, jobs=int(day == counted))
    if run.burst:
        bill_burst(world, run, parts)
    check_budget(world, run.tenant, now)


def _add_to_day(world: World, run: Run, day: Day, parts: Sequence[Segment], *, jobs: int) -> None:
    key = total_id(run.tenant, day)
    known = world.tables.totals.get(key)
    if known is None:
        known = DayTotal(tenant=run.tenant, day=day)
    pools = {**known.pools, run.pool: _with(known.pools.get(run.pool, _NOTHING), parts)} if parts else known.pools
    world.put(TOTALS, key, DayTotal(tenant=known.tenant, day=day, jobs=known.jobs + jobs, pools=pools))


def bill_worker(world: World, worker: Worker, parts: Sequence[Segment], now: Millis) -> None:
    """Part of the decision that forgets it: onto its payer's totals, once."""
    for part in parts:
        key = total_id(worker.payer, day_of(part.start))
        known = world.tables.totals.get(key) or DayTotal(tenant=worker.payer, day=day_of(part.start))
        pools = {**known.pools, worker.pool: _with(known.pools.get(worker.pool, _NOTHING), [part])}
        world.put(TOTALS, key, replace(known, pools=pools))
    if worker.payer in world.tables.tenants:
        check_budget(world, worker.payer, now)


def priced(world: World, volume: Volume, node: NodeId, size_bytes: int, now: Millis) -> Volume:
    """A volume that its node has: paid for from now on, where storing has a price. That is fixed here, as a run's is."""
    tables = world.tables
    lies_on = tables.nodes.get(node)
    if lies_on is None:
        return volume
    price = tables.book(volume.tenant, lies_on.pool).stored_gigabyte_hour
    if not price or not size_bytes:
        return volume
    return replace(volume, stored_at=now, size_bytes=size_bytes, hour_price=price, pool=lies_on.pool)


def settle_storage(world: World, volume: Volume, now: Millis) -> Volume:
    """Part of the decision that judges or moves it: onto its tenant's totals, once. Answers the volume as not paid for."""
    if volume.stored_at is None:
        return volume
    parts = stored_segments(volume, now)
    world.put(Table.OUTBOX, f"volume-{volume.id}-{world.number}", VolumeStored(volume=volume, at=now, segments=parts))
    for part in parts:
        key = total_id(volume.tenant, day_of(part.start))
        known = world.tables.totals.get(key) or DayTotal(tenant=volume.tenant, day=day_of(part.start))
        total = known.pools.get(volume.pool, _NOTHING)
        pools = {**known.pools, volume.pool: replace(total, cost=Micros(total.cost + part.cost))}
        world.put(TOTALS, key, replace(known, pools=pools))
    return replace(volume, stored_at=None)


def count_job(world: World, job: Job) -> None:
    """Part of the decision that ends it without a run: the month it was accepted in keeps count of it."""
    day = day_of(job.created_at)
    key = total_id(job.tenant, day)
    known = world.tables.totals.get(key) or DayTotal(tenant=job.tenant, day=day)
    world.put(TOTALS, key, replace(known, jobs=known.jobs + 1))


def check_budget(world: World, tenant: TenantId, now: Millis) -> None:
    """Note the thresholds that were passed; at the end of a hard budget, stop what runs."""
    owner = world.tables.tenants.get(tenant)
    if owner is None or owner.budget is None:
        return
    known = world.tables.marks.get(tenant)
    passed = newly_passed(owner.budget, known, world.tables.usage[tenant], now)
    with world.decision(now):
        if passed:
            month = month_of(day_of(now))
            before = known.passed if known is not None and known.month == month else ()
            world.put(Table.BUDGETS, tenant, BudgetMark(tenant=tenant, month=month, passed=(*before, *passed)))
        if owner.budget.is_hard and _is_spent(world, tenant, owner.budget, now):
            _stop_all(world, tenant)


def renew_marks(world: World, tenant: TenantId, now: Millis) -> None:
    """Part of the decision that gives it another budget: what was told of the old one and is not so of the new is forgotten.

    Only then: what is spent is not looked at again by every bill, which may come to a little less than was foreseen.
    """
    known, owner = world.tables.marks.get(tenant), world.tables.tenants[tenant]
    if known is None:
        return
    kept = still_passed(owner.budget, known, world.tables.usage[tenant], now) if owner.budget is not None else ()
    if not kept:
        world.drop(Table.BUDGETS, tenant)
    elif kept != known.passed:
        world.put(Table.BUDGETS, tenant, replace(known, passed=kept))


def check_job_cost(world: World, key: JobId, now: Millis) -> None:
    """Warn at nine tenths of what the job may cost; at all of it, stop its run. Its artifacts stay."""
    job = world.tables.jobs.get(key)
    run = world.live_run(key) if job is not None else None
    if job is None or run is None or job.cost_max is None:
        return
    used = job_cost(job, run, now)
    with world.decision(now):
        if used >= job.cost_max and run.intent is Intent.RUN:
            world.put(Table.RUNS, run.id, replace(run, intent=Intent.STOP, stopped_for=COST_EXCEEDED))
        if used * SHARE >= job.cost_max * WARN_AT and not job.is_cost_warned:
            world.put(Table.JOBS, key, replace(job, is_cost_warned=True, cost_warned_at=now))


def why_stopped(job: Job, run: Run, cost: Micros) -> str:
    """For people."""
    if run.stopped_for == COST_EXCEEDED:
        return f"stopped: it may cost {money(job.cost_max or 0)} and has cost {money(cost)}; its artifacts are kept"
    return "stopped: its tenant's budget of this month is spent; its artifacts are kept"


def _stop_all(world: World, tenant: TenantId) -> None:
    for run in world.live_runs(tenant):
        if run.intent is Intent.RUN:
            world.put(Table.RUNS, run.id, replace(run, intent=Intent.STOP, stopped_for=BUDGET_EXCEEDED))


def _is_spent(world: World, tenant: TenantId, budget: Budget, now: Millis) -> bool:
    return world.tables.usage[tenant].spent_in(month_of(day_of(now)), now) >= budget.per_month


def _with(total: PoolTotal, parts: Sequence[Segment]) -> PoolTotal:
    cost: int = total.cost
    burst_cost: int = total.burst_cost
    span: int = total.span_ms
    for part in parts:
        cost += part.cost
        span += part.span_ms
        if part.is_burst:
            burst_cost += part.cost
    return PoolTotal(cost=Micros(cost), burst_cost=Micros(burst_cost), span_ms=Millis(span))


def total_id(tenant: TenantId, day: Day) -> str:
    """Its key in the World's table."""
    return f"{tenant}/{show_day(day)}"
