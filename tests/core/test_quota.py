"""Admission against a tenant's limits, at the door and before a start: each limit, each policy, with its numbers."""

import pytest
from msgspec.structs import replace

from windlass.core.errors import Invalid, OverLimit
from windlass.core.model.calendar import DAY_MS, day_of, next_day, next_month
from windlass.core.model.facts import RunEnded, RunStarted
from windlass.core.model.ids import Millis, NodeId, PoolId, TenantId
from windlass.core.model.job import Job
from windlass.core.model.money import Micros
from windlass.core.model.node import Node
from windlass.core.model.pool import Pool
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run, RunState
from windlass.core.model.spending import DayTotal, PoolTotal
from windlass.core.model.submission import Submission
from windlass.core.model.tenant import Budget, Quota, QuotaPolicy, Tenant
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.gate import WORKERS_USED
from windlass.core.world.place import place
from windlass.core.world.pools import change_pool, create_pool
from windlass.core.world.records import Table
from windlass.core.world.requests import cancel
from windlass.core.world.spending import total_id
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

NOW = Millis(1_800_000_000_000)
HOUR_MS = Millis(3_600_000)
ACME = TenantId("acme")
OTHER = TenantId("other")


def a_home(policy: QuotaPolicy, quota: Quota, *nodes: Node) -> World:
    world = a_world(*(nodes or (a_node(cpu=64_000, memory=64 * GIB, gpu_ids=("g0", "g1")),)), tenants=(OTHER,))
    world.set_tenant(Tenant(id=ACME, policy=policy, quota=quota), now=NOW)
    return world


def ask(world: World, now: Millis = NOW, **asked: int) -> Job:
    return submit(world, ACME, a_submission(**asked), job=a_job_id(), now=now)[0]  # type: ignore[arg-type]


def end(world: World, run: Run, *, now: Millis = NOW, ran_ms: int = 1000) -> None:
    observe(world, RunStarted(run=run.id, token=run.token), now=Millis(now - ran_ms))
    over = RunEnded(run=run.id, token=run.token, state=RunState.EXITED, exit_code=0, ran_ms=Millis(ran_ms))
    observe(world, over, now=now)


CPU = Quota(resources=Resources(cpu_millis=2000, memory_bytes=64 * GIB, gpus=9))
MEMORY = Quota(resources=Resources(cpu_millis=64_000, memory_bytes=2 * GIB, gpus=9))
GPU = Quota(resources=Resources(cpu_millis=64_000, memory_bytes=64 * GIB, gpus=1))


@pytest.mark.parametrize(
    ("code", "quota", "needs", "numbers"),
    [
        ("quota-cpu", CPU, {"cpu": 1500}, (1500, 1500, 2000)),
        ("quota-memory", MEMORY, {"memory": 2 * GIB}, (2 * GIB, 2 * GIB, 2 * GIB)),
        ("quota-gpu", GPU, {"gpus": 1}, (1, 1, 1)),
        ("quota-jobs", Quota(jobs=1), {}, (1, 1, 1)),
    ],
)
def test_a_full_quota_is_refused_with_its_code_and_numbers(
    code: str, quota: Quota, needs: dict[str, int], numbers: tuple[int, int, int]
) -> None:
    world = a_home(QuotaPolicy.REJECT, quota)
    ask(world, **needs)
    before = world.number
    with pytest.raises(OverLimit) as refused:
        ask(world, **needs)
    over = refused.value.limits[0]
    assert (refused.value.code, over.code, (over.used, over.asked, over.limit)) == (code, code, numbers)
    assert refused.value.retry_after_seconds == 60, "no run has ended yet: the default length of a run"
    assert world.number == before


def test_every_limit_that_is_reached_is_named() -> None:
    world = a_home(QuotaPolicy.REJECT, Quota(resources=Resources(cpu_millis=1000, memory_bytes=GIB), jobs=1))
    ask(world)
    with pytest.raises(OverLimit) as refused:
        ask(world)
    assert [one.code for one in refused.value.limits] == ["quota-cpu", "quota-memory", "quota-jobs"]
    assert refused.value.hint.endswith(": windlass tenants quota acme --cpu 2000m --memory 2048Mi --jobs 2")


def test_under_reject_quota_is_held_from_acceptance_to_the_end() -> None:
    world = a_home(QuotaPolicy.REJECT, Quota(jobs=1))
    ask(world)
    [run] = place(world, now=NOW)
    with pytest.raises(OverLimit):
        ask(world)
    end(world, run)
    assert ask(world).tenant == ACME


def test_a_cancelled_job_gives_its_quota_back() -> None:
    world = a_home(QuotaPolicy.REJECT, Quota(jobs=1))
    cancel(world, ACME, ask(world).id, now=NOW)
    assert ask(world).tenant == ACME


def test_under_queue_jobs_wait_and_start_one_by_one_as_quota_comes_free() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(jobs=2))
    waiting = [ask(world).id for _ in range(5)]
    running = place(world, now=NOW)
    started = [run.job for run in running]
    while running:
        assert world.tables.usage[ACME].runs == len(running) <= 2
        end(world, running.pop(0))
        fresh = place(world, now=NOW)
        started += [run.job for run in fresh]
        running += fresh
    assert started == waiting


def test_a_tenant_at_its_limit_holds_nobody_else_up() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(jobs=1))
    for _ in range(3):
        ask(world)
    others = [submit(world, OTHER, a_submission(), job=a_job_id(), now=NOW)[0].id for _ in range(3)]
    placed = [run.job for run in place(world, now=NOW)]
    assert set(others) < set(placed)
    assert len(placed) == 4
    assert world.tables.queue.held(ACME)[0][0] == "quota-jobs: 1 of 1 jobs used, 1 more asked for"


@pytest.mark.parametrize("quota", [CPU, Quota(workers=1)], ids=["at its cores", "on as many nodes as it may be"])
def test_when_the_first_of_a_held_tenant_is_cancelled_the_next_is_asked(quota: Quota) -> None:
    nodes = [a_node(name, cpu=2000, memory=64 * GIB) for name in ("n1", "n2")]
    world = a_home(QuotaPolicy.QUEUE, quota, *nodes)
    ask(world, cpu=1500)
    assert len(place(world, now=NOW)) == 1
    first, second = ask(world, cpu=1000), ask(world, cpu=500)
    assert place(world, now=NOW) == []
    cancel(world, ACME, first.id, now=NOW)
    assert [run.job for run in place(world, now=NOW)] == [second.id]


def test_a_job_that_becomes_the_first_of_a_held_tenant_by_its_deadline_is_asked() -> None:
    world = a_home(QuotaPolicy.QUEUE, CPU)
    ask(world, cpu=1500)
    assert len(place(world, now=NOW)) == 1
    ask(world, cpu=1000)
    urgent = submit(world, ACME, replace(a_submission(cpu=500), sla_ms=HOUR_MS), job=a_job_id(), now=NOW)[0]
    assert place(world, now=NOW) == []
    late = Millis(NOW + HOUR_MS)
    expire(world, now=late)
    assert [run.job for run in place(world, now=late)] == [urgent.id]


def test_a_job_with_a_deadline_that_comes_first_to_a_held_tenant_is_asked() -> None:
    world = a_home(QuotaPolicy.QUEUE, CPU)
    ask(world, cpu=1500)
    ask(world, cpu=1000)
    assert len(place(world, now=NOW)) == 1
    wanted = replace(a_submission(cpu=500), sla_ms=HOUR_MS, priority=1)
    first = submit(world, ACME, wanted, job=a_job_id(), now=NOW)[0]
    assert [run.job for run in place(world, now=NOW)] == [first.id]


def test_a_tenant_that_waits_for_room_on_its_own_nodes_is_not_asked_about_others() -> None:
    nodes = [a_node(name, cpu=2000, memory=64 * GIB) for name in ("n1", "n2")]
    world = a_home(QuotaPolicy.QUEUE, Quota(workers=1), *nodes)
    ask(world, cpu=1000)
    (mine,) = place(world, now=NOW)
    beside, away = (submit(world, OTHER, a_submission(cpu=cpu), job=a_job_id(), now=NOW)[0] for cpu in (1000, 2000))
    running = {run.job: run for run in place(world, now=NOW)}
    assert (running[beside.id].node, running[away.id].node != mine.node) == (mine.node, True)
    waiting = ask(world, cpu=1000)
    assert place(world, now=NOW) == []
    end(world, running[away.id])
    world.tables.let_go_for_room()
    assert world.tables.queue.held(ACME) == WORKERS_USED, "what has grown is no node of its own"
    assert place(world, now=NOW) == []
    end(world, running[beside.id])
    assert [run.job for run in place(world, now=NOW)] == [waiting.id]


def test_a_tenant_that_waits_for_room_on_its_own_nodes_is_asked_when_its_pools_change() -> None:
    ours, theirs = PoolId("ours"), PoolId("theirs")
    labelled = (("disk", "fast"),)
    nodes = [
        replace(a_node(name, cpu=4000, memory=64 * GIB), pool=pool) for name, pool in (("n1", ours), ("n2", theirs))
    ]
    world = a_home(QuotaPolicy.QUEUE, Quota(workers=1), *nodes)
    create_pool(world, Pool(id=ours), None, now=NOW)
    create_pool(world, Pool(id=theirs, labels=labelled), None, now=NOW)
    submit(world, ACME, replace(a_submission(cpu=1000), pools=(ours,)), job=a_job_id(), now=NOW)
    assert len(place(world, now=NOW)) == 1
    wanted = replace(a_submission(cpu=1000), node_labels=labelled)
    waiting, _ = submit(world, ACME, wanted, job=a_job_id(), now=NOW)
    assert place(world, now=NOW) == []
    assert world.tables.queue.held(ACME) == WORKERS_USED
    change_pool(world, Pool(id=ours, labels=labelled), None, now=NOW)
    assert [(run.job, run.node) for run in place(world, now=NOW)] == [(waiting.id, "n1")]


def test_under_queue_so_many_may_wait() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(jobs=1, queued_max=2))
    ask(world)
    place(world, now=NOW)
    ask(world)
    ask(world)
    with pytest.raises(OverLimit) as refused:
        ask(world)
    assert refused.value.code == "queue-full"
    assert refused.value.hint.endswith(": windlass tenants quota acme --queued-max 3")


def test_one_job_is_one_job_also_where_none_is_allowed() -> None:
    with pytest.raises(Invalid) as refused:
        ask(a_home(QuotaPolicy.QUEUE, Quota(jobs=0)))
    assert [fault.message for fault in refused.value.faults] == ["asks for 1 job; the quota is 0"]


def test_what_is_too_large_even_for_a_burst_is_told_the_quota_and_what_a_burst_allows() -> None:
    quota = Quota(resources=Resources(cpu_millis=200, memory_bytes=GIB))
    for policy, limit in ((QuotaPolicy.BURST, "0.2, 0.3 in burst"), (QuotaPolicy.QUEUE, "0.2")):
        with pytest.raises(Invalid) as refused:
            ask(a_home(policy, quota), cpu=1000)
        assert [fault.message for fault in refused.value.faults] == [f"asks for 1 core; the quota is {limit}"]
        enough = 667 if policy is QuotaPolicy.BURST else 1000
        assert refused.value.hint.endswith(f": windlass tenants quota acme --cpu {enough}m")


def test_what_could_never_be_held_is_refused_as_such_with_every_fault() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(resources=Resources(cpu_millis=1000, memory_bytes=GIB), jobs=1))
    with pytest.raises(Invalid) as refused:
        ask(world, cpu=2000, memory=2 * GIB, gpus=1)
    assert refused.value.code == "exceeds-quota"
    assert [fault.field for fault in refused.value.faults] == [
        "spec.resources.gpu",
        "spec.resources.cpu",
        "spec.resources.memory",
    ]


def test_a_month_takes_so_many_jobs_over_or_not_and_the_next_begins_anew() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(jobs_per_month=2))
    cancel(world, ACME, ask(world).id, now=NOW)
    ask(world)
    with pytest.raises(OverLimit) as refused:
        ask(world)
    over = refused.value.limits[0]
    assert (over.code, over.used, over.limit) == ("jobs-per-month", 2, 2)
    assert NOW + refused.value.retry_after_seconds * 1000 >= next_month(NOW)
    assert ask(world, now=next_month(NOW)).tenant == ACME


@pytest.mark.parametrize(
    ("code", "quota", "command"),
    [
        ("queue-full", Quota(queued_max=0), "--queued-max 1"),
        ("jobs-per-month", Quota(jobs_per_month=0), "--jobs-per-month 1"),
        ("cost-per-day", Quota(cost_per_day=Micros(0)), "--cost-per-day 1"),
    ],
)
def test_a_limit_of_nothing_is_not_said_to_open_and_the_command_told_raises_it(
    code: str, quota: Quota, command: str
) -> None:
    world = a_home(QuotaPolicy.QUEUE, quota)
    with pytest.raises(OverLimit) as refused:
        ask(world)
    assert refused.value.code == code
    hint = refused.value.hint or ""
    assert hint == f"no waiting opens it; have the limit raised: windlass tenants quota acme {command}"
    assert refused.value.retry_after_seconds >= 3600, "a header there has to be, but not one to come soon by"


@pytest.mark.parametrize(("policy", "what"), [(QuotaPolicy.REJECT, "is over"), (QuotaPolicy.QUEUE, "has started")])
def test_what_opens_when_a_job_goes_is_told_by_that_and_a_time_is_guessed_only_where_one_runs(
    policy: QuotaPolicy, what: str
) -> None:
    world = a_home(policy, Quota(jobs=2) if policy is QuotaPolicy.REJECT else Quota(queued_max=1))

    def refused() -> str:
        with pytest.raises(OverLimit) as caught:
            ask(world)
        return (caught.value.hint or "").split(", or have the limit raised: ")[0]

    ask(world)
    [run] = place(world, now=NOW)
    submit(world, ACME, a_submission(suspended=True), job=a_job_id(), now=NOW)
    opens = f"it opens when one of its jobs {what} or is cancelled"
    assert refused() == f"{opens}, perhaps in 1 min"
    end(world, run)
    if policy is QuotaPolicy.REJECT:
        submit(world, ACME, a_submission(suspended=True), job=a_job_id(), now=NOW)
    assert refused() == opens, "nothing runs, and what waits is suspended"


def test_of_two_limits_on_money_the_one_that_opens_last_is_told() -> None:
    """At midnight the day's would be open, and the month's not."""
    world = a_home(QuotaPolicy.QUEUE, Quota(cost_per_day=Micros(1_000)))
    budget = Budget(per_month=Micros(1_000), is_hard=True)
    world.set_tenant(replace(world.tables.tenants[ACME], budget=budget), now=NOW)
    day = day_of(NOW)
    with world.decision(NOW):
        total = DayTotal(tenant=ACME, day=day, pools={PoolId("local"): PoolTotal(cost=Micros(1_000))})
        world.put(Table.TOTALS, total_id(ACME, day), total)
    with pytest.raises(OverLimit) as refused:
        ask(world)
    assert refused.value.code == "budget-spent"
    assert NOW + refused.value.retry_after_seconds * 1000 >= next_month(NOW)


def test_a_day_takes_so_much_money_and_what_waits_goes_on_at_midnight() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(jobs=1, cost_per_day=Micros(50_000)))
    first, second = ask(world), ask(world)
    [run] = place(world, now=NOW)
    assert run.job == first.id
    later = Millis(NOW + 3_600_000)
    end(world, run, now=later, ran_ms=3_600_000)
    with pytest.raises(OverLimit) as refused:
        ask(world, now=later)
    assert refused.value.code == "cost-per-day"
    assert refused.value.retry_after_seconds == -(-(next_day(later) - later) // 1000)
    assert place(world, now=later) == []
    midnight = next_day(later)
    assert world.next_due() is not None
    expire(world, now=midnight)
    assert [one.job for one in place(world, now=midnight)] == [second.id]


def test_what_runs_counts_against_the_day_before_it_ends() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(cost_per_day=Micros(50_000)))
    ask(world)
    [run] = place(world, now=NOW)
    observe(world, RunStarted(run=run.id, token=run.token), now=NOW)
    ask(world, now=Millis(NOW + 1_800_000))
    with pytest.raises(OverLimit) as refused:
        ask(world, now=Millis(NOW + 3_600_000))
    assert refused.value.code == "cost-per-day"


def test_a_tenant_is_on_so_many_workers_and_packs_them_before_it_waits() -> None:
    nodes = [a_node(f"n{n}", cpu=2000) for n in range(3)]
    world = a_home(QuotaPolicy.QUEUE, Quota(workers=1), *nodes)
    for _ in range(3):
        ask(world)
    placed = place(world, now=NOW)
    assert len({run.node for run in placed}) == 1
    assert len(placed) == 2
    end(world, placed[0])
    [third] = place(world, now=NOW)
    assert third.node == placed[0].node


def test_room_that_another_tenant_frees_on_its_worker_is_used() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(workers=1), a_node("n1", cpu=2000), a_node("n2", cpu=2000))
    ask(world)
    [mine] = place(world, now=NOW)
    submit(world, OTHER, a_submission(), job=a_job_id(), now=NOW)
    [other] = place(world, now=NOW)
    assert other.node == mine.node
    ask(world)
    assert place(world, now=NOW) == []
    end(world, other)
    [second] = place(world, now=NOW)
    assert second.node == mine.node


def in_pool(name: str, pool: str, cpu: int = 4000) -> Node:
    return replace(a_node(name, cpu=cpu), pool=PoolId(pool))


def test_a_job_runs_only_in_pools_its_tenant_may_use() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(pools=(PoolId("slow"),)), in_pool("n1", "fast"), in_pool("n2", "slow"))
    for _ in range(9):
        ask(world)
    placed = place(world, now=NOW)
    assert {run.node for run in placed} == {NodeId("n2")}
    assert len(placed) == 4


def test_what_fits_in_none_of_its_pools_is_refused_with_the_nearest_fit() -> None:
    world = a_home(
        QuotaPolicy.QUEUE, Quota(pools=(PoolId("slow"),)), in_pool("n1", "fast", 9000), in_pool("n2", "slow", 2000)
    )
    with pytest.raises(Invalid) as refused:
        ask(world, cpu=8000)
    assert refused.value.code == "fits-nowhere"
    assert [fault.field for fault in refused.value.faults] == ["spec.resources.cpu"]
    assert "n2 of pool slow" in refused.value.faults[0].message
    denied = Submission(spec=a_submission().spec, pools=(PoolId("fast"),))
    with pytest.raises(Invalid) as wrong_pool:
        submit(world, ACME, denied, job=a_job_id(), now=NOW)
    assert [fault.field for fault in wrong_pool.value.faults] == ["spec.pool"]


def test_labels_that_no_node_has_are_not_met_with_asking_for_less() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(), in_pool("n1", "fast"))
    picky = Submission(spec=a_submission().spec, node_labels=(("disk", "ssd"),))
    with pytest.raises(Invalid) as refused:
        submit(world, ACME, picky, job=a_job_id(), now=NOW)
    assert [fault.field for fault in refused.value.faults] == ["spec.nodeSelector"]
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("ask for labels that a node has, or for none")


def test_a_lowered_quota_stops_nothing_and_starts_nothing_until_it_is_met_again() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(jobs=3))
    for _ in range(4):
        ask(world)
    running = place(world, now=NOW)
    world.set_tenant(Tenant(id=ACME, quota=Quota(jobs=1)), now=NOW)
    assert place(world, now=NOW) == []
    end(world, running[0])
    end(world, running[1])
    assert place(world, now=NOW) == []
    end(world, running[2])
    assert len(place(world, now=NOW)) == 1


def test_a_trial_in_the_time_to_come_leaves_no_tenant_held() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(cost_per_day=Micros(50_000)))
    ask(world)
    [run] = place(world, now=NOW)
    observe(world, RunStarted(run=run.id, token=run.token), now=NOW)
    waiting = ask(world)
    with world.trial(Millis(NOW + 2 * 3_600_000)):
        assert place(world, now=Millis(NOW + 2 * 3_600_000)) == []
    assert [one.job for one in place(world, now=Millis(NOW + 1))] == [waiting.id]


def test_a_day_of_the_ledger_is_a_utc_day() -> None:
    assert next_day(Millis(DAY_MS - 1)) == DAY_MS
    assert next_month(Millis(0)) == 31 * DAY_MS


@pytest.mark.parametrize("is_parked", [False, True])
def test_the_pools_a_tenant_may_use_are_those_of_now_also_for_what_waits_already(is_parked: bool) -> None:
    cards, plain = PoolId("cards"), PoolId("plain")
    nodes = [
        replace(a_node(name, cpu=1000, memory=8 * GIB), pool=pool) for name, pool in (("n1", cards), ("n2", plain))
    ]
    world = a_home(QuotaPolicy.QUEUE, Quota(pools=(cards,)), *nodes)
    taken = [ask(world), *([ask(world)] if is_parked else [])]
    waiting = taken[-1]
    if is_parked:
        assert [run.node for run in place(world, now=NOW)] == ["n1"]
        assert place(world, now=NOW) == []
    world.set_tenant(Tenant(id=ACME, policy=QuotaPolicy.QUEUE, quota=Quota(pools=(plain,))), now=NOW)
    (run,) = place(world, now=NOW)
    assert (run.job, run.node) == (waiting.id, "n2")
