"""Deadlines: first among the tenant's own, ahead of others only as far as the lead, charged, and true after trial and restart."""

from collections import Counter

import pytest
from msgspec.structs import replace

from windlass.core.fairness.deadlines import SlaState, Urgency, lead_of, next_change, sla_state, urgency
from windlass.core.fairness.ledger import virtual
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.job import Job, JobState
from windlass.core.model.resources import Resources
from windlass.core.world import requests
from windlass.core.world.expiry import expire
from windlass.core.world.place import place
from windlass.core.world.policy import Policy, Queueing
from windlass.core.world.records import KEPT, Table, decode, encode
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

NOW = Millis(10_000_000)
A, B = TenantId("a"), TenantId("b")
FIVE_MINUTES = Millis(300_000)
MINUTE = Millis(60_000)


def later(minutes: float) -> Millis:
    return Millis(NOW + round(minutes * MINUTE))


def accept(world: World, tenant: TenantId = A, *, sla: Millis | None = None, now: Millis = NOW, **asked: int) -> Job:
    wanted = replace(a_submission(**asked), sla_ms=sla, expected_ms=MINUTE)
    return submit(world, tenant, wanted, job=a_job_id(), now=now)[0]


def one_at_a_time(*, cap: int = 100) -> World:
    """A node for one run of a core at a time, and two tenants."""
    node = replace(a_node(cpu=1000, memory=GIB), runs_max=1)
    return a_world(node, tenants=(A, B), policy=Policy(boost_cap=cap))


def order(world: World, count: int, *, now: Millis) -> list[str]:
    """Who would be placed, one after the other, each ending at once."""
    placed = []
    with world.trial(now) as trial:
        for _ in range(count):
            for run in place(trial, now=now, limit=1):
                placed.append(run.job)
                trial.drop(Table.RUNS, run.id)
                trial.drop(Table.JOBS, run.job)
    return placed


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (0, Urgency.ON_TIME),
        (3.49, Urgency.ON_TIME),
        (3.5, Urgency.AT_RISK),
        (4.5, Urgency.CRITICAL),
        (4.99, Urgency.CRITICAL),
        (5, Urgency.MISSED),
    ],
)
def test_at_risk_from_70_and_critical_from_90_percent(minutes: float, expected: Urgency) -> None:
    job = accept(one_at_a_time(), sla=FIVE_MINUTES)
    assert urgency(job, later(minutes)) is expected


def test_a_timer_is_set_for_each_change_and_none_after_the_last() -> None:
    job = accept(one_at_a_time(), sla=FIVE_MINUTES)
    moments, at = [], NOW
    while (then := next_change(job, at)) is not None:
        moments.append(then)
        at = then
    assert moments == [later(3.5), later(4.5), later(5)]


def test_what_people_see_of_a_deadline() -> None:
    world = one_at_a_time()
    job = accept(world, sla=FIVE_MINUTES)
    assert sla_state(job, later(4)) is SlaState.AT_RISK
    assert sla_state(replace(job, started_at=later(4)), later(60)) is SlaState.MET
    assert sla_state(replace(job, started_at=later(6)), later(60)) is SlaState.MISSED
    assert sla_state(replace(job, finished_at=later(1)), later(60)) is None
    assert sla_state(replace(job, finished_at=later(9)), later(60)) is SlaState.MISSED
    assert sla_state(accept(world), later(60)) is None


def test_an_urgent_job_goes_first_among_its_tenants_own_whatever_the_priorities() -> None:
    world = one_at_a_time(cap=0)
    plain = accept(world, priority=5)
    hour, quarter = accept(world, sla=Millis(3_600_000)), accept(world, sla=Millis(900_000))
    assert order(world, 3, now=NOW) == [plain.id, hour.id, quarter.id]
    moment = later(11)
    expire(world, now=moment)
    assert order(world, 3, now=moment) == [quarter.id, plain.id, hour.id]
    much_later = later(55)
    expire(world, now=much_later)
    assert order(world, 3, now=much_later) == [
        quarter.id,
        hour.id,
        plain.id,
    ]  # both critical: the earlier deadline first


def test_without_a_cap_a_deadline_does_not_reach_across_tenants() -> None:
    world = one_at_a_time(cap=0)
    first, urgent = accept(world, A), accept(world, A, sla=FIVE_MINUTES)
    other = accept(world, B)
    (run,) = place(world, now=NOW)
    assert run.job == first.id
    world.drop(Table.RUNS, run.id)
    expire(world, now=later(4.6))
    assert order(world, 2, now=later(4.6)) == [other.id, urgent.id]


def test_within_the_lead_a_deadline_goes_before_another_tenants_turn_and_is_charged() -> None:
    world = one_at_a_time()
    first, urgent = accept(world, A), accept(world, A, sla=FIVE_MINUTES)
    others = [accept(world, B) for _ in range(4)]
    place(world, now=NOW)
    world.drop(Table.RUNS, next(iter(world.tables.runs)))
    before = world.tables.ledger.account(A)
    expire(world, now=later(4.6))
    (run,) = place(world, now=later(4.6))
    assert (first.id, run.job) == (world.tables.jobs[first.id].id, urgent.id)
    after = world.tables.ledger.account(A)
    assert after.finish == before.finish + virtual(run.charged, run.charged_weight)
    world.drop(Table.RUNS, run.id)
    accept(world, A)
    assert order(world, 2, now=later(5)) == [others[0].id, others[1].id]  # what A was given early is B's now


def test_a_tenant_that_makes_everything_urgent_is_ahead_by_no_more_than_the_lead() -> None:
    world = one_at_a_time()
    for _ in range(200):
        accept(world, A, sla=FIVE_MINUTES)
        accept(world, B)
    moment = later(10)
    while world.tables.timers.next_at() is not None and (world.tables.timers.next_at() or 0) <= moment:
        expire(world, now=moment)
    lead = lead_of(world.tables.places.capacity, Millis(3_600_000), 100, world.tables.weights)
    served: Counter[TenantId] = Counter()
    for _ in range(300):
        (run,) = place(world, now=moment, limit=1)
        served[run.tenant] += 1
        charge = virtual(run.charged, run.charged_weight)
        ahead = world.tables.ledger.account(A).finish - world.tables.ledger.account(B).finish
        assert -charge <= ahead <= lead + charge
        world.drop(Table.RUNS, run.id)
    assert served[A] - served[B] == pytest.approx(lead / charge, abs=2)  # ahead once, then in turn
    assert served[B] > 140


def test_the_lead_is_a_tenth_of_an_hour_of_all_nodes_divided_by_all_weights() -> None:
    capacity = Resources(cpu_millis=8000, memory_bytes=0)
    whole = lead_of(capacity, Millis(3_600_000), 100, 1000)
    assert whole == 8 * 50_000 * 1000 // 10  # eight cores at 50,000 micro-units an hour, a tenth, in nano-units
    assert lead_of(capacity, Millis(3_600_000), 100, 4000) == whole // 4
    assert lead_of(capacity, Millis(3_600_000), 0, 1000) == 0


def test_a_suspended_job_counts_from_its_release() -> None:
    world = one_at_a_time()
    wanted = replace(a_submission(suspended=True), sla_ms=FIVE_MINUTES)
    job, _ = submit(world, A, wanted, job=a_job_id(), now=NOW)
    assert job.due_at is None
    requests.release(world, A, job.id, now=later(60))
    assert world.tables.jobs[job.id].due_at == later(65)


def test_a_tenants_default_is_given_to_jobs_that_name_no_class() -> None:
    world = one_at_a_time()
    world.set_tenant(replace(world.tenant(A), sla_ms=Millis(900_000)), now=NOW)
    assert accept(world).due_at == later(15)
    assert accept(world, sla=FIVE_MINUTES).due_at == later(5)


def test_a_missed_deadline_is_counted_once_and_a_cancelled_job_is_forgotten() -> None:
    world = one_at_a_time()
    blocker = accept(world)
    place(world, now=NOW)
    waiting, cancelled = accept(world, sla=FIVE_MINUTES), accept(world, sla=FIVE_MINUTES)
    requests.cancel(world, A, cancelled.id, now=NOW)
    for minutes in (3.6, 4.6, 5.1, 7):
        expire(world, now=later(minutes))
    assert (world.tables.missed, world.tables.urgent) == (1, {waiting.id: Urgency.MISSED})
    assert world.tables.jobs[blocker.id].state is JobState.SCHEDULED


def test_a_trial_at_a_later_time_makes_nothing_urgent_now() -> None:
    world = one_at_a_time(cap=0)
    plain, urgent = accept(world, priority=5), accept(world, sla=FIVE_MINUTES)
    with world.trial(later(10)) as trial:
        expire(trial, now=later(10))
        assert [run.job for run in place(trial, now=later(10))] == [urgent.id]
    assert (world.tables.urgent, world.tables.missed) == ({}, 0)
    assert order(world, 2, now=NOW) == [plain.id, urgent.id]
    expire(world, now=later(4))
    assert order(world, 2, now=later(4)) == [urgent.id, plain.id]  # its timer was set again


def test_a_rebuilt_world_knows_who_is_urgent() -> None:
    world = one_at_a_time()
    for at in range(6):
        accept(world, (A, B)[at % 2], sla=FIVE_MINUTES if at in (3, 4) else None)
    moment = later(4.6)
    expire(world, now=moment)
    again = World(epoch=2, policy=world.policy)
    again.tables.now = moment
    tables = world.tables
    kept = {
        Table.TENANTS: tables.tenants,
        Table.ACCOUNTS: tables.ledger.accounts(),
        Table.NODES: tables.nodes,
        Table.JOBS: tables.jobs,
    }
    for table in KEPT:
        for key, record in kept.get(table, {}).items():
            again.load(table, key, decode(table, encode(record)))
    assert again.tables.urgent == tables.urgent
    assert order(again, 6, now=moment) == order(world, 6, now=moment)


def test_first_come_first_served_knows_who_is_urgent_but_waits_in_line() -> None:
    policy = Policy(queueing=Queueing.FIRST_COME)
    world = a_world(replace(a_node(cpu=1000, memory=GIB), runs_max=1), tenants=(A, B), policy=policy)
    first, urgent = accept(world, B), accept(world, A, sla=FIVE_MINUTES)
    expire(world, now=later(4.6))
    assert order(world, 2, now=later(4.6)) == [first.id, urgent.id]
    assert world.tables.urgent == {urgent.id: Urgency.CRITICAL}
