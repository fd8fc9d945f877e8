"""Fairness is charged here: a tenant's account moves with the placing of a run, and again with its end, in the same decision."""

from typing import Final

from msgspec.structs import replace

from windlass.core.fairness.account import Virtual, Work
from windlass.core.fairness.ledger import charge, true_up, work_of
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.job import Job
from windlass.core.model.run import TIMED_OUT, Run, RunState
from windlass.core.world.policy import Queueing
from windlass.core.world.records import ACCOUNTS
from windlass.core.world.world import World

_FIRST_COME: Final = Queueing.FIRST_COME
_EXITED: Final = RunState.EXITED


def expected_work(world: World, job: Job) -> Work:
    """What its next run will be charged: the list price of the time it says, or that such runs of its tenant usually take."""
    expected = job.expected_ms
    span = expected if expected is not None else world.tables.typical.span(job.tenant, job.shape)
    return work_of(job.shape.needs, span)


def charge_run(world: World, run: Run, now: Millis, *, early: Virtual) -> None:
    """After its job has left the queue. Part of the decision that places it. `early`: what its deadline borrowed."""
    tables = world.tables
    if tables.woken is None:
        tables.standings.serve(run.tenant, run.charged, now)
    if world.policy.queueing is _FIRST_COME:
        _count(world, run.tenant, run.charged)
        return
    ledger = tables.ledger
    account = ledger.account(run.tenant)
    account = charge(
        account,
        ledger.now(),
        run.charged,
        run.charged_weight,
        others=ledger.work - account.work,
        is_last=not tables.queue.waits(run.tenant),
        early=early,
    )
    world.put(ACCOUNTS, run.tenant, account)


def settle_run(world: World, job: Job, run: Run, now: Millis) -> None:
    """Part of the decision that accepts its end: what it was charged becomes what it used."""
    tables = world.tables
    used, is_real = work_of(run.needs, _held(run, now)), tables.woken is None
    if is_real and run.ran_ms and _tells_usual(world, job, run, run.ran_ms):
        tables.typical.note(run.tenant, job.shape, run.ran_ms)
    if used == run.charged:
        return
    if is_real:
        tables.standings.correct(run.tenant, used - run.charged, now, charged_at=run.assigned_at)
    if world.policy.queueing is _FIRST_COME:
        _count(world, run.tenant, used - run.charged)
        return
    ledger = tables.ledger
    account = ledger.account(run.tenant)
    account = true_up(
        account,
        ledger.now(),
        run.charged,
        used,
        run.charged_weight,
        others=ledger.work - account.work,
        is_waiting=tables.queue.waits(run.tenant) > 0,
    )
    world.put(ACCOUNTS, run.tenant, account)


def _tells_usual(world: World, job: Job, run: Run, ran_ms: Millis) -> bool:
    """Whether it measured how long its like take. What somebody cut off says nothing about it; what ran into its timeout, that
    they take longer than that: news only where it is longer than usual."""
    if run.reason == TIMED_OUT:
        return ran_ms > world.tables.typical.span(run.tenant, job.shape)
    return run.state is _EXITED


def _count(world: World, tenant: TenantId, work: int) -> None:
    """Without a queue that goes by accounts, they still say who was given what."""
    account = world.tables.ledger.account(tenant)
    world.put(ACCOUNTS, tenant, replace(account, work=account.work + work))


def _held(run: Run, now: Millis) -> Millis:
    """As the node measured it. Where it measured nothing (never started, lost), for as long as the run held its place."""
    return run.ran_ms or Millis(max(0, now - run.assigned_at))
