"""Gates and advice where they were once told wrongly: the reserve, a session that is used up, a suspended job on a busy node."""

from msgspec.structs import replace

from tests.core.pool_home import GROW, START, a_growing_world, node_of, wants
from windlass.core.foresight.gate import GateName
from windlass.core.foresight.gates import gates, holding
from windlass.core.foresight.plan import plan
from windlass.core.foresight.why import Estimate, Why, why
from windlass.core.model.ids import LOCAL_TENANT, Millis, NodeId, PoolId, TenantId
from windlass.core.model.job import Job
from windlass.core.model.money import Micros
from windlass.core.model.pool import Change, Growth
from windlass.core.model.tenant import Quota, QuotaPolicy, Tenant
from windlass.core.scaling import grows_again_at
from windlass.core.world.growth import drain, scale_by_hand
from windlass.core.world.place import place
from windlass.core.world.pools import change_pool
from windlass.core.world.queues import queue_status
from windlass.core.world.records import Table
from windlass.core.world.submit import submit
from windlass.core.world.workers import join_node
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

NOW = Millis(20_000 * 86_400_000)
ACME = TenantId("acme")
OTHER = TenantId("other")


def ask(world: World, tenant: TenantId, *, is_suspended: bool = False) -> Job:
    wanted = a_submission(cpu=1000, suspended=is_suspended)
    return submit(world, tenant, wanted, job=a_job_id(), now=NOW)[0]


def told(found: Why) -> tuple[GateName | None, str, Millis | None]:
    gate = next(gate for gate in found.gates if gate.name is found.gate)
    return gate.name, gate.says, gate.opens_at


def test_the_reserve_is_named_by_the_burst_gate_and_asking_shuts_nobody_out() -> None:
    world = a_world(a_node(cpu=10_000, memory=64 * GIB), tenants=(OTHER,))
    world.set_tenant(Tenant(id=ACME, policy=QuotaPolicy.BURST), now=NOW)
    for _ in range(8):
        ask(world, OTHER)
    assert len(place(world, now=NOW)) == 8
    ninth = ask(world, OTHER)
    gate = holding(gates(world, ninth, NOW))
    assert gate is not None
    assert (gate.name, gate.says.startswith("kept free for bursts")) == (GateName.BURST, True)
    assert not world.tables.reserve.is_shut
    assert place(world, now=NOW) == []
    found = why(world, ninth, now=NOW)
    assert found.gate is GateName.BURST
    assert "cancel" in [one.does for one in found.advice]


def test_a_node_that_is_too_small_is_not_said_to_be_in_use() -> None:
    small, smaller = a_node("n1", cpu=2000, memory=64 * GIB), a_node("n2", cpu=1000, memory=64 * GIB)
    world = a_world(small, smaller, a_node("n3", cpu=4000, memory=64 * GIB), tenants=(ACME,))
    first, second = (submit(world, ACME, a_submission(cpu=4000), job=a_job_id(), now=NOW)[0] for _ in range(2))
    assert [run.job for run in place(world, now=NOW)] == [first.id]
    gate = holding(gates(world, second, NOW))
    assert gate is not None
    assert gate.says == "cpu too small (2 nodes, at most 2 of 4 cores); cpu in use (1 node)"
    assert gate.numbers == (("taking", 0), ("cpu too small", 2), ("cpu in use", 1))


def test_the_queue_says_of_nodes_what_why_says_of_them() -> None:
    """Two that are too small, one of them busy with something else, and one that is in use."""
    small, smaller = a_node("n1", cpu=2000, memory=64 * GIB), a_node("n2", cpu=1000, memory=64 * GIB)
    world = a_world(small, smaller, a_node("n3", cpu=4000, memory=64 * GIB), tenants=(ACME,))
    for cpu in (4000, 1000):
        submit(world, ACME, a_submission(cpu=cpu), job=a_job_id(), now=NOW)
    assert len(place(world, now=NOW)) == 2
    waiting = submit(world, ACME, a_submission(cpu=3000), job=a_job_id(), now=NOW)[0]
    assert place(world, now=NOW) == []
    (queue,) = queue_status(world, ACME, now=NOW)
    assert queue.parked == (("cpu too small", 2), ("cpu in use", 1))
    gate = holding(gates(world, waiting, NOW))
    assert gate is not None
    assert gate.numbers[1:] == queue.parked


def test_what_a_node_is_too_small_in_is_said_in_its_unit() -> None:
    large = a_node("n2", cpu=4000, memory=16 * GIB, gpu_ids=("g0", "g1"))
    world = a_world(a_node("n1", cpu=4000, memory=2 * GIB), large, tenants=(ACME,))
    for gpus, says in ((0, "memory too small (1 node, 2 of 8 GiB)"), (2, "gpu too small (1 node, 0 of 2 GPUs)")):
        asked = a_submission(cpu=1000, memory=8 * GIB, gpus=gpus)
        job = submit(world, ACME, asked, job=a_job_id(), now=NOW)[0]
        assert (
            next(one for one in gates(world, job, NOW) if one.name is GateName.NODE).says == f"1 would take it; {says}"
        )


def test_a_session_that_is_used_up_does_not_open_when_it_ends() -> None:
    world = a_world(a_node(cpu=64_000, memory=64 * GIB), tenants=())
    world.set_tenant(Tenant(id=ACME, policy=QuotaPolicy.BURST, quota=Quota(jobs=2)), now=NOW)
    jobs = [ask(world, ACME) for _ in range(4)]
    assert len(place(world, now=NOW)) == 3
    found = why(world, world.tables.jobs[jobs[3].id], now=NOW)
    says = "also 1.5 times the quota is used up: something of its tenant has to end first"
    assert told(found) == (GateName.BURST, says, None)


def test_an_empty_pool_in_its_cooldown_says_when_it_may_grow_and_no_start_before() -> None:
    world = a_growing_world(cooldown_up_ms=Millis(600_000))
    wants(world, now=START)
    assert place(world, now=START) == []
    world.put(Table.GROWTHS, GROW, Growth(changes=(Change(at=START, by=1),)))
    (waiting,) = world.tables.jobs.values()
    later = Millis(START + 1000)
    found = why(world, waiting, now=later)
    gate = next(gate for gate in found.gates if gate.name is found.gate)
    assert (gate.name, gate.opens_at) == (GateName.COOLDOWN, START + 600_000)
    assert found.start == Estimate(at=Millis(START + 600_000), growing=GROW)
    assert [(one.does, one.command) for one in found.advice] == [
        ("any-node", ""),
        ("scale", "windlass pools scale grow 1"),
    ]
    scaling = world.tables.fleet.pools[GROW].scaling
    assert scaling is not None
    rates = replace(scaling, up_per_minute=1, cooldown_up_ms=Millis(0))
    assert grows_again_at(rates, (Change(at=START, by=1),), later) == START + 60_000
    assert grows_again_at(rates, (Change(at=START, by=-1),), later) is None


def test_a_pool_that_may_grow_by_none_a_minute_is_said_to_be_held_by_that_and_no_plan_counts_on_it() -> None:
    world = a_growing_world(workers_max=2, up_per_minute=0)
    asked = replace(a_submission(name="mine", cpu=1000), pools=(GROW,))
    job, _ = submit(world, LOCAL_TENANT, asked, job=a_job_id(), now=START)
    place(world, now=START)
    found = why(world, job, now=START)
    assert (found.gate, found.start) == (GateName.COOLDOWN, None)
    assert found.says == "cooldown: grow grows only by hand: at most 0 more a minute (upPerMinute)"
    assert [one.command for one in found.advice if one.does == "scale"] == ["windlass pools scale grow 1"]
    (planned,) = plan(world, LOCAL_TENANT, [replace(asked, name="next")], ids=[a_job_id()], now=START).items
    assert (planned.refusal, planned.start, planned.growing) == (None, None, None)


def test_a_pool_that_may_have_no_worker_at_all_is_named_with_what_lets_it_have_one() -> None:
    world = a_growing_world(workers_max=1, labels=(("k", "cd"),))
    asked = replace(a_submission(name="mine", cpu=1000), node_labels=(("k", "cd"),))
    job, _ = submit(world, LOCAL_TENANT, asked, job=a_job_id(), now=START)
    pool = world.tables.fleet.pools[GROW]
    assert pool.scaling is not None
    change_pool(world, replace(pool, scaling=replace(pool.scaling, workers_max=0)), None, now=START)
    assert place(world, now=START) == []
    found = why(world, job, now=START)
    assert (found.gate, found.start) == (GateName.POOL, None)
    assert found.says == "pool: grow has 0 workers, and may have no more than 0"
    assert [one.says for one in found.advice] == [
        "submit it again without its node labels: k=cd",
        "let the pool grow have 1 worker, and scale it to 1",
    ]


def test_a_quota_that_leaves_out_the_only_pool_for_a_job_is_what_holds_it() -> None:
    world = a_growing_world(workers_max=1, labels=(("k", "cd"),))
    asked = replace(a_submission(name="mine", cpu=1000), node_labels=(("k", "cd"),))
    job, _ = submit(world, LOCAL_TENANT, asked, job=a_job_id(), now=START)
    world.set_tenant(Tenant(id=LOCAL_TENANT, quota=Quota(pools=(PoolId("local"),))), now=START)
    assert place(world, now=START) == []
    found = why(world, world.tables.jobs[job.id], now=START)
    assert (found.gate, found.start) == (GateName.POOL, None)
    assert found.says == "pool: the quota of its tenant names the pools it may use (local), and only grow could run it"
    assert [(one.does, one.command, one.is_admins) for one in found.advice] == [
        ("any-node", "", False),
        ("quota", "windlass tenants quota local --pool local --pool grow", True),
    ]
    assert found.advice[1].says == "let its tenant use the pool grow; then the pool grow grows for it"


def test_a_suspended_job_is_to_be_released_also_where_it_then_waits() -> None:
    world = a_world(a_node(cpu=1_000, memory=64 * GIB), tenants=(ACME,))
    ask(world, ACME)
    assert len(place(world, now=NOW)) == 1
    held = ask(world, ACME, is_suspended=True)
    (advice,) = why(world, held, now=NOW).advice
    assert (advice.does, advice.command) == ("release", f"windlass release {held.name}")
    assert advice.says == "release it; then it waits for its turn"


def test_no_worker_that_is_being_given_back_is_advised_to_be_uncordoned() -> None:
    world = a_growing_world(workers_max=1)
    (name,) = scale_by_hand(world, GROW, 1, now=START).workers
    worker = world.tables.fleet.workers[NodeId(name)]
    join_node(world, node_of(worker, world), now=START)
    drain(world, worker.id, now=START)
    wants(world, now=START)
    (job,) = world.tables.jobs.values()
    assert place(world, now=START) == []
    assert "uncordon" not in [one.does for one in why(world, job, now=START).advice]


def test_what_lets_a_job_in_where_there_is_no_room_says_that_it_then_waits_and_promises_no_node() -> None:
    """A burst or a cancelled job would be spent for nothing: only what lasts is told."""
    world = a_world(a_node(cpu=3000, memory=64 * GIB), tenants=(OTHER,))
    world.set_tenant(Tenant(id=ACME, quota=Quota(jobs=2)), now=NOW)
    for tenant in (ACME, ACME, OTHER):
        ask(world, tenant)
    assert len(place(world, now=NOW)) == 3
    waiting = submit(world, ACME, a_submission(cpu=3000), job=a_job_id(), now=NOW)[0]
    found = why(world, waiting, now=NOW)
    assert found.gate is GateName.QUOTA
    says = "raise the quota: jobs to 3 jobs; then it waits for room, which no command makes"
    assert [(one.says, one.command) for one in found.advice] == [(says, "windlass tenants quota acme --jobs 3")]


def test_money_that_no_day_brings_is_not_said_to_open_at_midnight_and_the_advice_starts_the_job() -> None:
    world = a_world(a_node(cpu=2000, memory=64 * GIB), tenants=(ACME,))
    job = ask(world, ACME)
    world.set_tenant(Tenant(id=ACME, quota=Quota(cost_per_day=Micros(0))), now=NOW)
    assert place(world, now=NOW) == []
    found = why(world, job, now=NOW)
    assert told(found) == (GateName.BUDGET, "cost-per-day: 0 of 0 used", None)
    assert found.start is None
    (advice,) = found.advice
    assert (advice.says, advice.command) == ("let it spend 1 a day", "windlass tenants quota acme --cost-per-day 1")
