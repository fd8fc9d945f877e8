"""One admission decision, alone: does the quota allow it, at the door and before a start? `python -m bench admission`.

Ten thousand tenants with every limit set, each with a budget that runs are using up. A decision is what a submit asks (fit,
quota, month, money, burst) or a placing does; processor time, one thread. The World grows tenfold in between: it must not be felt.
"""

import gc
import time
from collections.abc import Callable

from bench.report import Figure, at_least, at_most
from windlass.core.admission.fit import check_fit
from windlass.core.errors import OverLimit
from windlass.core.model.facts import RunStarted
from windlass.core.model.ids import JobId, Millis, TenantId
from windlass.core.model.job import Job
from windlass.core.model.money import Micros
from windlass.core.model.resources import Resources
from windlass.core.model.tenant import Budget, Quota, QuotaPolicy, Tenant
from windlass.core.world.facts import observe
from windlass.core.world.gate import may_start
from windlass.core.world.place import place
from windlass.core.world.submit import check_quota, submit
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_node, a_submission

TENANTS = 10_000
DECISIONS = 100_000
MICROSECONDS, FLAT = 20, 0.8
NOW = Millis(20_000 * 86_400_000)
LATER = Millis(NOW + 60_000)


def main() -> list[Figure]:
    world = a_world()
    tenants = list(world.tables.tenants)
    fill(world, tenants, jobs=1)
    few = door(world, tenants)
    fill(world, tenants, jobs=9)
    many = door(world, tenants)
    gate = spent(lambda job: may_start(world, job, LATER), list(world.tables.jobs.values()))
    refused = spent(lambda job: refusal(world, job), full(world, tenants))
    beside = "the figure set"
    return [
        at_most("a submit's decision", many, MICROSECONDS, 1.0, unit="µs", beside=beside),
        at_most("a start's decision", gate, MICROSECONDS, 1.0, unit="µs", beside=beside),
        at_most("a refusal, with its numbers", refused, MICROSECONDS, 1.0, unit="µs", beside=beside),
        at_least("with ten times as many jobs", 1 / many, 1 / few, FLAT, unit="/µs", beside="with one a tenant"),
    ]


def a_world() -> World:
    world = World(epoch=1)
    world.set_node(a_node(cpu=10**9, memory=1 << 60), now=NOW)
    for number in range(TENANTS):
        world.set_tenant(a_tenant(TenantId(f"tenant-{number}"), jobs=1000), now=NOW)
    return world


def a_tenant(tenant: TenantId, *, jobs: int) -> Tenant:
    quota = Quota(
        resources=Resources(cpu_millis=10**9, memory_bytes=1 << 60, gpus=8),
        jobs=jobs,
        workers=100,
        jobs_per_month=1_000_000,
        cost_per_day=Micros(10**12),
    )
    budget = Budget(per_month=Micros(10**13), is_hard=True)
    return Tenant(id=tenant, policy=QuotaPolicy.REJECT, quota=quota, budget=budget)


def fill(world: World, tenants: list[TenantId], *, jobs: int) -> None:
    """Each with so many more jobs, all of them running."""
    asked = a_submission(cpu=100, memory=GIB // 8)
    for at in range(jobs):
        for number, tenant in enumerate(tenants):
            submit(world, tenant, asked, job=JobId(f"{at}-{number}-{len(world.tables.jobs)}"), now=NOW)
    for run in place(world, now=NOW, limit=1 << 30):
        observe(world, RunStarted(run=run.id, token=run.token), now=NOW)


def door(world: World, tenants: list[TenantId]) -> float:
    newest = {job.tenant: job for job in world.tables.jobs.values()}
    asked = [newest[tenants[number % TENANTS]] for number in range(DECISIONS)]
    return spent(lambda job: decide(world, job), asked)


def decide(world: World, job: Job) -> None:
    check_fit(job.shape, world.tables.places)
    check_quota(world, job, LATER)


def full(world: World, tenants: list[TenantId]) -> list[Job]:
    for tenant in tenants:
        world.set_tenant(a_tenant(tenant, jobs=1), now=NOW)
    return list(world.tables.jobs.values())


def refusal(world: World, job: Job) -> None:
    try:
        check_quota(world, job, LATER)
    except OverLimit:
        return
    raise AssertionError("it was to be refused")


def spent(decision: Callable[[Job], object], jobs: list[Job]) -> float:
    """Microseconds of processor time each."""
    gc.collect()
    gc.freeze()
    began = time.process_time()
    for job in jobs:
        decision(job)
    return (time.process_time() - began) / len(jobs) * 1_000_000


if __name__ == "__main__":
    from bench.report import show

    show("admission", main())
