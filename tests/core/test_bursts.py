"""Burst sessions: opened by asking and by a full quota, with their price, cooldown, daily limit and real end."""

import pytest

from windlass.core.errors import Conflict, Denied, OverLimit
from windlass.core.metering import segments
from windlass.core.model.calendar import next_day
from windlass.core.model.facts import RunEnded, RunStarted
from windlass.core.model.ids import JobId, Millis, NodeId, RunId, TenantId
from windlass.core.model.money import LIST_PRICES, cost
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run, RunState, Token
from windlass.core.model.tenant import BurstPolicy, Quota, QuotaPolicy, Tenant
from windlass.core.world.bursts import ask_burst, bursts_of, end_burst
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.records import KEPT, Record, RunOver, Table, decode, encode
from windlass.core.world.requests import cancel
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

NOON = Millis(20_000 * 86_400_000 + 12 * 3_600_000)
HOUR = 3_600_000
ACME = TenantId("acme")
CORE = Resources(cpu_millis=1000, memory_bytes=1_000_000_000)


def a_home(policy: QuotaPolicy, quota: Quota, burst: BurstPolicy | None = None) -> World:
    world = a_world(a_node(cpu=64_000, memory=64 * GIB), tenants=())
    world.set_tenant(Tenant(id=ACME, policy=policy, quota=quota, burst=burst or BurstPolicy()), now=NOON)
    return world


def ask(world: World, now: Millis = NOON) -> None:
    submit(world, ACME, a_submission(memory=1_000_000_000), job=a_job_id(), now=now)


def start(world: World, now: Millis) -> list[Run]:
    runs = place(world, now=now)
    for run in runs:
        observe(world, RunStarted(run=run.id, token=run.token), now=now)
    return runs


def end(world: World, run: Run, now: Millis, ran_ms: int) -> RunOver:
    fact = RunEnded(run=run.id, token=run.token, state=RunState.EXITED, exit_code=0, ran_ms=Millis(ran_ms))
    observe(world, fact, now=now)
    return next(one for one in reversed(changes(world)) if isinstance(one, RunOver))


def changes(world: World) -> list[Record | None]:
    return [entry.new for entry in world.journal.retake(1_000_000)]


def restarted(world: World) -> World:
    """As the store would have it."""
    fresh = World(epoch=world.epoch + 1)
    held: dict[tuple[Table, str], bytes] = {}
    for entry in world.journal.entries:
        if entry.new is None:
            held.pop((entry.table, entry.key), None)
        else:
            held[entry.table, entry.key] = encode(entry.new)
    for table in KEPT:
        for (kind, key), value in held.items():
            if kind is table:
                fresh.load(table, key, decode(table, value))
    fresh.number = world.number
    return fresh


def test_a_full_quota_opens_a_session_and_half_as_much_again_runs() -> None:
    world = a_home(QuotaPolicy.BURST, Quota(jobs=4))
    for _ in range(10):
        ask(world)
    runs = start(world, NOON)
    assert [bool(run.burst) for run in runs] == [False] * 4 + [True] * 2
    [session] = bursts_of(world, ACME, NOON)
    assert (session.is_asked, session.ends_at, session.runs) == (False, NOON + HOUR, 2)


def test_a_session_that_was_asked_for_lifts_any_policy() -> None:
    for policy in QuotaPolicy:
        world = a_home(policy, Quota(jobs=2))
        ask_burst(world, ACME, now=NOON)
        for _ in range(3):
            ask(world)
        assert [bool(run.burst) for run in start(world, NOON)] == [False, False, True], policy


def test_what_goes_beyond_is_dearer_by_half_for_its_time_in_the_session_only() -> None:
    world = a_home(QuotaPolicy.BURST, Quota(jobs=1), BurstPolicy(factor=2000))
    ask(world)
    ask(world)
    plain, dear = start(world, NOON)
    span = 2 * HOUR
    over = end(world, dear, Millis(NOON + span), span)
    hour = cost(CORE, Millis(HOUR), LIST_PRICES)
    assert [(part.span_ms, part.cost, part.is_burst) for part in over.segments] == [
        (HOUR, hour * 3 // 2, True),
        (HOUR, hour, False),
    ]
    assert sum(part.cost for part in end(world, plain, Millis(NOON + span), span).segments) == 2 * hour
    [session] = bursts_of(world, ACME, Millis(NOON + span))
    assert (session.cost, session.runs) == (hour * 3 // 2, 1)


def test_nothing_goes_beyond_after_the_end_and_what_does_goes_on() -> None:
    world = a_home(QuotaPolicy.BURST, Quota(jobs=2))
    for _ in range(5):
        ask(world)
    runs = start(world, NOON)
    assert len(runs) == 3
    late = Millis(NOON + HOUR)
    expire(world, now=late)
    [session] = bursts_of(world, ACME, late)
    assert session.is_closed
    end(world, runs[0], late, HOUR)
    assert start(world, late) == [], "two of two run: the one from the session still counts"
    end(world, runs[1], late, HOUR)
    [within] = start(world, late)
    assert not within.burst


def test_a_cooldown_follows_and_the_policy_opens_the_next_session_by_itself() -> None:
    world = a_home(QuotaPolicy.BURST, Quota(jobs=2))
    for _ in range(6):
        ask(world)
    assert len(start(world, NOON)) == 3
    ended = Millis(NOON + HOUR)
    expire(world, now=ended)
    with pytest.raises(OverLimit) as refused:
        ask_burst(world, ACME, now=ended)
    assert (refused.value.code, refused.value.retry_after_seconds) == ("burst-cooldown", 1800)
    assert start(world, ended) == []
    cooled = Millis(ended + 1_800_000)
    expire(world, now=Millis(cooled - 1))
    assert start(world, Millis(cooled - 1)) == []
    for run in [one for one in world.tables.runs.values() if one.burst]:
        end(world, run, Millis(cooled - 1), HOUR)
    expire(world, now=cooled)
    [beyond] = start(world, cooled)
    assert beyond.burst
    assert len(bursts_of(world, ACME, cooled)) == 2


def test_a_day_has_three_and_the_next_three_more() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(jobs=2), BurstPolicy(span_ms=Millis(60_000), cooldown_ms=Millis(0)))
    now = NOON
    for _ in range(3):
        ask_burst(world, ACME, now=now)
        with pytest.raises(Conflict):
            ask_burst(world, ACME, now=now)
        now = Millis(now + 60_000)
        expire(world, now=now)
    with pytest.raises(OverLimit) as refused:
        ask_burst(world, ACME, now=now)
    assert refused.value.code == "burst-per-day"
    assert (refused.value.limits[0].used, refused.value.limits[0].limit) == (3, 3)
    tomorrow = Millis(now + refused.value.retry_after_seconds * 1000)
    assert ask_burst(world, ACME, now=tomorrow).opened_at == tomorrow


@pytest.mark.parametrize("before_midnight", [12 * HOUR, HOUR])
def test_after_the_last_session_of_a_day_no_moment_is_told_at_which_it_is_refused_again(before_midnight: int) -> None:
    """Its cooldown is over before midnight, and that changes nothing; or after it, and then that counts."""
    policy = BurstPolicy(sessions_per_day=1, span_ms=Millis(60_000), cooldown_ms=Millis(2 * HOUR))
    world = a_home(QuotaPolicy.QUEUE, Quota(jobs=2), policy)
    now = Millis(next_day(NOON) - before_midnight)
    ask_burst(world, ACME, now=now)
    now = Millis(now + 60_000)
    expire(world, now=now)
    with pytest.raises(OverLimit) as refused:
        ask_burst(world, ACME, now=now)
    told = Millis(now + refused.value.retry_after_seconds * 1000)
    assert told == max(next_day(NOON), now + 2 * HOUR)
    assert ask_burst(world, ACME, now=told).opened_at == told


def test_who_may_not_burst_is_told_so() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(jobs=1), BurstPolicy(sessions_per_day=0))
    with pytest.raises(Denied) as refused:
        ask_burst(world, ACME, now=NOON)
    assert refused.value.code == "burst-off"


def test_a_session_that_would_add_nothing_is_not_opened_and_what_would_help_is_told() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(jobs=1), BurstPolicy())
    before = world.number
    with pytest.raises(Conflict) as refused:
        ask_burst(world, ACME, now=NOON)
    assert (refused.value.code, world.number) == ("burst-adds-nothing", before)
    assert refused.value.hint.startswith("windlass tenants quota acme --jobs 2,")
    assert ask_burst(a_home(QuotaPolicy.QUEUE, Quota(jobs=2), BurstPolicy()), ACME, now=NOON).opened_at == NOON
    cores = Quota(jobs=1, resources=Resources(cpu_millis=1000, memory_bytes=1 << 30))
    assert ask_burst(a_home(QuotaPolicy.QUEUE, cores, BurstPolicy()), ACME, now=NOON).opened_at == NOON


def test_a_session_ends_at_its_time_also_when_nobody_was_there() -> None:
    world = a_home(QuotaPolicy.BURST, Quota(jobs=2))
    for _ in range(3):
        ask(world)
    dear = start(world, NOON)[2]
    later = Millis(NOON + 5 * HOUR)
    again = restarted(world)
    expire(again, now=later)
    [session] = bursts_of(again, ACME, later)
    assert (session.is_closed, session.ends_at) == (True, NOON + HOUR)
    over = end(again, dear, later, 5 * HOUR)
    assert [part.span_ms for part in over.segments if part.is_burst] == [HOUR]


def test_a_session_still_open_is_open_after_a_restart() -> None:
    world = a_home(QuotaPolicy.QUEUE, Quota(jobs=2))
    ask_burst(world, ACME, now=NOON)
    for _ in range(3):
        ask(world)
    again = restarted(world)
    assert [bool(run.burst) for run in start(again, Millis(NOON + HOUR - 1))] == [False, False, True]


def test_ended_early_it_is_priced_until_then() -> None:
    world = a_home(QuotaPolicy.BURST, Quota(jobs=2))
    for _ in range(3):
        ask(world)
    dear = start(world, NOON)[2]
    end_burst(world, ACME, now=Millis(NOON + 60_000))
    over = end(world, dear, Millis(NOON + HOUR), HOUR)
    assert [part.span_ms for part in over.segments] == [60_000, HOUR - 60_000]
    [session] = bursts_of(world, ACME, Millis(NOON + HOUR))
    assert (session.ends_at, session.cost) == (NOON + 60_000, over.segments[0].cost)


def test_a_session_of_the_time_to_come_is_not_left_by_a_trial() -> None:
    world = a_home(QuotaPolicy.BURST, Quota(jobs=2))
    for _ in range(3):
        ask(world)
    with world.trial(NOON):
        assert len(place(world, now=NOON)) == 3
    assert bursts_of(world, ACME, NOON) == []
    assert len(start(world, NOON)) == 3


OTHER = TenantId("other")


def crowded(policy: QuotaPolicy) -> tuple[World, list[Run]]:
    """Ten cores, and somebody with no quota who wants all of them."""
    world = a_world(a_node(cpu=10_000, memory=64 * GIB), tenants=(OTHER,))
    world.set_tenant(Tenant(id=ACME, policy=policy, quota=Quota(jobs=2)), now=NOON)
    for _ in range(12):
        submit(world, OTHER, a_submission(cpu=1000), job=a_job_id(), now=NOON)
    return world, start(world, NOON)


def test_a_fifth_of_the_capacity_is_kept_for_bursts_and_used_by_them() -> None:
    world, others = crowded(QuotaPolicy.BURST)
    assert len(others) == 8
    assert world.tables.queue.held(OTHER) == (("kept free for bursts", 0),)
    for _ in range(3):
        ask(world)
    assert start(world, NOON) == [], "within its quota it is one of the others"
    for job in [one for one in world.tables.jobs.values() if one.tenant == OTHER and one.is_waiting]:
        cancel(world, OTHER, job.id, now=NOON)
    end(world, others[0], NOON, 0)
    end(world, others[1], NOON, 0)
    assert [(run.tenant, bool(run.burst)) for run in start(world, NOON)] == [(ACME, False), (ACME, False), (ACME, True)]


def test_nothing_is_kept_where_nobody_bursts_by_policy() -> None:
    _, others = crowded(QuotaPolicy.QUEUE)
    assert len(others) == 10


def test_whoever_stays_out_of_the_reserve_first_gets_in_first() -> None:
    world, others = crowded(QuotaPolicy.BURST)
    third = TenantId("third")
    world.set_tenant(Tenant(id=third), now=NOON)
    big = submit(world, third, a_submission(cpu=3000), job=a_job_id(), now=NOON)[0]
    for run in others[:2]:
        end(world, run, NOON, 0)
        assert start(world, NOON) == [], "the big one is next: nobody passes it"
    end(world, others[2], NOON, 0)
    assert [run.job for run in start(world, NOON)] == [big.id]


def test_a_job_too_large_to_fit_beside_the_reserve_may_use_it() -> None:
    world = a_world(a_node(cpu=10_000, memory=64 * GIB), tenants=(OTHER,))
    world.set_tenant(Tenant(id=ACME, policy=QuotaPolicy.BURST), now=NOON)
    submit(world, OTHER, a_submission(cpu=9000), job=a_job_id(), now=NOON)
    assert len(start(world, NOON)) == 1


def test_the_price_of_a_segment_does_not_depend_on_where_the_run_is_cut() -> None:
    midnight = 20_001 * 86_400_000
    whole = Run(
        id=RunId("r-1"),
        job=JobId("r"),
        tenant=ACME,
        node=NodeId("n"),
        attempt=1,
        token=Token(1, 1),
        needs=Resources(cpu_millis=333, memory_bytes=777_777_777, gpus=1),
        since=NOON,
        assigned_at=NOON,
        started_at=Millis(midnight - 12_345),
        ran_ms=Millis(3 * 86_400_000 + 7),
        state=RunState.EXITED,
    )
    parts = segments(whole)
    assert len(parts) == 4
    assert sum(part.span_ms for part in parts) == whole.ran_ms
    exact = 333 * 50_000 * 10**6 + 777_777_777 * 10_000 + 2_500_000 * 10**9
    assert sum(part.cost for part in parts) == exact * (3 * 86_400_000 + 7) // (10**9 * 3_600_000)
