"""Any arrivals, sizes, weights, deadlines, cancels, ends, refusals and restarts: the fair queue's bound holds for every pair.

For two tenants with jobs waiting all the while and room for them: |W_i/w_i − W_j/w_j| ≤ L_i/w_i + L_j/w_j + 2 × lead, with W the
work charged in any stretch of that while, w the weight it was charged with, L the largest charge, and the lead what deadlines may
borrow (nothing while none was near in that while). It is the account's own unit, so the comparison is exact.
"""

from itertools import combinations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from windlass.core.fairness.deadlines import lead_of
from windlass.core.fairness.ledger import virtual
from windlass.core.model.facts import RunEnded
from windlass.core.model.ids import Millis, RunId, TenantId
from windlass.core.model.run import Run, RunState
from windlass.core.model.tenant import Tenant
from windlass.core.world import requests
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.policy import Policy
from windlass.core.world.records import KEPT, Table, decode, encode
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

START = Millis(2_000_000)
HOUR = Millis(3_600_000)
TENANTS = tuple(TenantId(name) for name in ("acme", "beta", "core", "dust"))
PAIRS = list(combinations(TENANTS, 2))


class Fairness(RuleBasedStateMachine):
    """There is always room, and every run takes as long as it said: what is charged stays charged."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.policy = Policy(boost_cap=100, boost_window_ms=Millis(1_000))
        self.world = a_world(a_node(cpu=10**9, memory=10**6 * GIB), tenants=TENANTS, policy=self.policy)
        self.highest_lead = 0
        self.hurried: set[TenantId] = set()
        """Tenants that have had an urgent job since they began to wait."""
        self.durable: dict[tuple[Table, str], bytes] = {}
        self.runs: dict[RunId, Run] = {}
        self.given = dict.fromkeys(TENANTS, 0)
        self.largest = dict.fromkeys(TENANTS, 0)
        self.leads: dict[tuple[TenantId, TenantId], tuple[int, int]] = {}
        """For each pair that waits: the least and the most the first was ahead since both began to."""
        self.commit()

    @rule(
        tenant=st.sampled_from(TENANTS),
        count=st.integers(1, 8),
        cpu=st.sampled_from([100, 1000, 64_000]),
        expected=st.sampled_from([1, 1_000, 60_000, 86_400_000]),
        priority=st.integers(-2, 2),
        sla=st.sampled_from([None, None, Millis(300_000), HOUR]),
    )
    def submit(self, tenant: TenantId, count: int, cpu: int, expected: int, priority: int, sla: Millis | None) -> None:
        asked = replace(a_submission(cpu=cpu, priority=priority), expected_ms=Millis(expected), sla_ms=sla)
        for _ in range(count):
            submit(self.world, tenant, asked, job=a_job_id(), now=self.now)

    @rule(minutes=st.sampled_from([1, 4, 30, 60]))
    def wait(self, minutes: int) -> None:
        """Deadlines come near."""
        self.now = Millis(self.now + minutes * 60_000)
        expire(self.world, now=self.now, limit=100_000)

    @precondition(lambda self: self.world.tables.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = self.world.tables.jobs[data.draw(st.sampled_from(sorted(self.world.tables.jobs)))]
        if job.is_waiting:
            requests.cancel(self.world, job.tenant, job.id, now=self.now)

    @rule(tenant=st.sampled_from(TENANTS), weight=st.integers(500, 10_000))
    def weigh(self, tenant: TenantId, weight: int) -> None:
        self.lead_now()
        self.world.set_tenant(Tenant(id=tenant, weight=weight), now=self.now)

    @rule(count=st.integers(1, 12))
    def place(self, count: int) -> None:
        for _ in range(count):
            waiting = [tenant for tenant in TENANTS if self.world.tables.queue.waits(tenant)]
            placed = place(self.world, now=self.now, limit=1)
            assert len(placed) == bool(waiting), "there is room, so whoever waits is served"
            for run in placed:
                self._note(run)
            self.whoever_is_urgent_is_remembered()
            self.no_pair_drifts_apart()

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        run = self.runs.pop(data.draw(st.sampled_from(sorted(self.runs))))
        before = self.world.tables.ledger.accounts()
        job = self.world.tables.jobs[run.job]
        fact = RunEnded(
            run=run.id, token=run.token, state=RunState.EXITED, exit_code=0, ran_ms=job.expected_ms or Millis(0)
        )
        observe(self.world, fact, now=self.now)
        assert self.world.tables.ledger.accounts() == before, "it used what it was charged"

    @rule()
    def commit(self) -> None:
        for entry in self.world.journal.take(1 << 30):
            if entry.new is None:
                self.durable.pop((entry.table, entry.key), None)
            else:
                self.durable[entry.table, entry.key] = encode(entry.new)
        self.world.journal.settle()

    @rule()
    def restart(self) -> None:
        self.commit()
        order = self._order(self.world)
        again = World(epoch=self.world.epoch + 1, policy=self.policy)
        again.tables.now = self.now
        for table in KEPT:
            for (kind, key), value in self.durable.items():
                if kind is table:
                    again.load(table, key, decode(table, value))
        again.number = self.world.number
        assert self._order(again) == order
        self.world = again

    @rule()
    def trial(self) -> None:
        before = (self.world.tables.ledger.accounts(), self.world.tables.ledger.now())
        order = self._order(self.world)
        assert (self.world.tables.ledger.accounts(), self.world.tables.ledger.now()) == before
        assert self._order(self.world) == order

    @invariant()
    def no_pair_drifts_apart(self) -> None:
        for pair in PAIRS:
            first, second = pair
            if not all(self.world.tables.queue.waits(tenant) for tenant in pair):
                self.leads.pop(pair, None)
                continue
            ahead = self.given[first] - self.given[second]
            least, most = self.leads.get(pair, (ahead, ahead))
            self.leads[pair] = least, most = min(least, ahead), max(most, ahead)
            borrowed = sum(self.lead_now() for tenant in pair if tenant in self.hurried)
            assert most - least <= self.largest[first] + self.largest[second] + borrowed

    @invariant()
    def whoever_is_urgent_is_remembered(self) -> None:
        self.hurried |= {self.world.tables.jobs[job].tenant for job in self.world.tables.urgent}

    def lead_now(self) -> int:
        """The largest there was: weights change, and with them what each may borrow."""
        tables = self.world.tables
        lead = lead_of(tables.places.capacity, self.policy.boost_window_ms, self.policy.boost_cap, tables.weights)
        self.highest_lead = max(self.highest_lead, lead)
        return self.highest_lead

    def teardown(self) -> None:
        """No starvation: whatever was queued, whoever it belongs to, is served in the end."""
        waiting = {job.id for job in self.world.tables.jobs.values() if job.is_waiting}
        assert {run.job for run in place(self.world, now=self.now, limit=10_000)} == waiting

    def _note(self, run: Run) -> None:
        charged = virtual(run.charged, run.charged_weight)
        assert 0 <= run.charged * 1000 - charged * run.charged_weight < run.charged_weight, (
            "exact but for the last unit"
        )
        self.runs[run.id] = run
        self.given[run.tenant] += charged
        self.largest[run.tenant] = max(self.largest[run.tenant], charged)

    def _order(self, world: World) -> list[str]:
        with world.trial(self.now) as trial:
            return [run.job for run in place(trial, now=self.now, limit=10_000)]


Fairness.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
test_fairness = Fairness.TestCase
