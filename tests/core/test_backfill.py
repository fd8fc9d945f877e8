"""Room is kept for whoever is first and does not fit; others pass only where they cannot delay it."""

from msgspec.structs import replace

from windlass.core.foresight.gate import GateName
from windlass.core.foresight.gates import gates
from windlass.core.model.facts import RunEnded, RunStarted
from windlass.core.model.ids import LOCAL_TENANT, Millis, TenantId
from windlass.core.model.job import Job
from windlass.core.model.run import RunState
from windlass.core.model.tenant import Quota, Tenant
from windlass.core.world import requests
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.gate import WORKERS_USED
from windlass.core.world.place import place
from windlass.core.world.policy import Policy
from windlass.core.world.submit import submit
from windlass.core.world.tenants import create_tenant
from windlass.core.world.verdict import Yields
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

NOW = Millis(10_000_000)
MINUTE = 60_000
A, B = TenantId("a"), TenantId("b")


def accept(
    world: World,
    *,
    tenant: TenantId = LOCAL_TENANT,
    cpu: int = 1000,
    gpus: int = 0,
    timeout: int | None = None,
    expected: int | None = None,
    priority: int = 0,
) -> Job:
    """Times in minutes; no grace, so that a timeout is the whole of it."""
    asked = a_submission(
        cpu=cpu, gpus=gpus, priority=priority, timeout_ms=None if timeout is None else timeout * MINUTE
    )
    asked = replace(asked, grace_ms=Millis(0), expected_ms=None if expected is None else Millis(expected * MINUTE))
    return submit(world, tenant, asked, job=a_job_id(), now=NOW)[0]


def placed(world: World, now: Millis = NOW) -> list[str]:
    return [run.job for run in place(world, now=now)]


def end(world: World, job: Job, now: Millis) -> None:
    run = world.live_run(job.id)
    assert run is not None
    observe(
        world,
        RunEnded(run=run.id, token=run.token, state=RunState.EXITED, exit_code=0, ran_ms=Millis(now - NOW)),
        now=now,
    )


def busy(*, cpu: int = 4000, until: int | None = 10, **how: int) -> tuple[World, Job]:
    """A node of four cores, of which two are in use, for `until` minutes if that is known."""
    world = a_world(a_node(cpu=cpu, memory=64 * GIB))
    running = accept(world, cpu=2000, timeout=until, **how)
    assert placed(world) == [running.id]
    return world, running


def test_a_short_job_passes_and_one_that_ends_too_late_or_never_does_not() -> None:
    world, _ = busy()
    big = accept(world, cpu=4000)
    forever, long, short = accept(world), accept(world, timeout=20), accept(world, timeout=10)
    assert placed(world) == [short.id]
    assert world.tables.reservation is not None
    assert (world.tables.reservation.job, world.tables.reservation.start) == (big.id, NOW + 10 * MINUTE)
    for job in (forever, long):
        lane = world.tables.queue.lane_of(job)
        assert lane is not None
        assert lane.waiting == (("kept free for a job that is first", 1),)


def test_the_first_starts_when_it_was_promised_and_the_others_go_on_behind_it() -> None:
    world, running = busy()
    big, small = accept(world, cpu=4000), accept(world)
    assert placed(world) == []
    moment = Millis(NOW + 10 * MINUTE)
    end(world, running, moment)
    assert placed(world, moment) == [big.id]
    end(world, big, Millis(moment + MINUTE))
    assert placed(world, Millis(moment + MINUTE)) == [small.id]


def test_a_big_job_does_not_starve_behind_a_stream_of_small_ones() -> None:
    world = a_world(a_node(cpu=2000, memory=64 * GIB))
    first = accept(world)
    assert placed(world) == [first.id]
    big = accept(world, cpu=2000)
    for minute in range(1, 20):
        accept(world)
        assert placed(world, Millis(NOW + minute * MINUTE)) == []
    end(world, first, Millis(NOW + 20 * MINUTE))
    assert placed(world, Millis(NOW + 20 * MINUTE)) == [big.id]


def test_what_is_left_over_beside_it_may_be_used_for_ever() -> None:
    world, _ = busy(cpu=6000)
    accept(world, cpu=5000)  # with one core to spare when it starts
    beside, too_much = accept(world), accept(world)
    assert placed(world) == [beside.id]
    assert too_much.id in world.tables.jobs


def test_other_resources_and_other_nodes_are_no_ones_promise() -> None:
    node = replace(a_node("gpu", cpu=8000, memory=64 * GIB, gpu_ids=("g0",)))
    world = a_world(node, a_node("plain", cpu=1000, memory=64 * GIB))
    running = accept(world, gpus=1)  # for nobody knows how long
    assert placed(world) == [running.id]
    first = accept(world, gpus=1, cpu=2000)
    others = [accept(world) for _ in range(6)]
    assert sorted(placed(world)) == sorted(job.id for job in others)
    assert first.id in world.tables.jobs
    assert world.tables.reservation is not None
    assert world.tables.reservation.start is None


def test_where_no_end_is_known_nothing_passes_on_that_node() -> None:
    world, _ = busy(until=None)
    accept(world, cpu=4000)
    accept(world, timeout=1)
    assert placed(world) == []


def test_what_was_announced_counts_before_the_timeout_and_a_late_run_counts_for_nothing() -> None:
    world, _ = busy(until=60, expected=10)
    accept(world, cpu=4000)
    long = accept(world, timeout=20)
    assert placed(world) == []
    short = accept(world, timeout=5)
    assert placed(world) == [short.id]
    end(world, short, Millis(NOW + 5 * MINUTE))
    assert placed(world, Millis(NOW + 11 * MINUTE)) == []  # the run is late: nobody knows
    assert long.id in world.tables.jobs


def test_when_a_run_is_late_who_made_way_is_asked_again_though_nothing_else_happens() -> None:
    world = a_world(a_node(cpu=4000, memory=64 * GIB))
    running = [accept(world, cpu=2000, expected=60), accept(world, expected=10)]
    assert placed(world) == [job.id for job in running]
    accept(world, cpu=2000)
    small = accept(world)
    assert placed(world) == []  # in ten minutes the two cores are the first's
    late = world.next_due()
    assert late == NOW + 10 * MINUTE
    expire(world, now=late)
    assert placed(world, late) == [small.id]  # in an hour there is a core to spare beside it


def test_a_tenant_that_may_be_on_no_other_node_makes_way_and_is_asked_again_too() -> None:
    world = a_world(a_node("n1", cpu=4000, memory=64 * GIB), a_node("n2", cpu=1000, memory=64 * GIB))
    bound = create_tenant(world, Tenant(id=A, quota=Quota(workers=1)), now=NOW)
    running = [accept(world, tenant=bound.id, cpu=2000, expected=60), accept(world, cpu=1500, expected=10)]
    assert placed(world) == [job.id for job in running]
    assert {run.node for run in world.tables.runs.values()} == {"n1"}
    accept(world, cpu=2000, priority=1)
    small = accept(world, tenant=bound.id, cpu=500)
    assert placed(world) == []  # n2 is not for its tenant, and in ten minutes two cores of n1 are the first's
    assert world.tables.queue.held(bound.id) == Yields().reasons
    order = next(gate for gate in gates(world, small, NOW) if gate.name is GateName.ORDER)
    assert "kept free for a job that is first" in order.says
    late = world.next_due()
    assert late == NOW + 10 * MINUTE
    expire(world, now=late)
    assert placed(world, late) == [small.id]


def test_a_tenant_that_may_be_on_no_other_node_is_held_by_that_also_where_there_is_no_room_at_all() -> None:
    """Parked for room, it would make a pool grow by a worker that it may not use, again and again."""
    world = a_world(a_node("n1", cpu=1000, memory=64 * GIB))
    bound = create_tenant(world, Tenant(id=A, quota=Quota(workers=1)), now=NOW)
    running = accept(world, tenant=bound.id)
    assert placed(world) == [running.id]
    waiting = accept(world, tenant=bound.id)
    assert placed(world) == []
    assert world.tables.queue.held(bound.id) == WORKERS_USED
    assert world.tables.queue.parked() == []
    shut = next(gate for gate in gates(world, waiting, NOW) if not gate.is_open)
    assert (shut.name, shut.says.split(":")[0]) == (GateName.QUOTA, "quota-workers")
    end(world, running, NOW)
    assert placed(world) == [waiting.id]


def test_nobody_is_woken_for_a_late_run_that_nobody_makes_way_for() -> None:
    world, _ = busy()
    accept(world, cpu=4000)
    short = accept(world, timeout=10)
    assert placed(world) == [short.id]
    assert world.tables.reservation is not None
    assert world.next_due() is None


def test_a_promise_stays_when_another_was_first_for_a_while_and_nobody_would_have_passed() -> None:
    """It changes hands when somebody would pass. Who made way once and fits nowhere now is not somebody."""
    world = a_world(a_node("n1", cpu=4000, memory=64 * GIB), a_node("n2", cpu=4000, memory=64 * GIB))
    there, elsewhere = accept(world), accept(world, cpu=4000)
    assert placed(world) == [there.id, elsewhere.id]
    big, small = accept(world, cpu=4000), accept(world)
    assert placed(world) == []  # n1 is kept for the big one
    filling = accept(world, cpu=3000, priority=1)
    assert placed(world) == [filling.id]
    before = accept(world, cpu=4000, expected=10, priority=1)
    assert placed(world) == []
    end(world, elsewhere, NOW)
    assert placed(world) == [before.id]
    end(world, filling, NOW)
    assert placed(world) == []  # n1 is still kept, though n2 is now known to be free in ten minutes
    end(world, there, NOW)
    assert placed(world) == [big.id]
    assert small.id in world.tables.jobs


def test_the_promise_goes_with_who_had_it() -> None:
    world, _ = busy()
    big, small = accept(world, cpu=4000), accept(world)
    assert placed(world) == []
    requests.cancel(world, LOCAL_TENANT, big.id, now=NOW)
    assert placed(world) == [small.id]


def test_a_start_that_took_long_moves_the_known_end() -> None:
    world, running = busy()
    run = world.live_run(running.id)
    assert run is not None
    observe(world, RunStarted(run=run.id, token=run.token), now=Millis(NOW + 3 * MINUTE))
    started = world.live_run(running.id)
    assert started is not None
    assert started.ends_at == NOW + 13 * MINUTE


def test_passing_is_charged_like_any_other_placing() -> None:
    world = a_world(a_node(cpu=4000, memory=64 * GIB), tenants=(A, B))
    accept(world, tenant=A, cpu=2000, timeout=10)
    place(world, now=NOW)
    accept(world, tenant=A, cpu=4000)
    accept(world, tenant=B, timeout=5)
    place(world, now=NOW)
    (run,) = [run for run in world.tables.runs.values() if run.tenant == B]
    assert world.tables.ledger.account(B).work == run.charged > 0


def test_a_trial_keeps_nothing_free() -> None:
    world, _ = busy()
    small = accept(world)
    with world.trial(NOW) as trial:
        accept(trial, cpu=4000)
        assert placed(trial) == [small.id]
    with world.trial(NOW) as trial:
        big = replace(a_submission(cpu=4000, priority=1), expected_ms=None)
        submit(trial, LOCAL_TENANT, big, job=a_job_id(), now=NOW)
        assert placed(trial) == []
    assert placed(world) == [small.id]


def test_it_can_be_turned_off() -> None:
    world = a_world(a_node(cpu=4000, memory=64 * GIB), policy=Policy(is_backfilling=False))
    running, big, small = accept(world, cpu=2000), accept(world, cpu=4000), accept(world)
    assert placed(world) == [running.id, small.id]
    assert big.id in world.tables.jobs


def test_a_job_no_node_can_take_any_more_is_promised_nothing_until_one_can_again() -> None:
    large = a_node("large", cpu=8000, memory=64 * GIB)
    world = a_world(large)
    running, huge = accept(world, cpu=3000), accept(world, cpu=8000)
    assert placed(world) == [running.id]
    world.set_node(replace(large, capacity=replace(large.capacity, cpu_millis=4000)), now=NOW)
    small = accept(world)
    assert placed(world) == [small.id]  # would make way on this node for a job that fits
    for job in (running, small):
        end(world, job, NOW)
    world.set_node(large, now=NOW)
    assert placed(world) == [huge.id]
