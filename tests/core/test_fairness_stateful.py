"""Any arrivals, sizes, weights, cancels, ends, refusals and restarts: the bound of the fair queue holds for every pair of tenants.

For two tenants with jobs waiting all the while and room for them: |W_i/w_i − W_j/w_j| ≤ L_i/w_i + L_j/w_j, with W the work
charged in any stretch of that while, w the weight it was charged with, and L the largest charge. It is the account's own unit, so
the comparison is exact.
"""

from itertools import combinations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from windlass.core.fairness.ledger import Work, virtual
from windlass.core.model.facts import RunEnded
from windlass.core.model.ids import Millis, RunId, TenantId
from windlass.core.model.run import Run, RunState
from windlass.core.model.tenant import Tenant
from windlass.core.world import requests
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.records import KEPT, Table, decode, encode
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

NOW = Millis(2_000_000)
TENANTS = tuple(TenantId(name) for name in ("acme", "beta", "core", "dust"))
PAIRS = list(combinations(TENANTS, 2))


class Fairness(RuleBasedStateMachine):
    """There is always room, and every run takes as long as it said: what is charged stays charged."""

    def __init__(self) -> None:
        super().__init__()
        self.world = a_world(a_node(cpu=10**9, memory=10**6 * GIB), tenants=TENANTS)
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
    )
    def submit(self, tenant: TenantId, count: int, cpu: int, expected: int, priority: int) -> None:
        asked = replace(a_submission(cpu=cpu, priority=priority), expected_ms=Millis(expected))
        for _ in range(count):
            submit(self.world, tenant, asked, job=a_job_id(), now=NOW)

    @precondition(lambda self: self.world.tables.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = self.world.tables.jobs[data.draw(st.sampled_from(sorted(self.world.tables.jobs)))]
        if job.is_waiting:
            requests.cancel(self.world, job.tenant, job.id, now=NOW)

    @rule(tenant=st.sampled_from(TENANTS), weight=st.integers(500, 10_000))
    def weigh(self, tenant: TenantId, weight: int) -> None:
        self.world.set_tenant(Tenant(id=tenant, weight=weight), now=NOW)

    @rule(count=st.integers(1, 12))
    def place(self, count: int) -> None:
        for _ in range(count):
            waiting = [tenant for tenant in TENANTS if self.world.tables.queue.waits(tenant)]
            placed = place(self.world, now=NOW, limit=1)
            assert len(placed) == bool(waiting), "there is room, so whoever waits is served"
            for run in placed:
                self._note(run)
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
        observe(self.world, fact, now=NOW)
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
        again = World(epoch=self.world.epoch + 1)
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
            lead = self.given[first] - self.given[second]
            least, most = self.leads.get(pair, (lead, lead))
            self.leads[pair] = least, most = min(least, lead), max(most, lead)
            assert most - least <= self.largest[first] + self.largest[second]

    def teardown(self) -> None:
        """No starvation: whatever was queued, whoever it belongs to, is served in the end."""
        waiting = {job.id for job in self.world.tables.jobs.values() if job.is_waiting}
        assert {run.job for run in place(self.world, now=NOW, limit=10_000)} == waiting

    def _note(self, run: Run) -> None:
        charged = virtual(Work(run.charged), run.charged_weight)
        assert 0 <= run.charged * 1000 - charged * run.charged_weight < run.charged_weight, (
            "exact but for the last unit"
        )
        self.runs[run.id] = run
        self.given[run.tenant] += charged
        self.largest[run.tenant] = max(self.largest[run.tenant], charged)

    def _order(self, world: World) -> list[str]:
        with world.trial(NOW) as trial:
            return [run.job for run in place(trial, now=NOW, limit=10_000)]


Fairness.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
test_fairness = Fairness.TestCase
