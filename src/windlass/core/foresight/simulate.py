"""The real World on virtual time: a trace's submissions, the runs' ends and the nodes' losses, from moment to moment.

No I/O and no waiting: the next moment is that of the next submission, end, loss or timer. At one moment ends come first, then nodes
that go or come back, then submissions, then timers, then the World places until nothing fits.
Who may run, who is next and where is decided by `submit`, `place` and `observe` alone, as on a server.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.errors import Fault, Invalid, WindlassError
from windlass.core.foresight.trace import NODES_MAX, SimPool, Trace, TracedJob
from windlass.core.foresight.variant import EVERYONE, Loss, Order, Variant, resources_of
from windlass.core.model.facts import RunEnded, RunStarted
from windlass.core.model.ids import JobId, Millis, NodeId, PoolId, RunId, VolumeId
from windlass.core.model.job import JobSpec
from windlass.core.model.node import Node, NodeState
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run, RunState
from windlass.core.model.submission import Submission
from windlass.core.model.tenant import Quota, QuotaPolicy, Tenant
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.policy import Policy, Queueing
from windlass.core.world.records import Table
from windlass.core.world.submit import submit
from windlass.core.world.world import World

Told = Callable[[int, int], None]
"""How many jobs are over, of how many."""

_NAMED_MAX: Final = 10
_JOURNAL_MAX: Final = 4_096
_PLACES_AT_ONCE: Final = 1_024
_TELL_EVERY: Final = 1_000
_IDLE_TIMERS_MAX: Final = 10_000
"""Timers that may pass with nothing running and nothing to come, before what still waits is said to wait for ever."""
_TRIES: Final = 100
"""A job whose node is lost is run again, however often that happens."""


class Served(Struct, frozen=True):
    """One run that was given a place, as the simulation saw it end."""

    job: int
    """Which job of the trace."""
    node: NodeId
    began: Millis
    ended: Millis
    is_lost: bool = False


class Outcome(Struct, frozen=True, kw_only=True):
    variant: Variant
    pools: tuple[SimPool, ...]
    runs: tuple[Served, ...]
    """In the order they were placed."""
    refused: tuple[tuple[str, int], ...]
    """Submissions that were not accepted, by code."""
    refused_for: tuple[tuple[str, str], ...]
    """Of each of these codes, what was said of the first."""
    refused_jobs: frozenset[int]
    events: int
    """What `windlass events` would show for the jobs: accepted, scheduled, running, over."""
    room: tuple[tuple[Millis, int], ...]
    """Millicores of all nodes that were there, from each moment on at which that changed."""


def simulate(trace: Trace, variant: Variant, *, told: Told | None = None) -> Outcome:
    return _Replay(trace, variant, told).run()


class _Replay:
    def __init__(self, trace: Trace, variant: Variant, told: Told | None) -> None:
        self._trace = trace
        self._variant = variant
        self._told = told or (lambda done, total: None)
        check_tenants(trace, variant)
        self._pools = sized(trace.pools, variant)
        queueing = Queueing.FIRST_COME if variant.order is Order.FIFO else Queueing.FAIR
        self._world = World(epoch=1, policy=Policy(queueing=queueing, is_backfilling=variant.is_backfilling))
        self._asking = _Asking(variant)
        self._next = 0
        self._ends: list[tuple[Millis, int, Run]] = []
        self._runs: list[Served] = []
        self._live: dict[RunId, int] = {}
        self._numbers: dict[JobId, int] = {}
        self._refused: Counter[str] = Counter()
        self._refused_for: dict[str, str] = {}
        self._refused_jobs: set[int] = set()
        self._over = 0
        self._events = 0
        self._outages = _Outages(variant, self._pools)
        self._resizes = deque(trace.resizes)
        self._cores = sum(pool.nodes * pool.each.cpu_millis for pool in self._pools)
        self._room = [(Millis(0), self._cores)]
        self._idle_timers = 0

    def run(self) -> Outcome:
        self._furnish()
        while (now := self._next_moment()) is not None:
            self._end_runs(now)
            self._resize_nodes(now)
            self._change_nodes(now)
            self._submit(now)
            self._pass_time(now)
            self._place(now)
        self._told(self._over, len(self._trace.jobs))
        return Outcome(
            variant=self._variant,
            pools=self._pools,
            runs=tuple(self._runs),
            refused=tuple(self._refused.most_common()),
            refused_for=tuple((code, self._refused_for[code]) for code, _ in self._refused.most_common()),
            refused_jobs=frozenset(self._refused_jobs),
            events=self._events,
            room=tuple(self._room),
        )

    def _furnish(self) -> None:
        start = Millis(0)
        for tenant in self._trace.tenants:
            limit = self._variant.limit(tenant)
            quota = Quota(resources=resources_of(limit), jobs=limit.jobs)
            weight = self._variant.weight(tenant)
            self._world.set_tenant(Tenant(id=tenant, weight=weight, policy=QuotaPolicy.QUEUE, quota=quota), now=start)
        for node in nodes_of(self._pools):
            self._world.set_node(node, now=start)

    def _next_moment(self) -> Millis | None:
        jobs, ends = self._trace.jobs, self._ends
        moments: list[Millis] = []
        if self._next < len(jobs):
            moments.append(jobs[self._next].at)
        if ends:
            moments.append(ends[0][0])
        resized_at = self._resizes[0].at if self._resizes else None
        changes = [at for at in (self._outages.next_at, resized_at) if at is not None]
        if moments or self._numbers:
            moments += changes
        due = self._world.next_due()
        if due is not None and (moments or self._may_still_wake()):
            moments.append(due)
        return min(moments) if moments else None

    def _may_still_wake(self) -> bool:
        """Nothing runs and nothing comes: only time can help those that wait, and not for ever."""
        self._idle_timers += 1
        return bool(self._numbers) and self._idle_timers < _IDLE_TIMERS_MAX

    def _end_runs(self, now: Millis) -> None:
        ends = self._ends
        while ends and ends[0][0] <= now:
            run = heappop(ends)[2]
            if run.id in self._live:
                self._end(run, now, RunState.EXITED)

    def _end(self, run: Run, now: Millis, state: RunState) -> None:
        at = self._live.pop(run.id)
        is_lost = state is RunState.LOST
        fact = RunEnded(
            run=run.id,
            token=run.token,
            state=state,
            exit_code=None if is_lost else 0,
            reason="NodeLost" if is_lost else "Completed",
            ran_ms=Millis(now - run.assigned_at),
        )
        observe(self._world, fact, now=now)
        began = self._runs[at]
        self._runs[at] = Served(began.job, began.node, began.began, now, is_lost)
        self._events += 1
        if run.job not in self._world.tables.jobs:
            del self._numbers[run.job]
            # Nobody will ask for what an imagined job left behind; a million such volumes would only fill the memory.
            self._world.tables.replace(Table.VOLUMES, VolumeId(run.job), None)
            self._over += 1
            if self._over % _TELL_EVERY == 0:
                self._told(self._over, len(self._trace.jobs))

    def _change_nodes(self, now: Millis) -> None:
        for node, state in self._outages.due(now):
            if state is not NodeState.ACTIVE:
                for key in sorted(self._world.tables.runs_on.get(node, ())):
                    self._end(self._world.tables.runs[key], now, RunState.LOST)
            self._change(node, now, state=state)

    def _resize_nodes(self, now: Millis) -> None:
        """What runs there goes on, as it does on a server."""
        while self._resizes and self._resizes[0].at <= now:
            resize = self._resizes.popleft()
            node = _node_id(resize.pool, resize.number)
            if node in self._world.tables.nodes:  # unless the variant has fewer
                self._change(node, now, capacity=resize.each, gpu_ids=_gpus(resize.each))

    def _change(self, node: NodeId, now: Millis, **changes: Any) -> None:
        before = self._world.tables.nodes[node]
        after = replace(before, **changes)
        self._world.set_node(after, now=now)
        self._cores += _there(after) - _there(before)
        self._room.append((now, self._cores))

    def _submit(self, now: Millis) -> None:
        jobs = self._trace.jobs
        while self._next < len(jobs) and jobs[self._next].at <= now:
            number = self._next
            self._next += 1
            key = JobId(f"00000000-0000-7000-8000-{number:012x}")
            job = jobs[number]
            try:
                submit(self._world, job.tenant, self._asking.submission(job), job=key, now=now)
            except WindlassError as refusal:
                self._refused[refusal.code] += 1
                self._refused_for.setdefault(refusal.code, _words(refusal))
                self._refused_jobs.add(number)
                self._over += 1
            else:
                self._numbers[key] = number
                self._events += 1

    def _pass_time(self, now: Millis) -> None:
        while (due := self._world.next_due()) is not None and due <= now:
            expire(self._world, now=now)

    def _place(self, now: Millis) -> None:
        world = self._world
        while placed := place(world, now=now, limit=_PLACES_AT_ONCE):
            self._idle_timers = 0
            for run in placed:
                self._start(run, now)
            if len(placed) < _PLACES_AT_ONCE:
                break
        if len(world.journal) > _JOURNAL_MAX:  # as the committer does when a batch is durable
            world.journal.take(len(world.journal))
            world.journal.settle()

    def _start(self, run: Run, now: Millis) -> None:
        number = self._numbers[run.job]
        observe(self._world, RunStarted(run=run.id, token=run.token), now=now)
        self._events += 2
        at = len(self._runs)
        self._live[run.id] = at
        self._runs.append(Served(number, run.node, now, now))
        heappush(self._ends, (Millis(now + self._trace.jobs[number].ran_ms), at, run))


class _Asking:
    """Turns jobs of the trace into submissions. Equal needs share a spec, so that a million jobs do not make a million of them."""

    def __init__(self, variant: Variant) -> None:
        self._specs: dict[Resources, JobSpec] = {}
        self._retries = _TRIES if variant.losses else 0
        self._tells_deadlines = variant.order is Order.DEADLINES

    def submission(self, job: TracedJob) -> Submission:
        spec = self._specs.get(job.needs)
        if spec is None:
            spec = self._specs[job.needs] = JobSpec(needs=job.needs)
        return Submission(
            spec=spec,
            priority=job.priority,
            expected_ms=job.expected_ms,
            sla_ms=job.due_ms if self._tells_deadlines else None,
            retries=self._retries,
            pools=job.pools,
            node_labels=job.labels,
            volume_ttl_ms=Millis(0),
        )


class _Outages:
    """The variant's losses, as single nodes that go and come back."""

    def __init__(self, variant: Variant, pools: tuple[SimPool, ...]) -> None:
        self._changes: list[tuple[Millis, int, NodeId, NodeState]] = []
        for number, loss in enumerate(variant.losses):
            for node in _victims(loss.pool, loss.nodes, pools):
                back = Millis(loss.at + loss.lasts) if loss.lasts is not None else None
                self._changes.append((loss.at, number, node, NodeState.INACTIVE))
                if back is not None:
                    self._changes.append((back, number, node, NodeState.ACTIVE))
        heapify(self._changes)

    @property
    def next_at(self) -> Millis | None:
        return self._changes[0][0] if self._changes else None

    def due(self, now: Millis) -> list[tuple[NodeId, NodeState]]:
        changes = []
        while self._changes and self._changes[0][0] <= now:
            _, _, node, state = heappop(self._changes)
            changes.append((node, state))
        return changes


def check_tenants(trace: Trace, variant: Variant) -> None:
    """Invalid for a tenant that has no job here: a misspelt name would change nothing, in silence."""
    if not variant.weights and not variant.limits:
        return
    tenants = trace.tenants
    known = {*tenants, EVERYONE}
    named = [
        (f"{word}.{who}", who)
        for word, given in (("weight", variant.weights), ("quota", variant.limits))
        for who, _ in given
    ]
    some = ", ".join(tenants[:_NAMED_MAX]) + (", …" if len(tenants) > _NAMED_MAX else "")
    faults = [Fault(field, f"there is no such tenant; there are {some}") for field, who in named if who not in known]
    if faults:
        raise Invalid(f"the variant {variant.name!r} does not suit this trace", code="variant", faults=faults)


def sized(pools: tuple[SimPool, ...], variant: Variant) -> tuple[SimPool, ...]:
    """The trace's pools, as large as the variant has them. Invalid for a pool that is not there."""
    known = {pool.name for pool in pools}
    named = [(f"pool.{name}", name) for name, _ in variant.pools]
    named += [(f"lose={loss.pool}:…", loss.pool) for loss in variant.losses if loss.pool is not None]
    faults = [
        Fault(word, f"there is no such pool; there are {', '.join(sorted(known))}")
        for word, name in named
        if name not in known
    ]
    sizes = dict(variant.pools)
    changed = tuple(replace(pool, nodes=sizes.get(pool.name, pool.nodes)) for pool in pools)
    faults += [fault for loss in variant.losses for fault in _too_many(loss, changed)]
    if sum(pool.nodes for pool in changed) > NODES_MAX:
        faults.append(Fault("pools", f"more than {NODES_MAX:,} nodes in all"))
    if faults:
        raise Invalid(f"the variant {variant.name!r} does not suit this trace", code="variant", faults=faults)
    return changed


def _too_many(loss: Loss, pools: tuple[SimPool, ...]) -> Iterator[Fault]:
    """Of a pool that is not there, that is said already."""
    there = [pool.nodes for pool in pools if loss.pool in (None, pool.name)]
    if there and loss.nodes > sum(there):
        where = f"{loss.pool}:" if loss.pool is not None else ""
        yield Fault(f"lose={where}{loss.nodes}@…", f"there are {sum(there)} to lose, and no more")


def nodes_of(pools: tuple[SimPool, ...]) -> list[Node]:
    return [
        Node(
            id=_node_id(pool.name, number),
            pool=pool.name,
            capacity=pool.each,
            gpu_ids=_gpus(pool.each),
            labels=pool.labels,
        )
        for pool in pools
        for number in range(1, pool.nodes + 1)
    ]


def _words(refusal: WindlassError) -> str:
    return "; ".join(fault.message for fault in refusal.faults) or refusal.message


def _gpus(each: Resources) -> tuple[str, ...]:
    return tuple(f"gpu-{gpu}" for gpu in range(each.gpus))


def _there(node: Node) -> int:
    return node.capacity.cpu_millis if node.state is NodeState.ACTIVE else 0


def _node_id(pool: PoolId, number: int) -> NodeId:
    return NodeId(f"{pool}/{number:05}")


def _victims(pool: PoolId | None, count: int, pools: tuple[SimPool, ...]) -> list[NodeId]:
    """The last nodes of the pool, or of every pool in turn."""
    wanted = [one for one in pools if pool in (None, one.name)]
    nodes = [_node_id(one.name, number) for one in wanted for number in range(1, one.nodes + 1)]
    return nodes[len(nodes) - min(count, len(nodes)) :]
