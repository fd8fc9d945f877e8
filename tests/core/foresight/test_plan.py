"""What was planned is what then happens; and a look ahead leaves no trace."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.core.pool_home import GROW, a_growing_world, node_of
from tests.core.quota_home import unrecorded
from windlass.core.foresight.plan import Plan, plan
from windlass.core.foresight.why import Estimate
from windlass.core.model.facts import RunEnded, RunStarted
from windlass.core.model.ids import JobId, Millis, NodeId, PoolId, TenantId
from windlass.core.model.money import Micros
from windlass.core.model.pool import WorkerState
from windlass.core.model.run import Run, RunState
from windlass.core.model.submission import Submission
from windlass.core.model.tenant import Quota, QuotaPolicy, Tenant
from windlass.core.world.facts import observe
from windlass.core.world.growth import scale, scale_by_hand
from windlass.core.world.place import place
from windlass.core.world.pools import change_pool
from windlass.core.world.submit import submit
from windlass.core.world.workers import bury, is_busy, join_node
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

START = Millis(1_000_000)
TENANTS = tuple(map(TenantId, "abc"))
WORLDS = range(100)


class Driven:
    """A World whose runs take exactly as long as they say."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ends: list[tuple[int, str, Run]] = []
        self.placed: list[tuple[JobId, NodeId, int]] = []
        self.now = START

    def place(self) -> None:
        for run in place(self.world, now=self.now, limit=10_000):
            observe(self.world, RunStarted(run=run.id, token=run.token), now=self.now)
            span = self.world.tables.jobs[run.job].expected_ms
            assert span is not None
            self.ends.append((self.now + span, run.id, run))
            self.placed.append((run.job, run.node, self.now))

    def look(self) -> None:
        """What autoscalers do; here are none."""

    def step(self) -> bool:
        """To the next end; False when nothing runs."""
        if not self.ends:
            return False
        self.now = Millis(min(self.ends)[0])
        due = sorted(end for end in self.ends if end[0] <= self.now)
        self.ends = [end for end in self.ends if end[0] > self.now]
        for _, _, run in due:
            live = self.world.tables.runs[run.id]
            fact = RunEnded(
                run=run.id,
                token=run.token,
                state=RunState.EXITED,
                exit_code=0,
                reason="Completed",
                ran_ms=Millis(self.now - (live.started_at or 0)),
            )
            observe(self.world, fact, now=self.now)
        self.place()
        return True


class Growing(Driven):
    """With a pool that grows: its autoscaler looks every second, its workers come as long after as they always do."""

    def __init__(self, world: World, took: int) -> None:
        super().__init__(world)
        self.took = took
        self.coming: list[tuple[int, NodeId]] = []

    def place(self) -> None:
        super().place()
        while self._grow():
            super().place()

    def step(self) -> bool:
        """A second on; False when nobody waits and nothing runs."""
        if not (self.ends or self.coming or self.world.tables.queue):
            return False
        later = Millis(self.now + 1000)
        if self.ends and min(self.ends)[0] <= later:
            super().step()
        else:
            self.now = later
            self.place()
        return True

    def look(self) -> None:
        """As the loops do: give back what has served, ask for what is missing."""
        world, fleet = self.world, self.world.tables.fleet
        for worker in fleet.workers_of(GROW):
            if worker.state is WorkerState.ENDING and not is_busy(world, worker.id):
                bury(world, worker.id, now=self.now)
        step = scale(world, GROW, now=self.now)
        if step is not None and step.verdict.by > 0:
            self.coming += [(self.now + self.took, NodeId(name)) for name in step.workers]

    def _grow(self) -> bool:
        """Let in who comes, too."""
        self.look()
        world, fleet = self.world, self.world.tables.fleet
        came = [name for at, name in self.coming if at <= self.now]
        self.coming = [one for one in self.coming if one[0] > self.now]
        for name in came:
            join_node(world, node_of(fleet.workers[name], world), now=self.now)
        return bool(came)


def wish(chance: random.Random, number: int) -> Submission:
    asked = a_submission(
        name=f"planned-{number}" if number >= 0 else "",
        cpu=chance.choice((500, 1000, 2000, 4000)),
        memory=chance.choice((1, 2)) * GIB,
        priority=chance.choice((0, 0, 3)),
    )
    return replace(asked, expected_ms=Millis(chance.randrange(1, 90) * 1000))


def a_busy_world(chance: random.Random) -> Driven:
    nodes = [a_node(f"n{at}", cpu=4000, memory=8 * GIB) for at in range(chance.randrange(1, 4))]
    driven = Driven(a_world(*nodes, tenants=TENANTS))
    for tenant in TENANTS:
        quota = Quota(jobs=chance.choice((None, None, 2, 4)))
        changed = Tenant(id=tenant, weight=chance.choice((500, 1000, 3000)), quota=quota, policy=QuotaPolicy.QUEUE)
        driven.world.set_tenant(changed, now=START)
    for _ in range(chance.randrange(0, 30)):
        submit(driven.world, chance.choice(TENANTS), wish(chance, -1), job=a_job_id(), now=driven.now)
        if chance.random() < 0.3:
            driven.place()
            driven.now = Millis(driven.now + chance.randrange(0, 20_000))
            while driven.ends and min(driven.ends)[0] <= driven.now:
                later, driven.now = driven.now, driven.now
                driven.step()
                driven.now = max(later, driven.now)
    driven.place()
    return driven


def a_world_that_grows(chance: random.Random, *, jobs: int) -> Driven:
    """With fewer jobs than that. Its workers take no time, or twenty seconds where one of them is there to tell by."""
    took = chance.choice((0, 20_000))
    world = a_growing_world(
        *TENANTS,
        workers_max=chance.choice((1, 2, 3)),
        labels=(("disk", "ssd"),),
        cooldown_up_ms=Millis(chance.choice((0, 30_000))),
        cooldown_down_ms=Millis(3_600_000),
        runs_per_worker=0 if took else chance.choice((0, 2)),
    )
    driven = Growing(world, took)
    if took:
        (name,) = scale_by_hand(world, GROW, 1, now=START).workers
        driven.now = Millis(START + took)
        join_node(world, node_of(world.tables.fleet.workers[NodeId(name)], world), now=driven.now)
    for tenant in TENANTS:
        quota = Quota(jobs=chance.choice((None, None, 2, 4)))
        changed = Tenant(id=tenant, weight=chance.choice((500, 1000, 3000)), quota=quota, policy=QuotaPolicy.QUEUE)
        world.set_tenant(changed, now=START)
    for _ in range(chance.randrange(0, jobs)):
        submit(world, chance.choice(TENANTS), a_small_wish(chance, -1), job=a_job_id(), now=driven.now)
        driven.place()
        for _ in range(chance.choice((0, 0, 1, 15))):
            driven.step()
    return driven


def a_small_wish(chance: random.Random, number: int) -> Submission:
    """One that fits a worker; some only that, by its pool's label."""
    asked = wish(chance, number)
    needs = replace(asked.spec.needs, cpu_millis=chance.choice((500, 1000, 2000)))
    labels = chance.choice(((), (("disk", "ssd"),)))
    return replace(asked, spec=replace(asked.spec, needs=needs), node_labels=labels)


def picture(world: World) -> Any:
    """Everything the store would hold, and who is next."""
    tables = world.tables
    kept = (
        tables.jobs,
        tables.runs,
        tables.nodes,
        tables.tenants,
        tables.volumes,
        tables.names,
        tables.bursts,
        tables.totals,
    )
    records = [sorted((str(key), repr(value)) for key, value in table.items()) for table in kept]
    accounts = sorted((tenant, repr(account)) for tenant, account in tables.ledger.accounts().items())
    free = sorted((slot.node.id, repr(slot.free), slot.runs) for slot in tables.places)
    order = world.number, len(tables.queue), len(world.journal), tables.ledger.now()
    return records, accounts, free, order, unrecorded(world)


def test_in_a_hundred_random_worlds_the_plan_is_what_then_happens() -> None:
    later = delays = 0
    for seed in WORLDS:
        chance = random.Random(seed)
        driven = a_busy_world(chance)
        tenant = chance.choice(TENANTS)
        wishes = [wish(chance, number) for number in range(chance.randrange(1, 4))]
        foreseen, planned, happened = _planned_and_happened(driven, tenant, wishes, seed)
        assert planned == happened, f"seed {seed}: node, moment or order differ"
        later += any(not one.starts_now for one in foreseen.items)
        delays += bool(foreseen.delayed or foreseen.delayed_others)
    assert later > 30, "too few worlds were busy for this to mean much"
    assert delays > 10


@pytest.mark.parametrize(("jobs", "planned_at_once"), [(20, 3), (1, 8)], ids=["among others", "many at once, alone"])
def test_in_a_hundred_worlds_with_a_pool_that_grows_the_plan_is_what_then_happens(
    jobs: int, planned_at_once: int
) -> None:
    later = grew = 0
    for seed in WORLDS:
        chance = random.Random(seed)
        driven = a_world_that_grows(chance, jobs=jobs)
        tenant, nodes = chance.choice(TENANTS), set(driven.world.tables.nodes)
        wishes = [a_small_wish(chance, number) for number in range(chance.randrange(1, planned_at_once + 1))]
        foreseen, planned, happened = _planned_and_happened(driven, tenant, wishes, seed)
        in_pools = [(name, node if node in nodes else GROW, at) for name, node, at in happened]
        assert planned == in_pools, f"seed {seed}: node or pool, moment or order differ"
        later += any(not one.starts_now for one in foreseen.items)
        grew += any(one.growing is not None for one in foreseen.items)
    assert later > 30, "too few worlds were busy for this to mean much"
    assert grew > 20


def _planned_and_happened(
    driven: Driven, tenant: TenantId, wishes: Sequence[Submission], seed: int
) -> tuple[Plan, list[tuple[str, str | None, int]], list[tuple[str, str, int]]]:
    """Each start in turn: its name, its node (planned: or the pool that grows one for it) and its moment."""
    ids = [a_job_id() for _ in wishes]
    before = picture(driven.world)
    foreseen = plan(driven.world, tenant, wishes, ids=ids, now=driven.now, steps=10_000)
    assert picture(driven.world) == before, f"seed {seed}: the look ahead left something behind"
    assert foreseen.is_complete
    in_turn = sorted(foreseen.items, key=lambda one: one.turn or 0)
    planned = [(one.name, one.start.node or one.growing, one.start.at) for one in in_turn if one.start is not None]
    return foreseen, planned, _really(driven, tenant, wishes, ids)


def _really(
    driven: Driven, tenant: TenantId, wishes: Sequence[Submission], ids: Sequence[JobId]
) -> list[tuple[str, str, int]]:
    """As `apply` does it: one after the other, each placed at once if there is room for it, else seen by the autoscaler before the
    next; no worker comes as quickly."""
    names = {}
    driven.placed.clear()
    for asked, job in zip(wishes, ids, strict=True):
        names[job] = submit(driven.world, tenant, asked, job=job, now=driven.now)[0].name
        Driven.place(driven)
        driven.look()
    driven.place()
    while driven.step():
        pass
    return [(names[job], node, at) for job, node, at in driven.placed if job in names]


def test_a_plan_says_what_it_costs_and_whom_it_delays() -> None:
    world = a_world(a_node(cpu=1000), tenants=TENANTS)
    driven = Driven(world)
    running, waiting, mine = (replace(a_submission(name=name), expected_ms=Millis(60_000)) for name in ("r", "w", "m"))
    submit(world, TENANTS[0], running, job=a_job_id(), now=START)
    driven.place()
    submit(world, TENANTS[1], waiting, job=a_job_id(), now=START)
    driven.place()
    urgent = replace(mine, priority=5)
    found = plan(world, TENANTS[2], [urgent], ids=[a_job_id()], now=START)
    (one,) = found.items
    assert one.start is not None
    assert (one.start.at, one.starts_now) == (START + 60_000, False)
    assert one.price_micros == 60_000 * 50_000 // 3_600_000 + GIB * 60_000 * 10_000 // (10**9 * 3_600_000)
    assert (found.delayed, found.delayed_others, found.delayed_others_by_ms) == ((), 1, 60_000)


@pytest.mark.parametrize("expected", [None, 600_000], ids=["a guess", "what it says"])
def test_what_a_job_is_expected_to_take_is_bounded_by_its_timeout(expected: int | None) -> None:
    world = a_world(a_node(cpu=1000))
    asked = replace(a_submission(name="aa"), timeout_ms=Millis(10_000), expected_ms=expected)
    follows = replace(asked, name="bb")
    aa, bb = plan(world, TenantId("local"), [asked, follows], ids=[a_job_id(), a_job_id()], now=START).items
    assert (aa.expected_ms, aa.is_stopped_for_cost) == (10_000, False)
    assert aa.price_micros * 360 == pytest.approx(aa.price_per_hour_micros, rel=0.02)
    assert bb.start is not None
    assert bb.start.at == START + 10_000, "and who waits for it is told the same"


def test_the_price_is_bounded_by_what_a_job_may_cost_and_it_is_said_that_this_stops_it() -> None:
    world = a_world(a_node(cpu=1000))
    hour = replace(a_submission(name="aa"), expected_ms=Millis(3_600_000))
    (free,) = plan(world, TenantId("local"), [hour], ids=[a_job_id()], now=START).items
    half = Micros(free.price_micros // 2)
    wanted = [replace(hour, cost_max=half), replace(hour, name="bb", cost_max=Micros(free.price_micros))]
    aa, bb = plan(world, TenantId("local"), wanted, ids=[a_job_id(), a_job_id()], now=START).items
    assert (aa.price_micros, aa.is_stopped_for_cost) == (half, True)
    assert aa.expected_ms == pytest.approx(1_800_000, rel=0.001)
    assert aa.price_per_hour_micros == free.price_per_hour_micros
    assert bb.start is not None
    assert bb.start.at == START + aa.expected_ms
    assert (bb.price_micros, bb.is_stopped_for_cost, bb.expected_ms) == (free.price_micros, False, 3_600_000)


def test_whoever_comes_first_has_its_place_before_one_of_a_higher_priority_is_submitted() -> None:
    world = a_world(a_node(cpu=2000))
    first = replace(a_submission(name="aa", cpu=1500), expected_ms=Millis(60_000))
    second = replace(first, name="bb", priority=5)
    aa, bb = plan(world, TenantId("local"), [first, second], ids=[a_job_id(), a_job_id()], now=START).items
    assert (aa.starts_now, aa.turn) == (True, 1)
    assert bb.start is not None
    assert (bb.start.at, bb.turn) == (START + 60_000, 2)


def test_what_would_be_refused_is_said_with_its_faults_and_the_rest_is_planned() -> None:
    world = a_world(a_node(cpu=1000))
    found = plan(
        world,
        TenantId("local"),
        [a_submission(name="big", cpu=64_000), a_submission(name="small")],
        ids=[a_job_id(), a_job_id()],
        now=START,
    )
    big, small = found.items
    assert big.refusal is not None
    assert (big.refusal.code, big.refusal.faults[0].field) == ("fits-nowhere", "spec.resources.cpu")
    assert small.starts_now


def test_the_plan_of_many_is_bounded_by_its_steps_and_says_so() -> None:
    world = a_world(a_node(cpu=1000))
    driven = Driven(world)
    for _ in range(300):
        asked = replace(a_submission(), expected_ms=Millis(1_000))
        submit(world, TenantId("local"), asked, job=a_job_id(), now=START)
    driven.place()
    found = plan(world, TenantId("local"), [a_submission(name="last")], ids=[a_job_id()], now=START, steps=50)
    (one,) = found.items
    assert one.start is not None
    assert one.start.is_bound
    assert not found.is_complete
    assert msgspec.json.encode(found)


def test_a_pool_that_would_grow_for_it_is_named_with_its_price() -> None:
    world = a_growing_world(workers_max=1)
    asked = replace(a_submission(name="mine", cpu=1000), pools=(GROW,))
    (one,) = plan(world, TenantId("local"), [asked], ids=[a_job_id()], now=START).items
    assert (one.refusal, one.start, one.growing) == (None, Estimate(at=START, growing=GROW), GROW)
    assert (one.price_per_hour_micros > 0, one.starts_now) == (True, False)
    change_pool(world, replace(world.tables.fleet.pools[GROW], is_paused=True), None, now=START)
    (one,) = plan(world, TenantId("local"), [asked], ids=[a_job_id()], now=START).items
    assert (one.start, one.growing, one.price_per_hour_micros) == (None, None, 0)


def test_a_pool_that_grows_is_looked_ahead_at_though_a_node_would_be_free_later() -> None:
    """The machine is taken for an hour; the pool is empty and would be asked at once."""
    world = a_growing_world(workers_max=1)
    free = world.tables.nodes[NodeId("n1")].capacity.cpu_millis
    hour = replace(a_submission(name="all", cpu=free), expected_ms=Millis(3_600_000), pools=(PoolId("local"),))
    submit(world, TenantId("local"), hour, job=a_job_id(), now=START)
    (taken,) = place(world, now=START)
    observe(world, RunStarted(run=taken.id, token=taken.token), now=START)
    size, workers = len(world.journal), dict(world.tables.fleet.workers)
    asked = replace(a_submission(name="mine", cpu=1000), expected_ms=Millis(60_000))
    wanted = [replace(asked, name=name) for name in "abc"]
    first, second, third = plan(world, TenantId("local"), wanted, ids=[a_job_id() for _ in wanted], now=START).items
    assert (first.start, second.start) == (Estimate(at=START, growing=GROW),) * 2
    assert third.start == Estimate(at=Millis(START + 60_000), growing=GROW), "two fill the worker, its pool's only one"
    assert (len(world.journal), world.tables.fleet.workers) == (size, workers)


@pytest.mark.parametrize("cooldown", [0, 60_000])
def test_a_worker_is_expected_after_the_cooldown_and_as_long_as_its_like_took(cooldown: int) -> None:
    world = a_growing_world(workers_max=2, cooldown_up_ms=Millis(cooldown))
    (name,) = scale_by_hand(world, GROW, 1, now=START).workers
    ready = Millis(START + 20_000)
    join_node(world, node_of(world.tables.fleet.workers[NodeId(name)], world), now=ready)
    asked = replace(a_submission(name="mine", cpu=2000), pools=(GROW,), expected_ms=Millis(3_600_000))
    submit(world, TenantId("local"), asked, job=a_job_id(), now=ready)
    (taken,) = place(world, now=ready)
    observe(world, RunStarted(run=taken.id, token=taken.token), now=ready)
    (one,) = plan(world, TenantId("local"), [replace(asked, name="next")], ids=[a_job_id()], now=ready).items
    assert one.start == Estimate(at=Millis(max(ready, START + cooldown) + 20_000), growing=GROW)


def test_a_pool_grows_for_the_first_that_finds_no_place_and_the_others_wait_for_its_cooldown() -> None:
    """Its autoscaler looks before the next is there."""
    world = a_growing_world(workers_max=3, cooldown_up_ms=Millis(60_000))
    asked = replace(a_submission(cpu=2000), pools=(GROW,), expected_ms=Millis(3_600_000))
    wanted = [replace(asked, name=name) for name in "abc"]
    found = plan(world, TenantId("local"), wanted, ids=[a_job_id() for _ in wanted], now=START).items
    later = Estimate(at=Millis(START + 60_000), growing=GROW)
    assert [one.start for one in found] == [Estimate(at=START, growing=GROW), later, later]
