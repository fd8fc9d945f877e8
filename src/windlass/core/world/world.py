"""The World: facts in, numbered decisions out, `now` always an argument.

Every public verb applies its decision at once, notes its changes in the journal under one number, and returns that number;
nothing may be answered or acted on before the committer has made it durable. A verb that raises has changed nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from windlass.core.errors import Conflict, NotFound
from windlass.core.model.ids import JobId, Millis, NodeId, RunId, TenantId
from windlass.core.model.job import Job, JobState
from windlass.core.model.node import Node
from windlass.core.model.run import Run, Token
from windlass.core.model.tenant import Tenant
from windlass.core.world.entry import Entry
from windlass.core.world.journal import Journal
from windlass.core.world.policy import Policy, Queueing
from windlass.core.world.records import Record, Table
from windlass.core.world.tables import Tables


class World:
    def __init__(self, *, epoch: int, policy: Policy | None = None) -> None:
        self.epoch = epoch
        self.policy = policy or Policy()
        self.tables = Tables(
            boost_cap=self.policy.boost_cap if self.policy.queueing is Queueing.FAIR else None,
            boost_window_ms=self.policy.boost_window_ms,
            burst_reserve=self.policy.burst_reserve,
        )
        self.journal = Journal()
        self.number = 0
        """Of the newest decision."""
        self._decision = Decision(self)
        self._replacing = self.tables.replacing

    # — what the loops ask —

    def load(self, table: Table, key: str, record: Record) -> None:
        """A record as the store has it, before any decision."""
        if isinstance(record, Job):
            record = replace(record, shape=self.tables.shared(record.shape))
        self.tables.replace(table, key, record)

    def job(self, job: JobId, *, tenant: TenantId | None = None) -> Job:
        """The live job; NotFound for one that is over, unknown, or another tenant's."""
        found = self.tables.jobs.get(job)
        if found is None or (tenant is not None and found.tenant != tenant):
            raise NotFound(f"no live job {job}")
        return found

    def tenant(self, tenant: TenantId) -> Tenant:
        found = self.tables.tenants.get(tenant)
        if found is None:
            raise NotFound(f"no tenant {tenant!r}", hint="`windlass tenants list` shows them")
        return found

    def next_due(self) -> Millis | None:
        """The next timer, or when somebody who made way for a promise is to be asked again."""
        timer, promise = self.tables.timers.next_at(), self.tables.promise_due()
        if timer is None or promise is None:
            return timer if promise is None else promise
        return min(timer, promise)

    # — making and taking back changes —

    def decision(self, now: Millis) -> "Decision":
        """All changes inside share one number; an exception takes them back. Inside another, it is part of that one."""
        tables = self.tables
        if now > tables.now:
            tables.now = now
        return self._decision

    @contextmanager
    def trial(self, now: Millis) -> Iterator["World"]:
        """Decide freely on the live World, then have it all undone: how `why` and `plan` look ahead."""
        size, number, then = len(self.journal), self.number, self.tables.now
        before = self.tables.begin_trial()
        self.tables.now, self.tables.woken = max(then, now), []
        self.tables.timers.begin_trial()
        try:
            yield self
        finally:
            self.tables.now = then  # first: what is put back is put back into the present
            self.undo_to(size)
            woken = self.tables.woken or ()
            self.number, self.tables.woken = number, None
            self.tables.timers.end_trial()
            self._send_back(woken)
            self.tables.end_trial(before)

    def undo_uncommitted(self) -> None:
        """The store refused the batch: nothing after the last durable decision happened."""
        self.undo_to(0)

    def put(self, table: Table, key: str, record: Record | None) -> None:
        """Part of a decision; as `Tables.replace`, whose call is spared here: a job's life passes a dozen and a half times."""
        replacing = self._replacing.get(table)
        old = replacing(key, record) if replacing is not None else None
        self.journal.append(Entry(self.number, table, key, old, record))

    def drop(self, table: Table, key: str) -> None:
        self.put(table, key, None)

    def _send_back(self, jobs: Iterable[JobId]) -> None:
        """Whoever was let into the queue, or made urgent, by a trial's time waits for the real one again."""
        for key in jobs:
            job = self.tables.jobs.get(key)
            if job is not None and job.is_waiting:
                self.tables.dequeue(job)
                self.tables.enqueue(job)

    def undo_to(self, size: int) -> None:
        for entry in self.journal.undo_to(size):
            self.tables.replace(entry.table, entry.key, entry.old)

    # — tenants and nodes —

    def set_tenant(self, tenant: Tenant, *, now: Millis) -> int:
        with self.decision(now):
            if self.tables.tenants.get(tenant.id) != tenant:
                self.put(Table.TENANTS, tenant.id, tenant)
        return self.number

    def set_node(self, node: Node, *, now: Millis) -> int:
        """It joined or changed; since when it is in its state, the World notes itself."""
        with self.decision(now):
            known = self.tables.nodes.get(node.id)
            since = known.since if known is not None and known.state is node.state else now
            node = replace(node, since=since)
            if known != node:
                self.put(Table.NODES, node.id, node)
        return self.number

    def remove_node(self, node: NodeId, *, now: Millis) -> int:
        with self.decision(now):
            if self.tables.runs_on.get(node):
                raise Conflict(f"node {node} still has runs", code="node-busy", hint="drain it first")
            if node in self.tables.nodes:
                self.drop(Table.NODES, node)
        return self.number

    def runs_of(self, job: JobId) -> Sequence[Run]:
        return [self.tables.runs[run] for run in self.tables.runs_of.get(job, ())]

    def live_runs(self, tenant: TenantId) -> list[Run]:
        """All of a tenant's that are not over, by id: found by the nodes it is on."""
        tables = self.tables
        usage = tables.usage.get(tenant)
        nodes = usage.nodes if usage is not None else ()
        found = (tables.runs[run] for node in nodes for run in tables.runs_on.get(node, ()))
        return sorted((run for run in found if run.tenant == tenant and not run.is_over), key=lambda run: run.id)

    def live_run(self, job: JobId) -> Run | None:
        return next((run for run in self.runs_of(job) if not run.is_over), None)

    def current_run(self, run: RunId, token: Token) -> Run | None:
        """The run, if `token` is the one it was given: anything else is a stale holder's word and does not count."""
        found = self.tables.runs.get(run)
        return found if found is not None and found.token == token else None


class Decision:
    """The block in which one decision is made: `with world.decision(now):`. One a World: every verb passes through it."""

    __slots__ = ("_before", "_depth", "_size", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._depth = 0
        """Blocks that are open; the inner ones are parts of the outermost."""
        self._size = self._before = 0

    def __enter__(self) -> int:
        world = self._world
        self._depth += 1
        if self._depth == 1:
            self._size, self._before = len(world.journal.entries), world.number
            world.number += 1
        return world.number

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._depth -= 1
        if self._depth:
            return
        world = self._world
        if kind is not None:
            world.undo_to(self._size)
        if len(world.journal.entries) == self._size:
            world.number = self._before  # nothing changed, so there is nothing to wait for beyond what went before


def with_state(job: Job, state: JobState, *, now: Millis, **changes: object) -> Job:
    """The job changed, and the moment noted when its state changed."""
    since = job.since if state is job.state else now
    return replace(job, state=state, since=since, **changes)
