"""The queue alone, against a list that is searched: tags up and down, urgency, parking, holding, cancels, in any order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from windlass.core.fairness.order import Order
from windlass.core.fairness.queue import WaitingQueue
from windlass.core.fairness.ranks import band_key
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
        self.levels: dict[int, int] = {}
        self.lead = 0
        self.seq = 0

    @rule(
        tenant=st.sampled_from(TENANTS),
        shape=st.sampled_from(SHAPES),
        priority=st.integers(-1, 1),
        timeout=st.sampled_from([None, None, 1_000, 100_000]),
        level=st.sampled_from([0, 0, 1, 2]),
        due=st.integers(0, 5),
    )
    def add(
        self, tenant: TenantId, shape: Shape, priority: int, timeout: Millis | None, level: int, due: Millis
    ) -> None:
        self.seq += 1
        at = Millis(0)
        job = Job(
            id=a_job_id(),
            tenant=tenant,
            name="",
            seq=self.seq,
            shape=shape,
            priority=priority,
            timeout_ms=timeout,
            due_at=due,
            created_at=at,
            since=at,
        )
        self.levels[job.seq] = level
        self.queue.add(job, level)
        self.jobs.append(job)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), level=st.integers(0, 2))
    def boost(self, data: st.DataObject, level: int) -> None:
        job = self.jobs[data.draw(st.integers(0, len(self.jobs) - 1))]
        self.levels[job.seq] = level
        self.queue.boost(job, level)
        assert self.queue.level_of(job) == level

    @rule(lead=st.integers(0, 6))
    def set_lead(self, lead: int) -> None:
        self.lead = lead
        self.queue.set_lead(lead)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        """A record is put back, as an undo does."""
        job = self.jobs[data.draw(st.integers(0, len(self.jobs) - 1))]
        self.queue.discard(job)
        self.queue.add(job, self.levels[job.seq])

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
            self.queue.park(head[0].band, (("cpu in use", 1),), scarce="cpu")

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

    def turn(self, job: Job) -> tuple[int, int, int, int]:
        level = self.levels[job.seq]
        early = (0, self.lead // 2, self.lead)[level]
        return (self.tags[job.tenant] - early, -level, (job.due_at or 0) if level else -job.priority, job.seq)

    @rule()
    def look(self) -> None:
        """Between rules the heaps stay as they are: entries are put right only by those who look."""
        parked = {band.key_in_queue for band in self.queue.parked()}
        running = [job for job in self.jobs if band_key(job) not in parked and job.tenant not in self.held]
        waiting = [job for job in self.jobs if band_key(job) in parked and job.tenant not in self.held]
        head, blocked = self.queue.head(), self.queue.blocked()
        expected = min(running, key=self.turn, default=None)
        assert (head[1] if head is not None else None) is expected
        first = min(waiting, key=self.turn, default=None)
        if first is not None and (expected is None or self.turn(first) < self.turn(expected)):
            assert blocked is not None
            assert blocked[1] is first
            assert head is None or self.queue.is_before(blocked[0], head[0])

    @invariant()
    def the_counts_agree(self) -> None:
        assert len(self.queue) == len(self.jobs)
        for tenant in TENANTS:
            assert self.queue.waits(tenant) == sum(job.tenant == tenant for job in self.jobs)


SearchedList.TestCase.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
test_the_queue_answers_like_a_list_that_is_searched = SearchedList.TestCase


class SortedNumbers(RuleBasedStateMachine):
    """The order's front is the front of a sorted list, whatever was pushed, raised and dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.order = Order()
        self.numbers: list[int] = []
        self.next = 0

    @rule(numbers=st.lists(st.integers(0, 10_000), min_size=1, max_size=400))
    def push(self, numbers: list[int]) -> None:
        for number in numbers:
            self.next += 1
            self.order.push(number << 32 | self.next)
            self.numbers.append(number << 32 | self.next)
        self.numbers.sort()

    @precondition(lambda self: self.numbers)
    @rule(count=st.integers(1, 300))
    def drop(self, count: int) -> None:
        for _ in range(min(count, len(self.numbers))):
            assert self.order.near[0] == self.numbers.pop(0)
            self.order.drop_first()

    @precondition(lambda self: self.numbers)
    @rule(by=st.integers(1, 5_000))
    def raise_first(self, by: int) -> None:
        self.numbers[0] += by << 32
        raised = self.numbers[0]
        is_first = self.order.raise_first(raised)
        self.numbers.sort()
        assert is_first == (self.numbers[0] == raised)

    @rule()
    def reset(self) -> None:
        self.order.reset(reversed(self.numbers))

    @invariant()
    def the_first_is_the_least(self) -> None:
        assert len(self.order) == len(self.numbers)
        assert self.order.near[:1] == self.numbers[:1]


SortedNumbers.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_the_order_is_that_of_a_sorted_list = SortedNumbers.TestCase
