"""Room is kept for whoever is first and does not fit; others pass only where they cannot delay it."""

from msgspec.structs import replace

from windlass.core.model.facts import RunEnded, RunStarted
from windlass.core.model.ids import LOCAL_TENANT, Millis, TenantId
from windlass.core.model.job import Job
from windlass.core.model.run import RunState
from windlass.core.world import requests
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.policy import Policy
from windlass.core.world.submit import submit
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
) -> Job:
    """Times in minutes; no grace, so that a timeout is the whole of it."""
    asked = a_submission(cpu=cpu, gpus=gpus, timeout_ms=None if timeout is None else timeout * MINUTE)
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
