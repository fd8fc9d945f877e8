"""Money as it travels: costs, burst sessions, budgets, prices, savings. Amounts are whole micro-units; factors plain numbers."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from windlass.core.model import bounds
from windlass.core.model.burst import BurstSession
from windlass.core.model.calendar import Day, Month, show_day, show_month
from windlass.core.model.costs import CostBy, CostQuery, CostRow
from windlass.core.model.ids import Millis, PoolId
from windlass.core.model.money import PriceBook, Prices
from windlass.core.model.spending import BudgetMark
from windlass.core.model.tenant import Budget
from windlass.core.savings import Saving, by_kind
from windlass.wire.job import Name, Strict
from windlass.wire.render import Wall, resources_document, timestamp
from windlass.wire.schema import ResourcesShape, Shape

_BOOK = PriceBook()
Price = Annotated[int, Field(ge=bounds.MONEY.least, le=bounds.MONEY.most)]
Percent = Annotated[int, Field(ge=0, le=1000)]
TierName = Literal["free", "standard", "premium", "enterprise"]


class PriceBookDocument(Strict):
    """Micro-units an hour. What is left out is at its list price."""

    core_hour: Price = _BOOK.core_hour
    gigabyte_hour: Price = _BOOK.gigabyte_hour
    gpu_hour: Price = _BOOK.gpu_hour
    worker_hour: Price = _BOOK.worker_hour
    stored_gigabyte_hour: Price = _BOOK.stored_gigabyte_hour


class PricesDocument(Strict):
    """What is charged from now on; a run keeps the prices it was placed at.

    `every` has no default: an empty document, sent by mistake, would put all prices back to the list.
    """

    every: PriceBookDocument
    pools: Annotated[dict[Name, PriceBookDocument], Field(max_length=bounds.POOLS_MAX)] = Field(default_factory=dict)
    """Instead of `every`, for these."""
    tiers: dict[TierName, Percent] = Field(default_factory=dict)
    """What a tier pays of it, in percent."""


class ListPrices(Strict):
    """A server's setting: the list prices, and what tiers pay of them. Pools have theirs in their manifests."""

    every: PriceBookDocument | None = None
    tiers: dict[TierName, Percent] | None = None

    def book(self) -> PriceBook | None:
        return None if self.every is None else _book(self.every)

    def thousandths(self) -> dict[str, int] | None:
        return None if self.tiers is None else _tiers(self.tiers)


class CostItem(Shape):
    tenant: str | None = None
    pool: str | None = None
    day: str | None = None
    job: str | None = None
    uid: str | None = None
    cost: int
    burst_cost: int
    stored_cost: int
    live_cost: int
    runs: int
    seconds: float


class CostAnswer(Shape):
    by: list[Literal["tenant", "pool", "day", "job"]]
    since: str
    until: str
    total: int
    items: list[CostItem]


class BurstItem(Shape):
    id: str
    state: Literal["open", "closed"]
    opened_at: str
    ends_at: str
    opened_by: Literal["request", "policy"]
    factor: float
    price_factor: float
    runs: int
    cost: int


class BurstList(Shape):
    tenant: str
    items: list[BurstItem]


class PassedItem(Shape):
    percent: float
    at: str
    spent: int


class BudgetAnswer(Shape):
    tenant: str
    month: str
    spent: int
    per_month: int | None
    thresholds: list[float]
    hard_stop: bool
    passed: list[PassedItem]


class EvidenceShape(Shape):
    runs: int
    measured: int
    seconds: float
    cost: int
    cpu_seconds: float
    cpu_most: float
    memory_peak: int
    jobs: list[str]


class SavingItem(Shape):
    kind: Literal["idle", "over-asked", "cheaper-pool"]
    tenant: str
    pool: str
    saves: int
    asked: ResourcesShape
    advised: ResourcesShape | None
    advised_pool: str | None
    evidence: EvidenceShape


class SavingsAnswer(Shape):
    since: str
    runs: int
    measured: int
    stored: int
    saves: dict[str, int]
    items: list[SavingItem]


def read_prices(document: PricesDocument) -> Prices:
    return Prices(
        every=_book(document.every),
        pools={PoolId(pool): _book(book) for pool, book in document.pools.items()},
        tiers=_tiers(document.tiers),
    )


def prices_document(prices: Prices) -> dict[str, Any]:
    return {
        "every": _book_document(prices.every),
        "pools": {pool: _book_document(book) for pool, book in prices.pools.items()},
        "tiers": {tier: factor // 10 for tier, factor in prices.tiers.items()},
    }


def cost_document(query: CostQuery, rows: Iterable[CostRow]) -> dict[str, Any]:
    items = [_cost_item(query, row) for row in rows]
    return {
        "by": [by.value for by in query.by],
        "since": show_day(query.since),
        "until": show_day(query.until),
        "total": sum(item["cost"] for item in items),
        "items": items,
    }


def burst_document(session: BurstSession, *, now: Millis, wall: Wall) -> dict[str, Any]:
    return {
        "id": session.id,
        "state": "open" if session.is_open(now) else "closed",
        "openedAt": timestamp(wall(session.opened_at)),
        "endsAt": timestamp(wall(session.ends_at)),
        "openedBy": "request" if session.is_asked else "policy",
        "factor": session.factor / 1000,
        "priceFactor": session.price_factor / 1000,
        "runs": session.runs,
        "cost": session.cost,
    }


def budget_document(
    tenant: str, budget: Budget | None, *, month: Month, spent: int, mark: BudgetMark | None, wall: Wall
) -> dict[str, Any]:
    passed = mark.passed if mark is not None else ()
    return {
        "tenant": tenant,
        "month": show_month(month),
        "spent": spent,
        "perMonth": budget.per_month if budget is not None else None,
        "thresholds": [one / 10 for one in budget.thresholds] if budget is not None else [],
        "hardStop": budget.is_hard if budget is not None else False,
        "passed": [
            {"percent": one.threshold / 10, "at": timestamp(wall(one.at)), "spent": one.spent} for one in passed
        ],
    }


def savings_document(
    since: Day, runs: int, measured: int, savings: tuple[Saving, ...], *, stored: int
) -> dict[str, Any]:
    return {
        "since": show_day(since),
        "runs": runs,
        "measured": measured,
        "stored": stored,
        "saves": {kind.value: value for kind, value in by_kind(savings).items()},
        "items": [_saving(one) for one in savings],
    }


def _saving(one: Saving) -> dict[str, Any]:
    seen = one.evidence
    return {
        "kind": one.kind.value,
        "tenant": one.tenant,
        "pool": one.pool,
        "saves": one.saves,
        "asked": resources_document(one.asked),
        "advised": resources_document(one.advised) if one.advised is not None else None,
        "advisedPool": one.advised_pool,
        "evidence": {
            "runs": seen.runs,
            "measured": seen.measured,
            "seconds": seen.span_ms / 1000,
            "cost": seen.cost,
            "cpuSeconds": seen.cpu_used_ms / 1000,
            "cpuMost": seen.cpu_millis_most / 1000,
            "memoryPeak": seen.memory_peak_bytes,
            "jobs": list(seen.jobs),
        },
    }


def _cost_item(query: CostQuery, row: CostRow) -> dict[str, Any]:
    keys: Mapping[CostBy, dict[str, Any]] = {
        CostBy.TENANT: {"tenant": row.tenant},
        CostBy.POOL: {"pool": row.pool},
        CostBy.DAY: {"day": show_day(row.day) if row.day is not None else None},
        CostBy.JOB: {"job": row.job_name, "uid": row.job},
    }
    item: dict[str, Any] = {}
    for by in query.by:
        item |= keys[by]
    return item | {
        "cost": row.cost,
        "burstCost": row.burst_cost,
        "storedCost": row.stored_cost,
        "liveCost": row.live_cost,
        "runs": row.runs,
        "seconds": row.span_ms / 1000,
    }


def _tiers(percents: Mapping[TierName, int]) -> dict[str, int]:
    return {tier: percent * 10 for tier, percent in percents.items()}


def _book(document: PriceBookDocument) -> PriceBook:
    return PriceBook(
        core_hour=document.core_hour,
        gigabyte_hour=document.gigabyte_hour,
        gpu_hour=document.gpu_hour,
        worker_hour=document.worker_hour,
        stored_gigabyte_hour=document.stored_gigabyte_hour,
    )


def _book_document(book: PriceBook) -> dict[str, int]:
    return {
        "coreHour": book.core_hour,
        "gigabyteHour": book.gigabyte_hour,
        "gpuHour": book.gpu_hour,
        "workerHour": book.worker_hour,
        "storedGigabyteHour": book.stored_gigabyte_hour,
    }
