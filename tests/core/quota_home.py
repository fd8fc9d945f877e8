"""A World under every policy and limit, driven by chance: each step is a verb, and after it the promises on quota and money hold.

The driver keeps books of its own (what was accepted, placed, ended and charged) and compares; nothing of the code under test
counts for itself.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import date
from fractions import Fraction
from math import floor
from random import Random
from typing import Any

from msgspec.structs import replace

from windlass.core.admission.usage import Usage
from windlass.core.errors import OverLimit, WindlassError
from windlass.core.model.calendar import Day, day_of, month_of, show_day
from windlass.core.model.facts import RunEnded, RunStarted
from windlass.core.model.ids import Millis, PoolId, RunId, TenantId
from windlass.core.model.job import Job, JobState
from windlass.core.model.money import RATE_SCALE, Micros, PriceBook, Prices
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.model.run import Run, RunState
from windlass.core.model.tenant import Budget, BurstPolicy, Quota, QuotaPolicy, Tenant
from windlass.core.world.bursts import ask_burst, end_burst
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.gate import session_of
from windlass.core.world.place import place
from windlass.core.world.records import KEPT, PRICES_KEY, RunOver, Table, decode, encode
from windlass.core.world.requests import cancel
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission

TENANTS = tuple(TenantId(name) for name in ("reject", "queue", "burst", "spends"))
STEPS = (
    *("submit",) * 6, *("place",) * 4, *("start",) * 3, *("end",) * 5, "cancel", *("wait",) * 2,
    "wait_long", "requota", "ask_burst", "end_burst", "trial", "commit", "refuse", "restart",
)  # fmt: skip
_START = Millis(20_400 * 86_400_000 + 80_000_000)
_PRICES = Prices(
    every=PriceBook(core_hour=7_777_777, gigabyte_hour=333_333, gpu_hour=9_999_999),
    pools={PoolId("dear"): PriceBook(core_hour=11_111_111)},
)


class QuotaHome:
    def __init__(self) -> None:
        self.now = _START
        self.world = World(epoch=1)
        for node, pool in (("n1", "local"), ("n2", "dear"), ("n3", "local")):
            made = a_node(node, cpu=8000, memory=16 * GIB, gpu_ids=(f"{node}-g0",))
            self.world.set_node(replace(made, pool=PoolId(pool)), now=self.now)
        for tenant in TENANTS:
            self.world.set_tenant(a_tenant(tenant, Random(7)), now=self.now)
        with self.world.decision(self.now):
            self.world.put(Table.PRICES, PRICES_KEY, _PRICES)
        self.stored: dict[tuple[Table, str], bytes] = {}
        self.charged: Counter[tuple[TenantId, PoolId, Day]] = Counter()
        self.ended: set[RunId] = set()
        self.accepted = 0
        self.came: Counter[tuple[TenantId, str]] = Counter()
        """Accepted, by month; and those of them that are durable."""
        self._came_for_good: Counter[tuple[TenantId, str]] = Counter()
        self.refusals: Counter[str] = Counter()
        self.placed = 0
        self.commit(Random(0))

    def step(self, name: str, chance: Random) -> None:
        getattr(self, name)(chance)

    # — the verbs —

    def submit(self, chance: Random) -> None:
        tenant = chance.choice(TENANTS)
        asked = a_submission(
            cpu=chance.choice([100, 500, 1000, 3000]),
            memory=chance.choice([GIB // 4, GIB, 3 * GIB]),
            gpus=chance.choice([0, 0, 0, 1]),
            retries=chance.choice([0, 0, 2]),
            suspended=chance.random() < 0.1,
        )
        if chance.random() < 0.2:
            asked = replace(asked, cost_max=Micros(chance.choice([10, 100_000])))
        try:
            submit(self.world, tenant, asked, job=a_job_id(), now=self.now)
        except WindlassError as refused:
            self._note(refused)
        else:
            self.came[tenant, show_day(day_of(self.now))[:7]] += 1
            self._check_accepted(tenant)

    def place(self, chance: Random) -> None:
        for _ in range(chance.randint(1, 6)):
            for run in place(self.world, now=self.now, limit=1):
                self._check_placed(run)

    def start(self, chance: Random) -> None:
        run = self._some_run(chance)
        if run is not None:
            observe(self.world, RunStarted(run=run.id, token=run.token), now=self.now)

    def end(self, chance: Random) -> None:
        run = self._some_run(chance)
        if run is None:
            return
        state = chance.choice([RunState.EXITED, RunState.EXITED, RunState.STOPPED, RunState.LOST])
        if run.started_at is None and state is RunState.EXITED:
            self.start(chance)
        ran = Millis(self.now - run.started_at) if run.started_at is not None else Millis(0)
        fact = RunEnded(
            run=run.id, token=run.token, state=state, exit_code=chance.choice([0, 1]), ran_ms=ran, reason="ExitCode"
        )
        for _ in range(chance.choice([1, 1, 2])):  # told twice: counted once
            observe(self.world, fact, now=self.now)

    def cancel(self, chance: Random) -> None:
        jobs = list(self.world.tables.jobs.values())
        if jobs:
            job = chance.choice(jobs)
            cancel(self.world, job.tenant, job.id, now=self.now)

    def wait(self, chance: Random) -> None:
        self._pass(chance.randint(1, 600_000))

    def wait_long(self, chance: Random) -> None:
        self._pass(chance.choice([3_600_000, 7_200_000, 86_400_000, 20 * 86_400_000]))

    def requota(self, chance: Random) -> None:
        tenant = chance.choice(TENANTS)
        self.world.set_tenant(a_tenant(tenant, chance), now=self.now)

    def ask_burst(self, chance: Random) -> None:
        try:
            ask_burst(self.world, chance.choice(TENANTS), now=self.now)
        except WindlassError as refused:
            self._note(refused)

    def end_burst(self, chance: Random) -> None:
        tenant = chance.choice(TENANTS)
        if session_of(self.world, tenant, self.now) is not None:
            end_burst(self.world, tenant, now=self.now)

    def trial(self, chance: Random) -> None:
        """Whatever is tried, at whatever time, nothing of it is left."""
        before = self._standing(self.world), unrecorded(self.world)
        later = Millis(self.now + chance.choice([0, 3_600_000, 40 * 86_400_000]))
        with self.world.trial(later):
            expire(self.world, now=later)
            place(self.world, now=later, limit=50)
        assert (self._standing(self.world), unrecorded(self.world)) == before

    def commit(self, chance: Random) -> None:
        """Durable: what is charged here is charged for good."""
        for entry in self.world.journal.take(1_000_000):
            if entry.new is None:
                self.stored.pop((entry.table, entry.key), None)
            else:
                self.stored[entry.table, entry.key] = encode(entry.new)
            if isinstance(entry.new, RunOver):
                self._charge(entry.new)
        self.world.journal.settle()
        self._came_for_good = Counter(self.came)

    def refuse(self, chance: Random) -> None:
        """The store would not have it: all since the last commit is taken back, and was never charged."""
        self.world.undo_uncommitted()
        self.came = Counter(self._came_for_good)

    def restart(self, chance: Random) -> None:
        """A World rebuilt from the store equals the live one; and goes on."""
        expire(self.world, now=self.now)
        self.commit(chance)
        fresh = World(epoch=self.world.epoch + 1)
        for table in KEPT:
            for (kind, key), value in self.stored.items():
                if kind is table:
                    fresh.load(table, key, decode(table, value))
        fresh.number = self.world.number
        expire(fresh, now=self.now)
        assert self._standing(fresh) == self._standing(self.world)
        self.world = fresh

    # — the promises —

    def check_books(self) -> None:
        """Nothing is leaked: what is kept up to date record by record is what a look at all records gives."""
        for tenant in TENANTS:
            assert _told(self.world.tables.usage[tenant], self.now) == self._counted(tenant)

    def check_money(self) -> None:
        """After a commit: the totals of the store are the sums of its runs, each charged once."""
        kept: Counter[tuple[TenantId, PoolId, Day]] = Counter()
        for total in self.world.tables.totals.values():
            for pool, sums in total.pools.items():
                kept[total.tenant, pool, total.day] += sums.cost
        oldest = day_of(self.now) - 60  # older ones may be forgotten
        assert {key: cost for key, cost in self.charged.items() if key[2] >= oldest and cost} == {
            key: cost for key, cost in kept.items() if key[2] >= oldest and cost
        }

    def settle(self, chance: Random) -> None:
        """Everybody goes home: nothing is held any more."""
        for tenant in TENANTS:
            self.world.set_tenant(Tenant(id=tenant), now=self.now)
        for job in list(self.world.tables.jobs.values()):
            cancel(self.world, job.tenant, job.id, now=self.now)
        for run in [run for run in self.world.tables.runs.values() if not run.is_over]:
            ran = Millis(self.now - run.started_at) if run.started_at is not None else Millis(0)
            fact = RunEnded(run=run.id, token=run.token, state=RunState.STOPPED, ran_ms=ran)
            observe(self.world, fact, now=self.now)
        self.commit(chance)
        self.check_books()
        self.check_money()
        for tenant in TENANTS:
            usage = self.world.tables.usage[tenant]
            assert (usage.jobs, usage.queued, usage.runs, usage.resources, usage.asked) == (0, 0, 0, NOTHING, NOTHING)
            assert not usage.nodes
            assert usage.live.rate(self.now) == 0

    # — helpers —

    def _pass(self, span: int) -> None:
        self.now = Millis(self.now + span)
        expire(self.world, now=self.now)

    def _note(self, refused: WindlassError) -> None:
        self.refusals[refused.code] += 1
        if isinstance(refused, OverLimit):
            assert refused.retry_after_seconds >= 1
            assert all(one.used + one.asked >= one.limit for one in refused.limits)

    def _check_accepted(self, owner: TenantId) -> None:
        """Under `reject` a job holds quota from here on; else so many may wait."""
        self.accepted += 1
        tenant, jobs = self.world.tables.tenants[owner], self._jobs(owner)
        if tenant.policy is QuotaPolicy.REJECT:
            assert _within(_sum(job.shape.needs for job in jobs), len(jobs), self._most(tenant))
        else:
            assert sum(job.state is JobState.PENDING for job in jobs) <= tenant.quota.queued_max
        if tenant.quota.jobs_per_month is not None:
            assert self._came(owner) <= tenant.quota.jobs_per_month

    def _check_placed(self, run: Run) -> None:
        """What is held grows here only: within the limits of this moment, or not at all."""
        self.placed += 1
        tenant, runs = self.world.tables.tenants[run.tenant], self._runs(run.tenant)
        assert _within(_sum(one.needs for one in runs), len(runs), self._most(tenant) if run.burst else tenant.quota)
        if not run.burst:
            self._check_reserve(run)
        if tenant.quota.workers is not None:
            on = Counter(one.node for one in runs)
            assert len(on) <= tenant.quota.workers or on[run.node] > 1
        if tenant.quota.cost_per_day is not None:
            assert self._spent(run.tenant, day_of(self.now)) < tenant.quota.cost_per_day

    def _check_reserve(self, run: Run) -> None:
        """An ordinary start leaves free what is kept for bursts, unless it could start nowhere else."""
        runs = [one for one in self.world.tables.runs.values() if not one.is_over]
        for kind in ("cpu_millis", "memory_bytes", "gpus"):
            capacity = sum(getattr(node.capacity, kind) for node in self.world.tables.nodes.values())
            kept = capacity // 5
            beyond = sum(getattr(one.needs, kind) for one in runs if one.burst)
            held = sum(getattr(one.needs, kind) for one in runs)
            need = getattr(run.needs, kind)
            assert not need or held <= capacity - max(0, kept - beyond) or need > capacity - kept, kind

    def _most(self, tenant: Tenant) -> Quota:
        sessions = self.world.tables.bursts.get(tenant.id, {}).values()
        open_now = [one for one in sessions if not one.is_closed and one.opened_at <= self.now < one.ends_at]
        assert len(open_now) <= 1, "one at a time"
        return _times(tenant.quota, open_now[0].factor) if open_now else tenant.quota

    def _charge(self, over: RunOver) -> None:
        run = over.run
        assert run.id not in self.ended, "a run is charged once"
        self.ended.add(run.id)
        assert sum(part.span_ms for part in over.segments) == (run.ran_ms or 0) * bool(over.segments)
        for part in over.segments:
            self.charged[run.tenant, run.pool, part.day] += part.cost

    def _some_run(self, chance: Random) -> Run | None:
        live = [run for run in self.world.tables.runs.values() if not run.is_over]
        return chance.choice(live) if live else None

    def _counted(self, tenant: TenantId) -> tuple[Any, ...]:
        """By looking at all there is, one by one: as `_told`, which the World keeps up to date."""
        jobs, runs = self._jobs(tenant), self._runs(tenant)
        today = day_of(self.now)
        first = date.fromisoformat(show_day(today)).replace(day=1)
        return (
            len(jobs),
            sum(job.state is JobState.PENDING for job in jobs),
            _sum(job.shape.needs for job in jobs),
            len(runs),
            _sum(run.needs for run in runs),
            dict(Counter(run.node for run in runs)),
            self._came(tenant),
            self._spent(tenant, today),
            self._spent(tenant, Day((first - date(1970, 1, 1)).days)),
            sum(_speed(run, self.now) for run in runs if run.started_at is not None),
        )

    def _came(self, tenant: TenantId) -> int:
        """Jobs accepted this month, over or not: by the driver's own book."""
        month = show_day(day_of(self.now))[:7]
        return self.came[tenant, month]

    def _spent(self, tenant: TenantId, since: Day) -> int:
        """From the first moment of that day on: what is on the totals, and every run that goes on, until now."""
        kept = sum(
            sums.cost
            for total in self.world.tables.totals.values()
            if total.tenant == tenant and total.day >= since
            for sums in total.pools.values()
        )
        begin = since * 86_400_000
        live = sum(
            (_cost(run, begin, self.now) for run in self._runs(tenant) if run.started_at is not None), Fraction()
        )
        return kept + floor(live)

    def _jobs(self, tenant: TenantId) -> list[Job]:
        return [job for job in self.world.tables.jobs.values() if job.tenant == tenant]

    def _runs(self, tenant: TenantId) -> list[Run]:
        return [run for run in self.world.tables.runs.values() if run.tenant == tenant and not run.is_over]

    def _standing(self, world: World) -> Any:
        tables = world.tables
        return (
            {tenant: _told(tables.usage[tenant], self.now) for tenant in TENANTS},
            {job.id: job for job in tables.jobs.values()},
            {run.id: run for run in tables.runs.values()},
            dict(tables.totals),
            {tenant: dict(those) for tenant, those in tables.bursts.items()},
            dict(tables.marks),
            len(tables.queue),
        )


def unrecorded(world: World) -> Any:
    """What a World knows beside its records, and goes by: who is parked or held and why, what is offered, what is promised."""
    tables = world.tables
    promised = tables.reservation
    slot = tables.places.slot(promised.node) if promised is not None else None
    return (
        {band.key_in_queue: band.parking for band in tables.queue.parked()},
        {tenant: tables.queue.held(tenant) for tenant in tables.tenants},
        set(tables.grown),
        tables.has_other_nodes,
        tables.fleet.has_changed,
        dict(tables.held_until),
        tables.reserve.is_shut,
        set(tables.urgent.items()),
        set(tables.backing_off),
        None if promised is None else replace(promised, version=slot.version - promised.version if slot else 0),
    )


def a_tenant(tenant: TenantId, chance: Random) -> Tenant:
    policy = QuotaPolicy(tenant) if tenant != "spends" else QuotaPolicy.QUEUE
    quota = Quota(
        resources=Resources(
            cpu_millis=chance.choice([2000, 4000, 9000]), memory_bytes=chance.choice([4, 8, 20]) * GIB, gpus=1
        ),
        jobs=chance.choice([None, 2, 5]),
        workers=chance.choice([None, None, 1, 2]),
        queued_max=chance.choice([3, 20]),
        jobs_per_month=chance.choice([None, None, 50]),
        cost_per_day=Micros(chance.choice([5_000_000, 500_000_000])) if tenant == "spends" else None,
    )
    burst = BurstPolicy(
        span_ms=Millis(chance.choice([600_000, 3_600_000])),
        cooldown_ms=Millis(chance.choice([0, 300_000])),
        sessions_per_day=chance.choice([1, 3]),
    )
    budget = Budget(per_month=Micros(90_000_000), is_hard=chance.random() < 0.5) if tenant == "spends" else None
    return Tenant(id=tenant, policy=policy, quota=quota, burst=burst, budget=budget)


def _times(quota: Quota, factor: int) -> Quota:
    limit = quota.resources
    assert limit is not None
    return Quota(
        resources=Resources(
            cpu_millis=limit.cpu_millis * factor // 1000,
            memory_bytes=limit.memory_bytes * factor // 1000,
            gpus=limit.gpus * factor // 1000,
        ),
        jobs=quota.jobs * factor // 1000 if quota.jobs is not None else None,
    )


def _sum(needs: Iterable[Resources]) -> Resources:
    listed = list(needs)
    return Resources(
        sum(one.cpu_millis for one in listed), sum(one.memory_bytes for one in listed), sum(one.gpus for one in listed)
    )


def _price(run: Run) -> Fraction:
    """Micro-units a millisecond, without a surcharge."""
    needs, book = run.needs, run.prices
    an_hour = (
        Fraction(needs.cpu_millis, 1000) * book.core_hour
        + Fraction(needs.memory_bytes, 10**9) * book.gigabyte_hour
        + needs.gpus * book.gpu_hour
    )
    return an_hour / 3_600_000


def _speed(run: Run, now: Millis) -> int:
    """As the World has it: scaled up until it is whole."""
    is_dear = run.burst_until is not None and now < run.burst_until
    return int(_price(run) * (run.burst_factor if is_dear else 1000) * RATE_SCALE / 1000)


def _cost(run: Run, begin: int, now: Millis) -> Fraction:
    assert run.started_at is not None
    since = max(begin, run.started_at)
    dear = max(0, min(now, run.burst_until or 0) - since)
    return _price(run) * (max(0, now - since) + dear * Fraction(run.burst_factor - 1000, 1000))


def _within(held: Resources, jobs: int, quota: Quota) -> bool:
    assert quota.resources is not None
    return held.fits_in(quota.resources) and (quota.jobs is None or jobs <= quota.jobs)


def _told(usage: Usage, now: Millis) -> tuple[Any, ...]:
    day = day_of(now)
    return (
        usage.jobs,
        usage.queued,
        usage.asked,
        usage.runs,
        usage.resources,
        dict(usage.nodes),
        usage.accepted_in(month_of(day)),
        usage.spent_on(day, now),
        usage.spent_in(month_of(day), now),
        usage.live.rate(now),
    )
