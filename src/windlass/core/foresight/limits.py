"""Raises of a tenant's limits that may start a waiting job: quota, pools, money. An admin makes them, no further than it takes."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from windlass.core.admission.quota import excess, money_spent
from windlass.core.admission.raising import raising, wanted
from windlass.core.errors import Excess
from windlass.core.foresight.change import Advice, Change, placed_with
from windlass.core.foresight.gates import may_be_on_no_more
from windlass.core.foresight.growing import pools_left_out
from windlass.core.foresight.line import own_ahead
from windlass.core.model.amounts import money, spoken
from windlass.core.model.ids import Millis
from windlass.core.model.job import Job
from windlass.core.model.money import Micros
from windlass.core.model.resources import NOTHING
from windlass.core.model.run import Run
from windlass.core.model.tenant import Quota, Tenant
from windlass.core.world.world import World

_FIELD: Final = {"quota-cpu": "cpu_millis", "quota-memory": "memory_bytes", "quota-gpu": "gpus"}

_IN_LINE: Final = 8
"""Of those before it, for whom the room has yet to come as well: as many as a pool is tried with workers for."""


def more_quota(world: World, job: Job, now: Millis) -> Iterator[tuple[Advice, Change]]:
    """By exactly what is missing for it, and for those of its tenant that go before it; where there is room for them all, seen."""
    tenant = world.tables.tenants.get(job.tenant)
    if tenant is None:
        return
    usage, quota, needs = world.tables.usage[job.tenant], tenant.quota, job.shape.needs
    let_in = _let_in(world, tenant, job, now)
    if let_in:
        asked = sum((run.needs for run in let_in), NOTHING)
        nodes = len({*usage.nodes, *(run.node for run in let_in)})
        over = excess(quota, asked, held=usage.resources, jobs=usage.runs + len(let_in) - 1)
        yield from _raised(tenant, [*over, *_nodes(quota, len(usage.nodes), nodes)])
        return
    nodes = len(usage.nodes) + may_be_on_no_more(world, job)
    more = _nodes(quota, len(usage.nodes), nodes)
    yield from _raised(tenant, [*excess(quota, needs, held=usage.resources, jobs=usage.runs), *more])
    before = own_ahead(world, job, now=now, most=_IN_LINE + 1)
    if 0 < len(before) <= _IN_LINE:
        asked = sum((one.shape.needs for one in before), needs)
        over = excess(quota, asked, held=usage.resources, jobs=usage.runs + len(before))
        yield from _raised(tenant, [*over, *more])


def _let_in(world: World, tenant: Tenant, job: Job, now: Millis) -> list[Run]:
    """Runs of its tenant that are placed if nothing but the room limits it, up to the job's own; none if that is not among them.

    On no more nodes than it takes: those it may be on, one more, any.
    """
    quota, used = tenant.quota, len(world.tables.usage[job.tenant].nodes)
    bounds = (None,) if quota.workers is None else (quota.workers, max(used, quota.workers) + 1, None)
    for workers in bounds:
        free = replace(tenant, quota=replace(quota, resources=None, jobs=None, workers=workers))
        runs = [run for run in placed_with(world, _tenant(free), now) if run.tenant == job.tenant]
        at = next((at for at, run in enumerate(runs) if run.job == job.id), None)
        if at is not None:
            return runs[: at + 1]
    return []


def _nodes(quota: Quota, used: int, wanted: int) -> list[Excess]:
    if quota.workers is None or wanted <= quota.workers:
        return []
    return [Excess(code="quota-workers", used=used, asked=wanted - used, limit=quota.workers, unit="workers")]


def _raised(tenant: Tenant, over: list[Excess]) -> Iterator[tuple[Advice, Change]]:
    if not over:
        return
    quota = tenant.quota
    limit, jobs, workers = quota.resources, quota.jobs, quota.workers
    for one in over:
        if one.code == "quota-jobs":
            jobs = wanted(one)
        elif one.code == "quota-workers":
            workers = wanted(one)
        elif limit is not None:
            limit = replace(limit, **{_FIELD[one.code]: wanted(one)})
    values = tuple((one.code.removeprefix("quota-"), _amount(wanted(one), one.unit)) for one in over)
    says = "raise the quota: " + ", ".join(f"{name} to {value}" for name, value in values)
    raised = replace(tenant, quota=replace(quota, resources=limit, jobs=jobs, workers=workers))
    advice = Advice(does="quota", says=says, command=raising(tenant.id, over), is_admins=True, values=values)
    yield advice, _tenant(raised)


def more_pools(world: World, job: Job) -> Iterator[tuple[Advice, Change]]:
    """Where its quota leaves out all that could run it."""
    tenant = world.tables.tenants.get(job.tenant)
    if tenant is None:
        return
    for pool in pools_left_out(world, job)[:2]:
        pools = (*tenant.quota.pools, pool)
        command = " ".join(("windlass tenants quota", job.tenant, *(f"--pool {one}" for one in pools)))
        says = f"let its tenant use the pool {pool}"
        advice = Advice(does="quota", says=says, command=command, is_admins=True, values=(("pools", ", ".join(pools)),))
        yield advice, _tenant(replace(tenant, quota=replace(tenant.quota, pools=pools)))


def _amount(value: int, unit: str) -> str:
    (text,), name = spoken((value,), unit)
    return f"{text} {name}".rstrip()


def more_money(world: World, job: Job, now: Millis) -> Iterator[tuple[Advice, Change]]:
    tenant = world.tables.tenants.get(job.tenant)
    spent = money_spent(tenant, world.tables.usage[job.tenant], now) if tenant is not None else None
    if tenant is None or spent is None:
        return
    over, most = spent[0], Micros(wanted(spent[0]))
    if tenant.budget is not None and over.code == "budget-spent":
        field, per, raised = "budget", "a month", replace(tenant, budget=replace(tenant.budget, per_month=most))
    else:
        field, per, raised = "costPerDay", "a day", replace(tenant, quota=replace(tenant.quota, cost_per_day=most))
    said = f"{money(most)} {per}"
    advice = Advice(
        does="budget",
        says=f"let it spend {said}" + ", twice what is spent" * bool(over.used),
        command=raising(job.tenant, [over]),
        is_admins=True,
        values=((field, said),),
    )
    yield advice, _tenant(raised)


def _tenant(changed: Tenant) -> Change:
    return lambda world, now: world.set_tenant(changed, now=now)
