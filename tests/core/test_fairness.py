"""Who is next, one sentence per promise: shares by weight, no credit for silence, true after corrections, trials and restarts."""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from msgspec.structs import replace

from windlass.core.fairness.account import Account, Virtual, Work
from windlass.core.fairness.ledger import NEW_ACCOUNT, Ledger, charge, true_up, virtual, work_of
from windlass.core.fairness.queue import WaitingQueue
from windlass.core.fairness.typical import DEFAULT_MS, Typical
from windlass.core.model.facts import RunEnded
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.job import Job
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.model.run import Run, RunState
from windlass.core.model.shape import Shape
from windlass.core.model.tenant import Tenant
from windlass.core.world import requests
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.records import KEPT, Table, decode, encode
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

NOW = Millis(2_000_000)
A, B, C = TenantId("zebra"), TenantId("b"), TenantId("c")
ONE_CORE = Resources(cpu_millis=1000, memory_bytes=GIB)
MINUTE = Millis(60_000)


def fair_world(*, slots: int = 1, weights: Sequence[int] = (1000, 1000, 1000)) -> World:
    """One node with room for `slots` jobs of a core, and three tenants."""
    node = replace(a_node(cpu=1000 * slots, memory=2 * slots * GIB), runs_max=slots)
    world = a_world(node, tenants=(A, B, C))
    for tenant, weight in zip((A, B, C), weights, strict=True):
        world.set_tenant(Tenant(id=tenant, weight=weight), now=NOW)
    return world


def accept(
    world: World, tenant: TenantId, count: int = 1, *, expected_ms: int | None = 60_000, cpu: int = 1000
) -> list[Job]:
    asked = replace(a_submission(cpu=cpu), expected_ms=expected_ms)
    return [submit(world, tenant, asked, job=a_job_id(), now=NOW)[0] for _ in range(count)]


def end(world: World, run: Run, *, ran_ms: int = 60_000) -> None:
    fact = RunEnded(
        run=run.id, token=run.token, state=RunState.EXITED, exit_code=0, reason="Completed", ran_ms=Millis(ran_ms)
    )
    observe(world, fact, now=NOW)


def serve(world: World, count: int, *, ran_ms: dict[TenantId, int] | None = None) -> list[TenantId]:
    """Who is started, one after the other, each run ending before the next is placed."""
    served = []
    for _ in range(count):
        for run in place(world, now=NOW, limit=1):
            served.append(run.tenant)
            end(world, run, ran_ms=(ran_ms or {}).get(run.tenant, 60_000))
    return served


def rebuilt(world: World) -> World:
    again = World(epoch=world.epoch)
    tables = world.tables
    kept = {
        Table.TENANTS: tables.tenants,
        Table.ACCOUNTS: tables.ledger.accounts(),
        Table.NODES: tables.nodes,
        Table.JOBS: tables.jobs,
        Table.RUNS: tables.runs,
    }
    for table in KEPT:
        for key, record in kept.get(table, {}).items():
            again.load(table, key, decode(table, encode(record)))
    again.number = world.number
    return again


def test_who_comes_second_is_served_second_fourth_and_sixth() -> None:
    world = fair_world()
    accept(world, A, 100)
    accept(world, B, 10)
    served = serve(world, 110)
    assert [at for at, tenant in enumerate(served, start=1) if tenant == B] == list(range(2, 21, 2))


def test_shares_follow_the_weights_in_every_window() -> None:
    world = fair_world(slots=7, weights=(1000, 2000, 4000))
    for tenant in (A, B, C):
        accept(world, tenant, 1000)
    served: list[TenantId] = []
    running: list[Run] = []
    while len(served) < 1500:
        placed = place(world, now=NOW)
        served += [run.tenant for run in placed]
        running += placed
        end(world, running.pop(0))
    for start in range(len(served) - 300):
        window = Counter(served[start : start + 300])
        for tenant, share in ((A, 1), (B, 2), (C, 4)):
            assert abs(window[tenant] - 300 * share / 7) <= 0.1 * 300 * share / 7


def test_a_flood_makes_a_quiet_tenant_wait_no_longer_than_its_turn() -> None:
    world = fair_world()
    accept(world, A, 2000)
    accept(world, B, 300)
    assert Counter(serve(world, 100)) == {A: 50, B: 50}
    accept(world, C)
    assert C in serve(world, 3)


def test_a_quiet_tenant_gains_no_credit() -> None:
    world = fair_world()
    accept(world, A, 200)
    accept(world, B, 1)
    serve(world, 100)
    accept(world, B, 100)
    served = serve(world, 40)
    assert Counter(served) == {A: 20, B: 20}
    assert all(first != second for first, second in pairwise(served))


def test_a_weight_that_changes_counts_from_the_next_placing() -> None:
    world = fair_world()
    accept(world, A, 300)
    accept(world, B, 300)
    assert Counter(serve(world, 40)) == {A: 20, B: 20}
    world.set_tenant(Tenant(id=B, weight=3000), now=NOW)
    assert Counter(serve(world, 40)) == {A: 10, B: 30}


def test_long_jobs_that_nobody_announced_do_not_take_the_service() -> None:
    """Ten times longer, equal weights: nine of ten starts belong to the tenant of the short jobs once the runs are known."""
    world = fair_world()
    accept(world, A, 1000, expected_ms=None)
    accept(world, B, 1000, expected_ms=None)
    starts = Counter(serve(world, 440, ran_ms={A: 100_000, B: 10_000}))
    used = {A: starts[A] * 100_000, B: starts[B] * 10_000}
    assert abs(used[A] - used[B]) <= 2 * 100_000


def test_a_tenant_that_announces_too_much_gets_what_it_really_used() -> None:
    """Several runs at once, all of A's ending six times sooner than it said: neither side pays for that."""
    world = fair_world(slots=10)
    accept(world, A, 3000, expected_ms=60_000)
    accept(world, B, 3000, expected_ms=10_000)
    running: list[Run] = []
    starts: Counter[TenantId] = Counter()
    for _ in range(1000):
        placed = place(world, now=NOW)
        starts.update(run.tenant for run in placed)
        running += placed
        end(world, running.pop(0), ran_ms=10_000)
    assert abs(starts[A] - starts[B]) <= 50


def test_a_cancelled_job_leaves_from_the_middle_and_is_not_charged() -> None:
    world = fair_world()
    jobs = accept(world, A, 5)
    accept(world, B, 5)
    for job in jobs[1:4]:
        requests.cancel(world, A, job.id, now=NOW)
    assert serve(world, 7) == [A, B, A, B, B, B, B]
    assert world.tables.ledger.account(A).work == 2 * work_of(ONE_CORE, MINUTE)


def test_priority_reorders_a_tenant_s_own_jobs_and_no_one_else_s() -> None:
    world = fair_world()
    accept(world, A, 10)
    accept(world, B, 5)
    urgent = [
        submit(world, B, replace(a_submission(priority=9), expected_ms=60_000), job=a_job_id(), now=NOW)[0].id
        for _ in range(5)
    ]
    order = []
    for _ in range(10):
        (run,) = place(world, now=NOW)
        order.append((run.tenant, run.job))
        end(world, run)
    assert [job for tenant, job in order if tenant == B] == urgent
    assert Counter(tenant for tenant, _ in order) == {A: 5, B: 5}


def test_a_shape_without_room_does_not_hold_up_others_and_comes_back_in_turn() -> None:
    world = fair_world(slots=2)
    big = submit(world, A, replace(a_submission(cpu=2000), expected_ms=60_000), job=a_job_id(), now=NOW)[0]
    (first,) = place(world, now=NOW)
    assert first.job == big.id
    accept(world, A, 2)
    accept(world, B, 2)
    assert place(world, now=NOW) == []
    assert len(world.tables.queue.parked()) == 1
    end(world, first)
    assert [run.tenant for run in place(world, now=NOW)] == [B, B], (
        "A was charged for two cores: two of B's come before"
    )
    assert world.tables.queue.waits(A) == 2


def test_parking_looks_at_no_lane_but_the_ones_whose_turn_it_is() -> None:
    queue = WaitingQueue()
    shape = Shape(needs=ONE_CORE)
    for seq in range(500):
        queue.add(a_waiting_job(seq, TenantId(f"t{seq}"), shape))
    head = queue.head()
    assert head is not None
    queue.park(head[0].band, (("cpu in use", 1),))
    assert queue.head() is None
    queue.unpark(head[0].band)
    again = queue.head()
    assert again is not None
    assert again[1] == head[1]
    assert sum(lane.is_asleep for lane in head[0].band.lanes.values()) == 500  # served from its band, asleep as it is


def test_one_tenant_with_many_shapes_is_served_by_priority_then_acceptance_whoever_was_cancelled() -> None:
    chance, queue = random.Random(3), WaitingQueue()
    shapes = [Shape(needs=Resources(cpu_millis=100 + at)) for at in range(60)]
    jobs = [
        replace(a_waiting_job(seq, A, chance.choice(shapes)), priority=chance.randrange(-2, 3)) for seq in range(600)
    ]
    for job in jobs:
        queue.add(job)
    for job in chance.sample(jobs, 200):
        queue.discard(job)
        jobs.remove(job)
    served = []
    while (head := queue.head()) is not None:
        queue.discard(head[1])
        served.append(head[1].seq)
    assert served == [job.seq for job in sorted(jobs, key=lambda job: (-job.priority, job.seq))]


def test_a_storm_of_cancels_leaves_nothing_behind() -> None:
    queue = WaitingQueue()
    shape = Shape(needs=ONE_CORE)
    stays = a_waiting_job(0, A, shape)
    queue.add(stays)
    for seq in range(1, 5000):
        job = a_waiting_job(seq, A if seq % 2 else TenantId(f"t{seq % 50}"), shape)
        queue.add(job)
        queue.discard(job)
    lane = queue.lane_of(stays)
    assert lane is not None
    assert len(queue) == 1
    assert (
        max(len(queue._running), len(lane.behind) + len(lane.strays.late if lane.strays else ()), len(lane.band.order))
        <= 200
    )


def test_a_rebuilt_world_serves_in_the_same_order() -> None:
    world = fair_world(weights=(1000, 2500, 700))
    for tenant, count in ((A, 30), (B, 30), (C, 30)):
        accept(world, tenant, count, expected_ms=7_000 * count)
    serve(world, 25)
    again = rebuilt(world)
    assert again.tables.ledger.now() == world.tables.ledger.now()
    assert serve(again, 60) == serve(world, 60)


def test_a_trial_and_a_refused_commit_move_no_account() -> None:
    world = fair_world()
    accept(world, A, 5)
    accept(world, B, 5)
    serve(world, 3)
    world.journal.take(1 << 30)
    world.journal.settle()
    before, now = world.tables.ledger.accounts(), world.tables.ledger.now()
    with world.trial(NOW) as trial:
        assert len(serve(trial, 4)) == 4
    assert (world.tables.ledger.accounts(), world.tables.ledger.now()) == (before, now)
    serve(world, 4)
    world.undo_uncommitted()
    assert (world.tables.ledger.accounts(), world.tables.ledger.now()) == (before, now)


def test_a_run_that_never_started_is_charged_for_the_place_it_held() -> None:
    world = fair_world()
    accept(world, A)
    (run,) = place(world, now=NOW)
    fact = RunEnded(run=run.id, token=run.token, state=RunState.REFUSED, reason="ImagePull", is_retriable=False)
    observe(world, fact, now=Millis(NOW + 30_000))
    assert world.tables.ledger.account(A).work == work_of(ONE_CORE, Millis(30_000))


def test_a_correction_undoes_exactly_what_was_charged_whatever_the_weight_is_now() -> None:
    world = fair_world()
    accept(world, A, 2)
    (run,) = place(world, now=NOW)
    world.set_tenant(Tenant(id=A, weight=500), now=NOW)
    end(world, run, ran_ms=6_000)
    account = world.tables.ledger.account(A)
    assert account.finish == virtual(work_of(ONE_CORE, Millis(6_000)), 1000)


def test_work_is_never_nothing_and_small_runs_differ() -> None:
    assert work_of(NOTHING, Millis(0)) == 1
    assert virtual(Work(1), 10_000) == 1
    small = Resources(cpu_millis=100, memory_bytes=GIB // 64)
    assert work_of(small, Millis(200)) < work_of(small, Millis(400)) < work_of(small + small, Millis(400))


def test_what_is_owed_never_exceeds_what_others_were_given_and_ends_with_the_backlog() -> None:
    account = NEW_ACCOUNT
    for _ in range(10):
        account = charge(account, Virtual(0), Work(600), 1000, others=Work(0), is_last=False)
    later, given = Virtual(account.finish), Work(1000)
    for _ in range(10):
        account = true_up(account, later, Work(600), Work(100), 1000, others=given, is_waiting=True)
    assert (account.finish, account.owed, account.work) == (6000, 2000, 1000), "as if given to the lightest weight"
    assert true_up(account, later, Work(600), Work(100), 1000, others=given, is_waiting=False).owed == 0
    assert charge(account, later, Work(100), 1000, others=given, is_last=True) == Account(
        Virtual(6000), later, Virtual(0), Work(1100), given
    )


def test_nobody_waits_for_what_a_tenant_announced_while_it_was_alone() -> None:
    """It fills every slot with runs of a day that take a second, and again; then somebody else comes."""
    world = fair_world(slots=10)
    accept(world, A, 40, expected_ms=86_400_000)
    accept(world, A, 1000, expected_ms=1_000)
    for _ in range(4):
        for run in place(world, now=NOW):
            end(world, run, ran_ms=1_000)
    assert world.tables.ledger.account(A).owed == 0
    accept(world, B, 1000, expected_ms=1_000)
    assert Counter(serve(world, 100, ran_ms={A: 1_000, B: 1_000}))[B] == 50


@pytest.mark.parametrize("at_once", [5, 20])
@pytest.mark.parametrize("said", [60_000, 600, None])
def test_what_is_announced_moves_no_share_however_many_runs_end_at_once(said: int | None, at_once: int) -> None:
    """A says too much, too little or nothing, about jobs no two of which are alike; B says what is true."""
    world = a_world(replace(a_node(cpu=10**6, memory=10**4 * GIB), runs_max=20), tenants=(A, B))
    for number in range(500):
        asked = replace(a_submission(cpu=1000 + number), expected_ms=said)
        submit(world, A, asked, job=a_job_id(), now=NOW)
    accept(world, B, 500, cpu=1350, expected_ms=6_000)
    running: list[Run] = []
    used: Counter[TenantId] = Counter()
    while sum(used.values()) < 2 * 350 * work_of(Resources(cpu_millis=1350, memory_bytes=GIB), Millis(6_000)):
        running += place(world, now=NOW)
        for _ in range(at_once):
            run = running.pop(0)
            used[run.tenant] += work_of(run.needs, Millis(6_000))
            end(world, run, ran_ms=6_000)
    most = work_of(Resources(cpu_millis=1500, memory_bytes=GIB), Millis(60_000))
    assert abs(used[A] - used[B]) <= 20 * most, "no more than its charges in flight, and once"


def test_virtual_time_is_found_again_after_an_account_is_put_back() -> None:
    ledger = Ledger()
    ledger.replace(A, Account(seen=Virtual(5)))
    ledger.replace(B, Account(seen=Virtual(9)))
    assert ledger.now() == 9
    ledger.replace(B, Account(seen=Virtual(3)))
    assert ledger.now() == 5
    ledger.replace(A, None)
    assert ledger.now() == 3


def test_a_typical_length_is_the_median_of_the_newest_and_forgets_the_oldest_pair() -> None:
    typical = Typical(pairs_max=2)
    shapes = [Shape(needs=ONE_CORE * times) for times in (1, 2, 3)]
    for span in (1, 1, 1, 900, 5, 5, 5, 5):
        typical.note(A, shapes[0], Millis(span))
    assert typical.span(A, shapes[0]) == 5
    assert typical.span(B, shapes[0]) == DEFAULT_MS
    typical.note(A, shapes[1], Millis(7))
    typical.note(A, shapes[2], Millis(7))
    assert len(typical) == 2
    assert typical.span(A, shapes[0]) == DEFAULT_MS


@pytest.mark.parametrize(
    ("state", "reason", "ran_ms", "is_measured"),
    [
        (RunState.EXITED, "Completed", 500, True),
        (RunState.EXITED, "ExitCode", 500, True),
        (RunState.STOPPED, "Cancelled", 500, False),
        (RunState.STOPPED, "Cancelled", 500_000, False),
        (RunState.LOST, "Vanished", 500, False),
        (RunState.STOPPED, "DeadlineExceeded", 500, False),
        (RunState.STOPPED, "DeadlineExceeded", 500_000, True),
    ],
)
def test_only_a_run_that_ended_by_itself_says_how_long_its_like_take(
    state: RunState, reason: str, ran_ms: int, *, is_measured: bool
) -> None:
    """One that ran into its timeout says that they take longer than that, which is news where it is longer than usual."""
    world = fair_world()
    (job,) = accept(world, A, expected_ms=None)
    (run,) = place(world, now=NOW)
    if reason == "Cancelled":
        requests.cancel(world, A, job.id, now=NOW)
    observe(world, RunEnded(run=run.id, token=run.token, state=state, reason=reason, ran_ms=Millis(ran_ms)), now=NOW)
    assert world.tables.typical.span(A, job.shape) == (ran_ms if is_measured else DEFAULT_MS)
    assert world.tables.ledger.account(A).work == work_of(ONE_CORE, Millis(ran_ms)), "charged all the same"


def a_waiting_job(seq: int, tenant: TenantId, shape: Shape) -> Job:
    return Job(id=a_job_id(), tenant=tenant, name="", seq=seq, shape=shape, created_at=NOW, since=NOW)


def test_runs_alive_over_a_restart_end_without_a_mark_on_the_new_measurement() -> None:
    world = fair_world(slots=2)
    accept(world, A)
    accept(world, B)
    runs = place(world, now=NOW)
    again = rebuilt(world)
    accept(again, C)
    end(again, runs[0], ran_ms=10)
    later = Millis(NOW + 1)
    [placed] = place(again, now=later)
    end(again, runs[1], ran_ms=10)
    told = {one.tenant: (one.deserved, one.received) for one in again.tables.standings.all(later)[1]}
    assert told == {C: (placed.charged, placed.charged)}
