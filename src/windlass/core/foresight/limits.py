"""Raises of a tenant's limits that may start a waiting job: quota, pools, money. An admin makes them, no further than it takes."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from windlass.core.admission.quota import excess, money_spent
from windlass.core.admission.raising import raising, wanted
from windlass.core.errors import Excess
from windlass.core.foresight.change import Advice, Change
from windlass.core.foresight.gates import may_be_on_no_more
from windlass.core.foresight.growing import pools_left_out
from windlass.core.model.amounts import money, spoken
from windlass.core.model.ids import Millis
from windlass.core.model.job import Job
from windlass.core.model.money import Micros
from windlass.core.model.tenant import Tenant
from windlass.core.world.world import World

_FIELD: Final = {"quota-cpu": "cpu_millis", "quota-memory": "memory_bytes", "quota-gpu": "gpus"}


def more_quota(world: World, job: Job) -> Iterator[tuple[Advice, Change]]:
    """By exactly what is missing."""
    tenant = world.tables.tenants.get(job.tenant)
    if tenant is None:
        return
    usage, quota = world.tables.usage[job.tenant], tenant.quota
    values: list[tuple[str, str]] = []
    limit, jobs, workers = quota.resources, quota.jobs, quota.workers
    over = excess(quota, job.shape.needs, held=usage.resources, jobs=usage.runs)
    if workers is not None and may_be_on_no_more(world, job):
        over.append(Excess(code="quota-workers", used=len(usage.nodes), asked=1, limit=workers, unit="workers"))
    for one in over:
        values.append((one.code.removeprefix("quota-"), _amount(wanted(one), one.unit)))
        if one.code == "quota-jobs":
            jobs = wanted(one)
        elif one.code == "quota-workers":
            workers = wanted(one)
        elif limit is not None:
            limit = replace(limit, **{_FIELD[one.code]: wanted(one)})
    if not values:
        return
    raised = replace(tenant, quota=replace(quota, resources=limit, jobs=jobs, workers=workers))
    says = "raise the quota: " + ", ".join(f"{name} to {value}" for name, value in values)
    command = raising(job.tenant, over)
    yield Advice(does="quota", says=says, command=command, is_admins=True, values=tuple(values)), _tenant(raised)


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
