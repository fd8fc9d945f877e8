"""Money: what things cost, burst sessions, budgets, prices, and where to save. A tenant sees its own; admins see all."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from windlass.api.answers import answer
from windlass.api.auth import Identity
from windlass.api.bodies import read_model, refuse_body
from windlass.api.context import Admin, Context, Here, Reader, Writer
from windlass.api.openapi import REFUSALS, json_body
from windlass.core.errors import Fault, Invalid, NotFound
from windlass.core.model.burst import BurstSession
from windlass.core.model.calendar import Day, day_of, read_day, show_day
from windlass.core.model.costs import CostBy, CostQuery
from windlass.core.model.ids import TenantId
from windlass.wire import money
from windlass.wire.expected import Form
from windlass.wire.job import Strict

router = APIRouter(prefix="/api/v1", tags=["money"], responses=REFUSALS)

_DAYS_SHOWN = 30
_DATE_EXPECTED = "expected a date such as 2026-11-15"
Date = Annotated[str, Form("^[0-9]{4}-[0-9]{2}-[0-9]{2}$", _DATE_EXPECTED)]
By = Literal["tenant", "pool", "day", "job"]
TenantName = Annotated[str, Path(min_length=1, max_length=63)]


class Whose(BaseModel):
    """Of which tenants; without either, the caller's own."""

    model_config = ConfigDict(extra="forbid")

    tenant: str | None = Field(default=None, max_length=63, description="One tenant's; admins only see others'.")
    all: bool = Field(default=False, description="All tenants'; admins only. Not together with `tenant`.")


class CostParameters(Whose):
    by: list[By] = Field(default_factory=list[By], max_length=4, description="Nothing: the sum of all.")
    since: Date | None = Field(default=None, description="First UTC day; 30 days back when absent.")
    until: Date | None = Field(default=None, description="Last UTC day; today when absent.")
    limit: int = Field(default=1000, ge=1, le=10_000)


class SavingsParameters(Whose):
    days: int = Field(default=_DAYS_SHOWN, ge=1, le=366)


class BurstRequest(Strict):
    """Nothing may be asked for: the numbers are the tenant's. A field would pass for a wish that was granted."""


@router.get("/cost", response_model=money.CostAnswer)
async def list_costs(here: Here, caller: Reader, query: Annotated[CostParameters, Query()]) -> Response:
    """Sums over runs by what is asked for; what runs is counted until now."""
    since, until = _days(query, today=day_of(here.plane.clock.now()))
    asked = CostQuery(
        tenant=_whose(here, caller, query),
        by=tuple(CostBy(by) for by in dict.fromkeys(query.by)),
        since=since,
        until=until,
        limit=query.limit,
    )
    return answer(money.cost_document(asked, await here.plane.treasury.costs(asked)))


@router.get("/cost-optimization/reports", response_model=money.SavingsAnswer)
async def report_savings(here: Here, caller: Reader, query: Annotated[SavingsParameters, Query()]) -> Response:
    """From what really ran: idle, over-asked, cheaper elsewhere, each with what it rests on."""
    whose = _whose(here, caller, query)
    report = await here.plane.treasury.savings(whose, days=query.days)
    document = money.savings_document(report.since, report.runs, report.measured, report.savings, stored=report.stored)
    return answer(document)


@router.get("/tenants/{name}/burst", response_model=money.BurstList)
async def list_bursts(here: Here, caller: Reader, name: TenantName) -> Response:
    """Newest first, with their real end and cost."""
    sessions = here.plane.treasury.bursts(_own(caller, name))
    return answer({"tenant": name, "items": [_burst(here, session) for session in sessions]})


@router.post(
    "/tenants/{name}/burst",
    status_code=201,
    response_model=money.BurstItem,
    openapi_extra=json_body(BurstRequest, is_required=False),
)
async def open_burst(request: Request, here: Here, caller: Writer, name: TenantName) -> Response:
    """Beyond the quota for a while, at a price; 429 in the cooldown, and when today's are used."""
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        await read_model(request, BurstRequest, bytes_max=here.limits.manifest_bytes_max)
    session, revision = await here.plane.treasury.open_burst(_own(caller, name))
    return answer(_burst(here, session), status=201, revision=revision)


@router.delete("/tenants/{name}/burst", response_model=money.BurstItem)
async def end_burst(request: Request, here: Here, caller: Writer, name: TenantName) -> Response:
    """Before its time. What runs goes on, at the plain price. Takes no body."""
    refuse_body(request)
    session, revision = await here.plane.treasury.end_burst(_own(caller, name))
    return answer(_burst(here, session), revision=revision)


@router.get("/tenants/{name}/budget", response_model=money.BudgetAnswer)
async def get_budget(here: Here, caller: Reader, name: TenantName) -> Response:
    """This month's: what is spent until now, and the thresholds that were passed."""
    view = here.plane.treasury.budget(_own(caller, name))
    document = money.budget_document(
        view.tenant, view.budget, month=view.month, spent=view.spent, mark=view.mark, wall=here.plane.clock.wall
    )
    return answer(document)


@router.get("/prices", response_model=money.PricesDocument)
async def get_prices(here: Here, caller: Reader) -> Response:
    """Without those of pools that are closed to the caller; admins see all."""
    return answer(money.prices_document(here.plane.treasury.prices(None if caller.is_admin else caller.tenant)))


@router.put("/prices", response_model=money.PricesDocument, openapi_extra=json_body(money.PricesDocument))
async def set_prices(request: Request, here: Here, caller: Admin) -> Response:
    """All of them at once, for what is placed from now on. `every` must be there, if only as `{}`, which is the list price."""
    asked = await read_model(request, money.PricesDocument, bytes_max=here.limits.manifest_bytes_max)
    prices = money.read_prices(asked)
    revision = await here.plane.treasury.set_prices(prices)
    return answer(money.prices_document(prices), revision=revision)


def _own(caller: Identity, tenant: str) -> TenantId:
    """Another tenant's looks like one that is not there."""
    if tenant != caller.tenant and not caller.is_admin:
        raise NotFound(f"no tenant {tenant!r}")
    return TenantId(tenant)


def _whose(here: Context, caller: Identity, asked: Whose) -> TenantId | None:
    """None: everybody's."""
    if asked.all and asked.tenant is not None:
        faults = [Fault("all", "asks for every tenant's, and `tenant` for one's; give one of the two")]
        raise Invalid("the request has one fault", faults=faults)
    if asked.all:
        caller.must_govern()
        return None
    whose, world = _own(caller, asked.tenant if asked.tenant is not None else caller.tenant), here.plane.brain.world
    if whose not in world.tables.gone:  # what a deleted one spent is kept, and was spent
        world.tenant(whose)
    return whose


def _burst(here: Context, session: BurstSession) -> dict[str, object]:
    return money.burst_document(session, now=here.plane.clock.now(), wall=here.plane.clock.wall)


def _days(query: CostParameters, *, today: Day) -> tuple[Day, Day]:
    until = _day(query.until, "until", today)
    since = _day(query.since, "since", Day(until - _DAYS_SHOWN + 1))
    if since > until:
        message = f"{show_day(since)} is after {show_day(until)}, the last day; expected the first day, then the last"
        raise Invalid("the request has one fault", faults=[Fault("since", message)])
    return since, until


def _day(text: str | None, field: str, default: Day) -> Day:
    try:
        return read_day(text) if text is not None else default
    except ValueError:
        raise Invalid("the request has one fault", faults=[Fault(field, _DATE_EXPECTED)]) from None
