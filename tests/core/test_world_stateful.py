"""Any interleaving of requests, facts, time, refusals and restarts: the World's promises hold after every step."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from windlass.core.errors import WindlassError
from windlass.core.model.facts import RunEnded, RunProgressed, RunStarted, VolumeGone, VolumeMade
from windlass.core.model.ids import LOCAL_TENANT, JobId, Millis, RunId, TenantId
from windlass.core.model.job import TERMINAL, Job, JobState
from windlass.core.model.resources import NOTHING
from windlass.core.model.run import Run, RunState, Token
from windlass.core.model.tenant import Tenant
from windlass.core.model.volume import VolumeState, doomed_on
from windlass.core.placement.spot import Spot
from windlass.core.world import requests
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.policy import Policy
from windlass.core.world.records import KEPT, JobOver, Record, Table, decode, encode
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

REASONS = {
    RunState.EXITED: "ExitCode",
    RunState.STOPPED: "DeadlineExceeded",
    RunState.LOST: "Vanished",
    RunState.REFUSED: "ImagePull",
}
TENANTS = (LOCAL_TENANT, TenantId("acme"), TenantId("beta"))
POLICY = Policy(is_backfilling=False)
"""The book below knows no promises: who passes whom, and where, has tests of its own."""


class Promises(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        nodes = (a_node("n1", cpu=2000, gpu_ids=("g0",)), a_node("n2", cpu=3000))
        self.world = a_world(*nodes, tenants=TENANTS, policy=POLICY)
        self.now = Millis(2_000_000)
        self.durable: dict[tuple[Table, str], bytes] = {}
        self.runs: dict[RunId, Run] = {}
        """Every run ever placed, with the token it was given."""
        self.ends: dict[JobId, Job] = {}
        self.accepted: set[JobId] = set()
        self.commit()

    # — what people do —

    @rule(
        tenant=st.sampled_from(TENANTS),
        cpu=st.sampled_from([500, 1000, 2000]),
        gpus=st.sampled_from([0, 0, 0, 1]),
        retries=st.integers(0, 2),
        run_ttl=st.sampled_from([0, 0, 5_000]),
        suspended=st.booleans(),
        name=st.sampled_from(["", "", "a", "b"]),
        priority=st.integers(-1, 1),
        expected=st.sampled_from([1, 7, 60_000]),
    )
    def submit(
        self,
        tenant: TenantId,
        cpu: int,
        gpus: int,
        retries: int,
        run_ttl: int,
        suspended: bool,
        name: str,
        priority: int,
        expected: int,
    ) -> None:
        asked = a_submission(
            name=name,
            cpu=cpu,
            gpus=gpus,
            memory=GIB,
            retries=retries,
            run_ttl_ms=run_ttl,
            suspended=suspended,
            priority=priority,
        )
        try:
            asked = replace(asked, expected_ms=expected)
            job, _ = submit(self.world, tenant, asked, job=a_job_id(), now=self.now)
        except WindlassError:
            return
        self.accepted.add(job.id)

    @precondition(lambda self: self.world.tables.jobs)
    @rule(data=st.data(), what=st.sampled_from(["cancel", "release", "delete"]))
    def ask(self, data: st.DataObject, what: str) -> None:
        job = data.draw(st.sampled_from(sorted(self.world.tables.jobs)))
        tenant = self.world.tables.jobs[job].tenant
        if what == "delete":
            requests.delete(self.world, tenant, job, with_volume=True, now=self.now)
        else:
            getattr(requests, what)(self.world, tenant, job, now=self.now)

    @rule(tenant=st.sampled_from(TENANTS), weight=st.sampled_from([500, 1000, 3000, 10_000]))
    def weigh(self, tenant: TenantId, weight: int) -> None:
        self.world.set_tenant(Tenant(id=tenant, weight=weight), now=self.now)

    # — what the loops do —

    @rule(limit=st.integers(1, 4))
    def place(self, limit: int) -> None:
        for _ in range(limit):
            self._place_one()

    def _place_one(self) -> None:
        self.world.tables.now = max(self.world.tables.now, self.now)
        expected = self._next_by_the_book()
        placed = place(self.world, now=self.now, limit=1)
        assert [run.job for run in placed] == expected, "lowest tag first, then priority, then acceptance"
        for run in placed:
            assert run.id not in self.runs, "a run id is given once"
            assert all(other.token < run.token for other in self.runs.values()), "tokens only grow"
            self.runs[run.id] = run

    @precondition(lambda self: self.runs)
    @rule(
        data=st.data(), state=st.sampled_from(list(REASONS)), code=st.sampled_from([0, 0, 1, 137]), stale=st.booleans()
    )
    def end(self, data: st.DataObject, state: RunState, code: int, stale: bool) -> None:
        run = self.runs[data.draw(st.sampled_from(sorted(self.runs)))]
        token = Token(run.token.epoch, run.token.n - 1) if stale else run.token
        reason = "Completed" if state is RunState.EXITED and code == 0 else REASONS[state]
        fact = RunEnded(run=run.id, token=token, state=state, exit_code=code, reason=reason, ran_ms=Millis(7))
        observe(self.world, fact, now=self.now)

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), started=st.booleans())
    def progress(self, data: st.DataObject, started: bool) -> None:
        run = self.runs[data.draw(st.sampled_from(sorted(self.runs)))]
        fact = (
            RunStarted(run=run.id, token=run.token)
            if started
            else RunProgressed(run=run.id, token=run.token, progress="pulling")
        )
        observe(self.world, fact, now=self.now)

    @precondition(lambda self: self.world.tables.volumes)
    @rule(data=st.data())
    def volume(self, data: st.DataObject) -> None:
        volume = self.world.tables.volumes[data.draw(st.sampled_from(sorted(self.world.tables.volumes)))]
        if volume.state is VolumeState.DROPPING:
            node = data.draw(st.sampled_from(sorted(doomed_on(volume))))
            observe(self.world, VolumeGone(volume=volume.id, node=node), now=self.now)
        elif volume.node is not None:
            observe(self.world, VolumeMade(volume=volume.id, node=volume.node), now=self.now)

    @rule(by=st.sampled_from([1, 1_000, 6_000, 4_000_000]))
    def time_passes(self, by: int) -> None:
        self.now = Millis(self.now + by)
        expire(self.world, now=self.now)

    @rule()
    def commit(self) -> None:
        for entry in self.world.journal.take(1 << 30):
            self._note_end(entry.new)
            if entry.new is None:
                self.durable.pop((entry.table, entry.key), None)
            else:
                self.durable[entry.table, entry.key] = encode(entry.new)
        self.world.journal.settle()

    @rule()
    def the_store_refuses(self) -> None:
        """Everything since the last commit is undone: the World is again what the store holds."""
        self.world.undo_uncommitted()
        self.runs = {key: run for key, run in self.runs.items() if self._is_durable(run)}
        assert self._picture(self.world) == self._picture(self._rebuilt())

    @rule()
    def restart(self) -> None:
        self.world.undo_uncommitted()
        self.runs = {key: run for key, run in self.runs.items() if self._is_durable(run)}
        number = self.world.number
        self.world = self._rebuilt()
        self.world.number, self.world.epoch = number, self.world.epoch + 1

    @rule()
    def trial(self) -> None:
        before = self._picture(self.world)
        with self.world.trial(Millis(self.now + 60_000)) as trial:
            expire(trial, now=Millis(self.now + 60_000))
            for run in place(trial, now=Millis(self.now + 60_000)):
                fact = RunEnded(run=run.id, token=run.token, state=RunState.EXITED, exit_code=0, reason="Completed")
                observe(trial, fact, now=Millis(self.now + 60_000))
            place(trial, now=Millis(self.now + 60_000))
        assert self._picture(self.world) == before

    # — what must always hold —

    @invariant()
    def nothing_is_overcommitted_and_the_books_agree(self) -> None:
        tables = self.world.tables
        held_in_all = NOTHING
        for slot in tables.places:
            live = [tables.runs[run] for run in tables.runs_on.get(slot.node.id, ()) if not tables.runs[run].is_over]
            held = sum((run.needs for run in live), NOTHING)
            assert held.fits_in(slot.node.capacity)
            assert slot.free == slot.node.capacity - held
            assert slot.runs == len(live)
            devices = [gpu for run in live for gpu in run.gpu_ids]
            assert len(devices) == len(set(devices))
            assert sorted([*devices, *slot.free_gpus]) == sorted(slot.node.gpu_ids)
            held_in_all = held_in_all + held
        assert sum((tables.usage[tenant].resources for tenant in TENANTS), NOTHING) == held_in_all
        for tenant in TENANTS:
            assert tables.usage[tenant].jobs == sum(job.tenant == tenant for job in tables.jobs.values())
            assert tables.queue.waits(tenant) == sum(
                job.tenant == tenant and job in tables.queue for job in tables.jobs.values()
            )

    @invariant()
    def every_live_job_is_where_its_state_says(self) -> None:
        tables = self.world.tables
        for job in tables.jobs.values():
            assert not job.is_over
            live = [run for run in self.world.runs_of(job.id) if not run.is_over]
            assert len(live) == (0 if job.state is JobState.PENDING else 1)
            lane = tables.queue.lane_of(job)
            is_queued = lane is not None and job in lane
            assert is_queued <= job.is_waiting
            if job.is_waiting and job.not_before <= tables.now:
                assert is_queued or tables.timers.next_at() is not None

    @invariant()
    def no_accepted_job_is_lost(self) -> None:
        durable = {JobId(key) for table, key in self.durable if table is Table.JOBS}
        assert durable <= self.accepted
        for job in durable:
            assert job not in self.ends

    @invariant()
    def virtual_time_is_the_newest_placing_seen_by_anyone(self) -> None:
        accounts = self.world.tables.ledger.accounts()
        assert self.world.tables.ledger.now() == max((account.seen for account in accounts.values()), default=0)
        assert all(account.finish >= account.seen and account.owed >= 0 for account in accounts.values())

    # — helpers —

    def _next_by_the_book(self) -> list[JobId]:
        """The queue's answer, found by looking at every job."""
        tables = self.world.tables
        fitting = [
            ((tables.ledger.account(job.tenant).finish, -job.priority, job.seq), job.id)
            for job in tables.jobs.values()
            if job in tables.queue and isinstance(tables.places.pick(job.shape), Spot)
        ]
        return [min(fitting)[1]] if fitting else []

    def _note_end(self, record: Record | None) -> None:
        if isinstance(record, JobOver):
            assert record.job.state in TERMINAL
            assert record.job.id not in self.ends, "an end is said once"
            assert record.job.finished_at is not None
            assert record.job.finished_at >= record.job.created_at
            self.ends[record.job.id] = record.job

    def _is_durable(self, run: Run) -> bool:
        return (Table.RUNS, run.id) in self.durable or (Table.OUTBOX, run.id) in self.durable

    def _rebuilt(self) -> World:
        world = World(epoch=self.world.epoch, policy=POLICY)
        world.tables.now = self.world.tables.now
        for table in KEPT:
            for (kind, key), value in self.durable.items():
                if kind is table:
                    world.load(table, key, decode(table, value))
        return world

    def _picture(self, world: World) -> object:
        """Everything that decides what happens next."""
        tables = world.tables
        queued = sorted(job.id for job in tables.jobs.values() if job in tables.queue)
        free = {slot.node.id: (slot.free, tuple(slot.free_gpus), slot.runs) for slot in tables.places}
        records = (tables.jobs, tables.runs, tables.volumes, tables.names, tables.keys, tables.nodes, tables.tenants)
        accounts = (tables.ledger.accounts(), tables.ledger.now())
        return ([dict(sorted(table.items())) for table in records], queued, free, accounts, self._order(world))

    def _order(self, world: World) -> list[JobId]:
        """Whom it would place now, one after the other, if every run ended at once."""
        order: list[JobId] = []
        with world.trial(self.now) as trial:
            while placed := place(trial, now=self.now, limit=1):
                order += [run.job for run in placed]
                for run in placed:
                    fact = RunEnded(run=run.id, token=run.token, state=RunState.EXITED, exit_code=0, ran_ms=Millis(5))
                    observe(trial, fact, now=self.now)
        return order


Promises.TestCase.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
test_promises = Promises.TestCase
