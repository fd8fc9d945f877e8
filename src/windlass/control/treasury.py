"""Money, as people ask for it: costs with what runs counted until now, budgets, burst sessions, prices, and where to save."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import structlog
from msgspec import Struct
from msgspec.structs import replace

from windlass.control.brain import Brain
from windlass.control.readmodel import ReadModel
from windlass.core.admission.budget import job_cost
from windlass.core.metering import segments_so_far, stored_segments
from windlass.core.model.burst import BurstSession
from windlass.core.model.calendar import Day, Month, day_of, month_of
from windlass.core.model.costs import CostBy, CostQuery, CostRow
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.job import Job
from windlass.core.model.money import Micros, Prices
from windlass.core.model.run import Run
from windlass.core.model.spending import BudgetMark
from windlass.core.model.tenant import Budget
from windlass.core.model.volume import Volume
from windlass.core.savings import PoolOffer, Saving, find_savings
from windlass.core.world import bursts
from windlass.core.world.entry import Entry
from windlass.core.world.prices import set_prices
from windlass.core.world.world import World

log = structlog.get_logger()

T = TypeVar("T")
_RUNS_JUDGED_MAX = 20_000


class BudgetView(Struct, frozen=True, kw_only=True):
    tenant: TenantId
    budget: Budget | None
    month: Month
    spent: Micros
    """This month, with what runs until now."""
    mark: BudgetMark | None


class SavingsReport(Struct, frozen=True, kw_only=True):
    since: Day
    runs: int
    measured: int
    stored: Micros
    """What volumes cost in these days."""
    savings: tuple[Saving, ...]


class Treasury:
    def __init__(self, brain: Brain, read_model: ReadModel) -> None:
        self._brain = brain
        self._read_model = read_model

    def committed(self, entries: Sequence[Entry], revision: int) -> None:
        """Whoever runs the server reads of a budget in its log, too."""
        for entry in entries:
            known = entry.old.passed if isinstance(entry.old, BudgetMark) else ()
            if isinstance(entry.new, BudgetMark) and (news := [one for one in entry.new.passed if one not in known]):
                newest = news[-1]
                log.warning(
                    "budget.passed", tenant=entry.new.tenant, thousandths=newest.threshold, spent_micros=newest.spent
                )

    @property
    def _world(self) -> World:
        return self._brain.world

    # — what things cost —

    async def costs(self, query: CostQuery) -> tuple[CostRow, ...]:
        """A run is either over and in the read model, or live and counted here: the caller has waited for the first."""
        rows = {_key(row): row for row in await self._read_model.costs(query)}
        for row in self._live(query):
            key = _key(row)
            rows[key] = _added(rows[key], row) if key in rows else row
        ordered = sorted(rows.values(), key=lambda row: (row.day or 0, -row.cost, _key(row)))
        return tuple(ordered[: query.limit])

    def cost_of(self, job: Job) -> Micros:
        """Of a job that is not over, until now."""
        return job_cost(job, self._world.live_run(job.id), self._brain.clock.now())

    async def savings(self, tenant: TenantId | None, *, days: int) -> SavingsReport:
        since = Day(day_of(self._brain.clock.now()) - days + 1)
        runs = await self._read_model.metered(tenant, since=since, limit=_RUNS_JUDGED_MAX)
        found = find_savings(runs, partial(_offers, self._world))
        measured = sum(run.cpu_used_ms is not None and run.memory_peak_bytes is not None for run in runs)
        asked = CostQuery(tenant=tenant, by=(), since=since, until=day_of(self._brain.clock.now()))
        stored = Micros(sum(row.stored_cost for row in await self.costs(asked)))
        return SavingsReport(since=since, runs=len(runs), measured=measured, stored=stored, savings=tuple(found))

    def _live(self, query: CostQuery) -> list[CostRow]:
        now, tables = self._brain.clock.now(), self._world.tables
        runs = [
            row
            for run in tables.runs.values()
            if not run.is_over and (query.tenant is None or run.tenant == query.tenant)
            for row in _rows_of(run, query, self._name(run), now)
        ]
        stored = [
            row
            for volume in tables.stored.values()
            if query.tenant is None or volume.tenant == query.tenant
            for row in _rows_stored(volume, query, now)
        ]
        return runs + stored

    def _name(self, run: Run) -> str:
        job = self._world.tables.jobs.get(run.job)
        return job.name if job is not None else ""

    # — budgets —

    def budget(self, tenant: TenantId) -> BudgetView:
        now = self._brain.clock.now()
        owner, month = self._world.tenant(tenant), month_of(day_of(now))
        usage = self._world.tables.usage.get(tenant)
        mark = self._world.tables.marks.get(tenant)
        return BudgetView(
            tenant=tenant,
            budget=owner.budget,
            month=month,
            spent=usage.spent_in(month, now) if usage is not None else Micros(0),
            mark=mark if mark is not None and mark.month == month else None,
        )

    # — bursts —

    def bursts(self, tenant: TenantId) -> list[BurstSession]:
        self._world.tenant(tenant)
        return bursts.bursts_of(self._world, tenant, self._brain.clock.now())

    async def open_burst(self, tenant: TenantId) -> tuple[BurstSession, int]:
        return await self._decide(lambda now: bursts.ask_burst(self._world, tenant, now=now))

    async def end_burst(self, tenant: TenantId) -> tuple[BurstSession, int]:
        return await self._decide(lambda now: bursts.end_burst(self._world, tenant, now=now))

    async def _decide(self, verb: Callable[[Millis], T]) -> tuple[T, int]:
        return await self._brain.decide(verb)

    # — prices —

    def prices(self, tenant: TenantId | None) -> Prices:
        """As one tenant may see them, or all."""
        known, pools = self._world.tables.prices, self._world.tables.fleet.pools
        shut = {pool.id for pool in pools.values() if tenant is not None and not pool.admits(tenant)}
        return replace(known, pools={name: book for name, book in known.pools.items() if name not in shut})

    async def set_prices(self, prices: Prices) -> int:
        return (await self._brain.decide(lambda now: set_prices(self._world, prices, now=now)))[1]


def _rows_of(run: Run, query: CostQuery, name: str, now: Millis) -> list[CostRow]:
    parts = [part for part in segments_so_far(run, now) if query.since <= part.day <= query.until]
    rows: dict[tuple[str, ...], CostRow] = {}
    for part in parts:
        row = CostRow(
            tenant=run.tenant if CostBy.TENANT in query.by else "",
            pool=run.pool if CostBy.POOL in query.by else "",
            day=part.day if CostBy.DAY in query.by else None,
            job=run.job if CostBy.JOB in query.by else "",
            job_name=name if CostBy.JOB in query.by else "",
            cost=part.cost,
            burst_cost=part.cost if part.is_burst else Micros(0),
            live_cost=part.cost,
            span_ms=part.span_ms,
        )
        rows[_key(row)] = _added(rows[_key(row)], row) if _key(row) in rows else row
    return [replace(row, runs=1) for row in rows.values()]


def _rows_stored(volume: Volume, query: CostQuery, now: Millis) -> list[CostRow]:
    parts = [part for part in stored_segments(volume, now) if query.since <= part.day <= query.until]
    return [
        CostRow(
            tenant=volume.tenant if CostBy.TENANT in query.by else "",
            pool=volume.pool if CostBy.POOL in query.by else "",
            day=part.day if CostBy.DAY in query.by else None,
            job=volume.job or "" if CostBy.JOB in query.by else "",
            job_name=volume.job_name if CostBy.JOB in query.by else "",
            cost=part.cost,
            stored_cost=part.cost,
            live_cost=part.cost,
        )
        for part in parts
    ]


def _key(row: CostRow) -> tuple[str, ...]:
    return row.tenant, row.pool, str(row.day), row.job


def _added(one: CostRow, other: CostRow) -> CostRow:
    return replace(
        one,
        cost=Micros(one.cost + other.cost),
        burst_cost=Micros(one.burst_cost + other.burst_cost),
        stored_cost=Micros(one.stored_cost + other.stored_cost),
        live_cost=Micros(one.live_cost + other.live_cost),
        runs=one.runs + other.runs,
        span_ms=Millis(one.span_ms + other.span_ms),
    )


def _offers(world: World, tenant: TenantId) -> list[PoolOffer]:
    owner = world.tables.tenants.get(tenant)
    if owner is None:
        return []
    allowed = set(owner.quota.pools)
    shut = {pool.id for pool in world.tables.fleet.pools.values() if not pool.admits(tenant)}
    nodes = [
        node for node in world.tables.nodes.values() if node.pool not in shut and (not allowed or node.pool in allowed)
    ]
    return [
        PoolOffer(
            pool=pool,
            largest=tuple(node.capacity for node in nodes if node.pool == pool),
            prices=world.tables.book(tenant, pool),
        )
        for pool in sorted({node.pool for node in nodes})
    ]
