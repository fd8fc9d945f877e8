"""Budgets warn as they are used up and, if wanted, stop; so does a job's own maximum. Noticed when it happens, not at an end."""

import pytest
from msgspec.structs import replace

from windlass.core.errors import OverLimit
from windlass.core.happenings import narrate_budget
from windlass.core.model.calendar import DAY_MS, next_month
from windlass.core.model.facts import RunEnded, RunStarted
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.job import Job, JobState
from windlass.core.model.money import Micros, PriceBook, Prices
from windlass.core.model.narrate import narrate
from windlass.core.model.run import Intent, Run, RunState
from windlass.core.model.tenant import Budget, Tenant, Tier
from windlass.core.model.views import Event
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.prices import follow_setting, set_prices
from windlass.core.world.records import PRICES_KEY, JobOver, Table
from windlass.core.world.submit import submit
from windlass.core.world.tenants import change_tenant
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

NOW = Millis(20_000 * DAY_MS)
HOUR = 3_600_000
ACME = TenantId("acme")
UNIT = PriceBook(core_hour=1_000_000, gigabyte_hour=0, gpu_hour=0)
"""A core costs one currency unit an hour: an hour of the job below costs a million micro-units."""


def a_home(budget: Budget | None = None) -> World:
    world = a_world(a_node(cpu=64_000, memory=64 * GIB), tenants=())
    world.set_tenant(Tenant(id=ACME, budget=budget), now=NOW)
    with world.decision(NOW):
        world.put(Table.PRICES, PRICES_KEY, Prices(every=UNIT))
    return world


def ask(world: World, now: Millis = NOW, *, cost_max: int | None = None, retries: int = 0) -> Job:
    asked = replace(a_submission(retries=retries), cost_max=Micros(cost_max) if cost_max else None)
    return submit(world, ACME, asked, job=a_job_id(), now=now)[0]


def start(world: World, now: Millis = NOW) -> list[Run]:
    runs = place(world, now=now)
    for run in runs:
        observe(world, RunStarted(run=run.id, token=run.token), now=now)
    return runs


def end(world: World, run: Run, now: Millis, *, state: RunState = RunState.EXITED, code: int | None = 0) -> Job | None:
    known = world.tables.runs[run.id]
    ran = Millis(now - (known.started_at or now))
    observe(world, RunEnded(run=run.id, token=run.token, state=state, exit_code=code, ran_ms=ran), now=now)
    ends = [entry.new.job for entry in world.journal.entries if isinstance(entry.new, JobOver)]
    return ends[-1] if ends else None


def test_each_threshold_is_told_when_it_is_passed_while_the_run_goes_on() -> None:
    world = a_home(Budget(per_month=Micros(4_000_000)))
    ask(world)
    [run] = start(world)
    seen: list[tuple[int, int]] = []
    for _ in range(9):
        due = world.next_due()
        if due is None or due > NOW + 5 * HOUR:
            break
        expire(world, now=due)
        mark = world.tables.marks.get(ACME)
        passed = mark.passed if mark is not None else ()
        seen = [(one.threshold, one.at - NOW) for one in passed]
    assert seen == [(500, 2 * HOUR), (750, 3 * HOUR), (900, 3 * HOUR + 2_160_000), (1000, 4 * HOUR)]
    assert world.tables.runs[run.id].intent is Intent.RUN, "a budget that is not hard only tells"


def test_a_hard_budget_stops_what_runs_refuses_what_comes_and_holds_what_waits_until_the_next_month() -> None:
    world = a_home(Budget(per_month=Micros(1_000_000), is_hard=True))
    ask(world)
    [run] = start(world)
    spent = Millis(NOW + HOUR)
    expire(world, now=spent)
    stopped = world.tables.runs[run.id]
    assert (stopped.intent, stopped.stopped_for) == (Intent.STOP, "BudgetExceeded")
    over = end(world, stopped, Millis(spent + 10), state=RunState.STOPPED, code=None)
    assert over is not None
    assert (over.state, over.reason) == (JobState.FAILED, "BudgetExceeded")
    assert "artifacts are kept" in over.message
    assert over.volume_id in world.tables.volumes
    with pytest.raises(OverLimit) as refused:
        ask(world, Millis(spent + 20))
    assert refused.value.code == "budget-spent"
    anew = next_month(spent)
    assert refused.value.retry_after_seconds * 1000 + spent + 20 >= anew
    assert ask(world, anew).tenant == ACME


def test_waiting_jobs_of_a_spent_budget_start_in_the_new_month() -> None:
    world = a_home(Budget(per_month=Micros(1_000_000), is_hard=True))
    ask(world)
    [run] = start(world)
    waiting = ask(world)
    end(world, run, Millis(NOW + HOUR))
    later = Millis(NOW + HOUR + 1)
    assert place(world, now=later) == []
    assert world.tables.queue.held(ACME)[0][0].startswith("budget-spent: 1 of 1 used")
    anew = next_month(later)
    expire(world, now=anew)
    assert [one.job for one in place(world, now=anew)] == [waiting.id]


def test_a_raised_budget_lets_its_tenant_go_on_at_once() -> None:
    world = a_home(Budget(per_month=Micros(1_000_000), is_hard=True))
    ask(world)
    [run] = start(world)
    waiting = ask(world)
    end(world, run, Millis(NOW + HOUR))
    assert place(world, now=Millis(NOW + HOUR)) == []
    world.set_tenant(Tenant(id=ACME, budget=Budget(per_month=Micros(2_000_000), is_hard=True)), now=NOW)
    assert [one.job for one in place(world, now=Millis(NOW + HOUR))] == [waiting.id]


def passed(world: World) -> list[int]:
    mark = world.tables.marks.get(ACME)
    return [one.threshold for one in mark.passed] if mark is not None else []


def test_a_changed_budget_forgets_the_thresholds_that_it_has_not_passed_and_tells_those_that_it_has() -> None:
    world = a_home(Budget(per_month=Micros(1_000_000)))
    ask(world)
    [run] = start(world)
    end(world, run, Millis(NOW + HOUR))
    assert passed(world) == [500, 750, 900, 1000]
    spent = world.tables.marks[ACME]

    def change(budget: Budget | None, later: int) -> list[Event]:
        before = world.tables.marks.get(ACME)
        change_tenant(world, Tenant(id=ACME, budget=budget), now=Millis(NOW + HOUR + later))
        after = world.tables.marks.get(ACME)
        return list(narrate_budget(before, after, revision=1)) if after is not None else []

    assert change(Budget(per_month=Micros(900_000)), 1) == []
    assert world.tables.marks[ACME] == spent, "passed before, and still"
    assert change(Budget(per_month=Micros(1_200_000)), 2) == []
    assert passed(world) == [500, 750]
    [again] = change(Budget(per_month=Micros(1_100_000)), 3)
    assert (again.kind, again.at, again.message) == (
        "BudgetThreshold",
        NOW + HOUR + 3,
        "90 % of the month's budget: 1 spent",
    )
    assert change(Budget(per_month=Micros(1_100_000), thresholds=(750, 1000)), 4) == []
    assert passed(world) == [750]
    assert change(Budget(per_month=Micros(1_000_000_000)), 5) == []
    assert passed(world) == []
    assert len(change(Budget(per_month=Micros(1_000_000)), 6)) == 4
    change(None, 7)
    assert passed(world) == []
    assert len(change(Budget(per_month=Micros(1_000_000)), 8)) == 4


def test_a_tenant_that_is_changed_in_anything_else_keeps_what_was_told_of_its_budget() -> None:
    budget = Budget(per_month=Micros(1_000_000))
    world = a_home(budget)
    ask(world)
    [run] = start(world)
    end(world, run, Millis(NOW + HOUR))
    told = world.tables.marks[ACME]
    change_tenant(world, Tenant(id=ACME, budget=budget, weight=2000), now=Millis(NOW + HOUR + 1))
    assert world.tables.marks[ACME] is told


def test_a_job_is_warned_near_its_maximum_and_stopped_at_it() -> None:
    world = a_home()
    job = ask(world, cost_max=1_000_000, retries=3)
    [run] = start(world)
    expire(world, now=Millis(NOW + HOUR * 9 // 10 - 1))
    assert not world.tables.jobs[job.id].is_cost_warned
    before = world.tables.jobs[job.id]
    expire(world, now=Millis(NOW + HOUR * 9 // 10))
    warned = world.tables.jobs[job.id]
    assert warned.is_cost_warned
    told = [(event.kind, event.at) for event in narrate(before, warned, revision=1)]
    assert told == [("CostWarning", NOW + HOUR * 9 // 10)], "the moment it was warned, not that of its start"
    assert world.tables.runs[run.id].intent is Intent.RUN
    expire(world, now=Millis(NOW + HOUR))
    stopped = world.tables.runs[run.id]
    assert (stopped.intent, stopped.stopped_for) == (Intent.STOP, "CostExceeded")
    over = end(world, stopped, Millis(NOW + HOUR), state=RunState.STOPPED, code=None)
    assert over is not None
    assert (over.state, over.reason, over.cost) == (JobState.FAILED, "CostExceeded", 1_000_000)
    assert "it may cost 1 and has cost" in over.message


@pytest.mark.parametrize("cost_max", [1, 3, 5, 11, 777, 1_000_001])
def test_a_maximum_of_any_size_stops_a_job_that_is_looked_at_only_when_that_is_due(cost_max: int) -> None:
    world = a_home()
    ask(world, cost_max=cost_max)
    [run] = start(world)
    for _ in range(10):
        due = world.next_due()
        if due is None or world.tables.runs[run.id].intent is Intent.STOP:
            break
        expire(world, now=due)
    assert world.tables.runs[run.id].stopped_for == "CostExceeded"


def test_all_attempts_of_a_job_count_towards_its_maximum() -> None:
    world = a_home()
    job = ask(world, cost_max=1_000_000, retries=3)
    [first] = start(world)
    half = Millis(NOW + HOUR // 2)
    end(world, first, half, code=1)
    assert world.tables.jobs[job.id].cost == 500_000
    again = Millis(half + 60_000)
    expire(world, now=again)
    [second] = start(world, again)
    expire(world, now=Millis(again + HOUR // 2))
    assert world.tables.runs[second.id].stopped_for == "CostExceeded"


def test_prices_are_those_of_the_pool_and_tier_at_the_placing() -> None:
    world = a_home()
    world.set_tenant(Tenant(id=ACME, tier=Tier.PREMIUM), now=NOW)
    prices = Prices(every=UNIT, pools={PoolId("local"): UNIT.times(2000)}, tiers={Tier.PREMIUM: 900})
    with world.decision(NOW):
        world.put(Table.PRICES, PRICES_KEY, prices)
    ask(world)
    [run] = start(world)
    with world.decision(NOW):
        world.put(Table.PRICES, PRICES_KEY, Prices(every=UNIT.times(5000)))
    over = end(world, run, Millis(NOW + HOUR))
    assert over is not None
    assert over.cost == 1_800_000


def test_a_setting_of_prices_is_followed_once_and_what_an_admin_sets_after_it_holds() -> None:
    world = a_home()
    set_prices(world, Prices(every=UNIT, pools={PoolId("local"): UNIT}, tiers={"free": 300}), now=NOW)
    dear = replace(UNIT, gpu_hour=9)
    follow_setting(world, "one", every=dear, tiers=None, now=NOW)
    assert world.tables.prices == Prices(every=dear, pools={PoolId("local"): UNIT}, tiers={"free": 300}, setting="one")
    set_prices(world, Prices(every=UNIT), now=NOW)
    follow_setting(world, "one", every=dear, tiers=None, now=NOW)
    assert world.tables.prices == Prices(every=UNIT, setting="one")
    follow_setting(world, "two", every=None, tiers={"free": 0}, now=NOW)
    assert world.tables.prices == Prices(every=UNIT, tiers={"free": 0}, setting="two")
