"""The queue alone, against a list that is searched: tags up and down, parking, cancels, in any order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from windlass.core.fairness.queue import WaitingQueue
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.job import Job
from windlass.core.model.resources import Resources
from windlass.core.model.shape import Shape
from windlass.testing.builders import a_job_id

TENANTS = tuple(TenantId(name) for name in ("acme", "beta", "core"))
SHAPES = tuple(Shape(needs=Resources(cpu_millis=cpu)) for cpu in (100, 200, 300))


class SearchedList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = WaitingQueue()
        self.jobs: list[Job] = []
        self.tags = dict.fromkeys(TENANTS, 0)
        self.held: set[TenantId] = set()
        self.seq = 0

    @rule(tenant=st.sampled_from(TENANTS), shape=st.sampled_from(SHAPES), priority=st.integers(-1, 1))
    def add(self, tenant: TenantId, shape: Shape, priority: int) -> None:
        self.seq += 1
        at = Millis(0)
        job = Job(
            id=a_job_id(), tenant=tenant, name="", seq=self.seq, shape=shape, priority=priority, created_at=at, since=at
        )
        self.queue.add(job)
        self.jobs.append(job)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        job = self.jobs.pop(data.draw(st.integers(0, len(self.jobs) - 1)))
        assert job in self.queue
        self.queue.discard(job)
        assert job not in self.queue

    @rule(tenant=st.sampled_from(TENANTS), finish=st.integers(0, 8))
    def tag(self, tenant: TenantId, finish: int) -> None:
        self.tags[tenant] = finish
        self.queue.tag(tenant, finish)

    @rule(finish=st.integers(0, 8))
    def serve(self, finish: int) -> None:
        head = self.queue.head()
        if head is not None:
            self.jobs.remove(head[1])
            self.queue.discard(head[1])
            self.tag(head[1].tenant, finish)

    @rule()
    def park(self) -> None:
        head = self.queue.head()
        if head is not None:
            self.queue.park(head[0].band, (("cpu in use", 1),))

    @rule(every=st.booleans())
    def unpark(self, every: bool) -> None:
        for band in sorted(self.queue.parked(), key=lambda band: band.shape.needs.cpu_millis)[: None if every else 1]:
            self.queue.unpark(band)

    @rule(tenant=st.sampled_from(TENANTS))
    def hold(self, tenant: TenantId) -> None:
        self.held.add(tenant)
        self.queue.hold(tenant, (("quota in use", 1),))

    @rule(tenant=st.sampled_from(TENANTS))
    def let_go(self, tenant: TenantId) -> None:
        self.held.discard(tenant)
        self.queue.let_go(tenant)

    @rule()
    def look(self) -> None:
        """Between rules the heaps stay as they are: entries are put right only by those who look."""
        parked = {band.shape for band in self.queue.parked()}
        running = [job for job in self.jobs if job.shape not in parked and job.tenant not in self.held]
        head = self.queue.head()
        expected = min(running, key=lambda job: (self.tags[job.tenant], -job.priority, job.seq), default=None)
        assert (head[1] if head is not None else None) == expected

    @invariant()
    def the_counts_agree(self) -> None:
        assert len(self.queue) == len(self.jobs)
        for tenant in TENANTS:
            assert self.queue.waits(tenant) == sum(job.tenant == tenant for job in self.jobs)


SearchedList.TestCase.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
test_the_queue_answers_like_a_list_that_is_searched = SearchedList.TestCase
