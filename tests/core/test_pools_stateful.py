"""Pools under any interleaving of load, time, drains, access changes and a provider that is slow, fails or doubles."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from tests.core.pool_home import GROW, START, a_growing_world, a_pool, node_of, over
from windlass.core.errors import WindlassError
from windlass.core.model.ids import LOCAL_TENANT, Millis, NodeId, PoolId, TenantId
from windlass.core.model.pool import Change, Pool, WorkerState
from windlass.core.model.resources import NOTHING
from windlass.core.world.growth import change_pool, give_up, scale, scale_by_hand
from windlass.core.world.place import place
from windlass.core.world.pools import create_pool
from windlass.core.world.records import KEPT, Table, decode, encode
from windlass.core.world.submit import submit
from windlass.core.world.workers import bury, cordon, drain, is_busy, join_node, uncordon
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_submission

ACME = TenantId("acme")
LOCAL_POOL = PoolId("local")
COOLDOWN = 30_000
Labels = tuple[tuple[str, str], ...]
SMALL: Labels = (("size", "small"),)
SCALING = {
    "workers_max": 3,
    "cooldown_up_ms": Millis(COOLDOWN),
    "cooldown_down_ms": Millis(COOLDOWN),
    "ready_within_ms": Millis(20_000),
    "idle_ms": Millis(60_000),
}


class Pools(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = a_growing_world(ACME, **SCALING)
        self.now = START
        create_pool(self.world, Pool(id=LOCAL_POOL), None, now=START)
        self.made: set[NodeId] = set()
        """Workers that the provider really has."""
        self.changes: list[Change] = []
        self.is_closed = False
        self.workers_max = SCALING["workers_max"]
        self.labels: dict[PoolId, Labels] = {}
        self.durable: dict[tuple[Table, str], bytes | None] = {}

    # — load —

    @rule(
        tenant=st.sampled_from([LOCAL_TENANT, ACME]),
        cpu=st.sampled_from([500, 1000, 2000]),
        must_grow=st.sampled_from([True, True, False]),
        wants_label=st.sampled_from([False, False, True]),
        gpus=st.sampled_from([0, 0, 0, 1, 2, 3]),
        count=st.integers(1, 3),
    )
    def submit(self, tenant: TenantId, cpu: int, must_grow: bool, wants_label: bool, gpus: int, count: int) -> None:
        for _ in range(count):
            self._submit(tenant, cpu, must_grow=must_grow and not gpus, wants_label=wants_label, gpus=gpus)
        self.place()

    def _submit(self, tenant: TenantId, cpu: int, *, must_grow: bool, wants_label: bool, gpus: int) -> None:
        """A slice has no GPUs: who asks for one goes to the machine's own node, by device."""
        asked = replace(
            a_submission(cpu=cpu, memory=GIB, gpus=gpus),
            pools=(GROW,) if must_grow else (),
            node_labels=SMALL if wants_label else (),
        )
        try:
            submit(self.world, tenant, asked, job=a_job_id(), now=self.now)
        except WindlassError as refused:
            assert refused.code == "fits-nowhere"  # noqa: PT017 — the only way it may be refused
            assert wants_label or (self.is_closed and tenant == LOCAL_TENANT)

    @rule()
    def place(self) -> None:
        for run in place(self.world, now=self.now):
            node, shape = self.world.tables.nodes[run.node], self.world.tables.jobs[run.job].shape
            assert node.takes_runs or node.id in self.world.tables.fleet.workers, "a worker's last run may end it"
            assert not shape.pools or node.pool in shape.pools
            assert set(shape.labels) <= {*node.labels, *self.labels.get(node.pool, ())}
            assert (len(run.gpu_ids), set(run.gpu_ids) <= set(node.gpu_ids)) == (shape.needs.gpus, True)
            if self.is_closed and node.pool == GROW:
                assert run.tenant == ACME

    @rule(data=st.data(), seconds=st.sampled_from([1, 10, 31, 61]))
    def a_round(self, data: st.DataObject, seconds: int) -> None:
        """What the loops do all the time, so that the other rules meet workers in every state."""
        self.place()
        self.scale()
        self.wait(seconds)
        self.provider_works(data)
        self.place()

    @precondition(lambda self: any(not run.is_over for run in self.world.tables.runs.values()))
    @rule(data=st.data())
    def end_a_run(self, data: st.DataObject) -> None:
        live = sorted(run.id for run in self.world.tables.runs.values() if not run.is_over)
        for run in data.draw(st.lists(st.sampled_from(live), unique=True, min_size=1)):
            over(self.world, run, self.now)

    @rule(data=st.data(), left=st.integers(0, 2))
    def nearly_all_is_done(self, data: st.DataObject, left: int) -> None:
        """Rounds until few runs are left and nobody waits: now workers may go, and only the idle ones."""
        for _ in range(20):
            live = sorted(run.id for run in self.world.tables.runs.values() if not run.is_over)
            for run in live[left:]:
                over(self.world, run, self.now)
            self.a_round(data, 31)

    # — time, and the autoscaler —

    @rule(seconds=st.sampled_from([1, 10, 31, 61]))
    def wait(self, seconds: int) -> None:
        self.now = Millis(self.now + seconds * 1000)

    @rule()
    def scale(self) -> None:
        give_up(self.world, GROW, now=self.now)
        busy = {worker for worker in self.world.tables.fleet.workers if is_busy(self.world, worker)}
        step = scale(self.world, GROW, now=self.now)
        if step is not None and step.verdict.by:
            assert not busy & {NodeId(name) for name in step.workers}
            self.changes.append(Change(at=self.now, by=step.verdict.by))

    @rule(workers=st.integers(0, 3))
    def scale_by_hand(self, workers: int) -> None:
        """Past cooldowns, so it is no change of the autoscaler's; but never past the maximum, nor by ending a busy one."""
        busy = {worker for worker in self.world.tables.fleet.workers if is_busy(self.world, worker)}
        step = scale_by_hand(self.world, GROW, min(workers, self.workers_max), now=self.now)
        assert step.verdict.by >= 0 or not busy & {NodeId(name) for name in step.workers}

    # — the provider —

    @rule(data=st.data())
    def provider_works(self, data: st.DataObject) -> None:
        """It makes some of what was asked for, twice if it likes, and takes some of what is ending back."""
        for worker in list(self.world.tables.fleet.workers.values()):
            match data.draw(st.sampled_from(["nothing", "act", "act twice"])):
                case "nothing":
                    continue
                case acts if worker.state is WorkerState.ASKED:
                    self.made.add(worker.id)
                    for _ in range(acts.count("act") + acts.count("twice")):
                        join_node(self.world, node_of(worker, self.world), now=self.now)
                case _ if worker.state is WorkerState.ENDING and not is_busy(self.world, worker.id):
                    self.made.discard(worker.id)
                    assert bury(self.world, worker.id, now=self.now)

    # — people —

    @rule(data=st.data(), act=st.sampled_from([cordon, uncordon, uncordon, drain]))
    def hold_back_a_node(self, data: st.DataObject, act: object) -> None:
        node = data.draw(st.sampled_from(sorted(self.world.tables.nodes)))
        try:
            act(self.world, node, now=self.now)  # type: ignore[operator]
        except WindlassError as refused:
            assert refused.code == "worker-ending"  # noqa: PT017

    @rule(is_closed=st.booleans())
    def change_access(self, is_closed: bool) -> None:
        self.is_closed = is_closed
        self._change(GROW)

    @rule(pool=st.sampled_from([LOCAL_POOL, GROW]), labels=st.sampled_from([(), SMALL, SMALL]))
    def change_labels(self, pool: PoolId, labels: Labels) -> None:
        """They are its nodes' at once; what waits for them is looked at again."""
        self.labels[pool] = labels
        self._change(pool)

    @rule(workers_max=st.integers(1, 3))
    def change_maximum(self, workers_max: int) -> None:
        """Lowered, the surplus is on its way out at once. Raised, it may not take what runs hold on the machine's own node."""
        before, self.workers_max = self.workers_max, workers_max
        try:
            self._change(GROW)
        except WindlassError as refused:
            assert (refused.code, workers_max > before) == ("pool-invalid", True)  # noqa: PT017
            self.workers_max = before

    def _change(self, pool: PoolId) -> None:
        labels, tenants = self.labels.get(pool, ()), (ACME,) if self.is_closed else ()
        if pool == GROW:
            scaling = {**SCALING, "workers_max": self.workers_max}
            change_pool(self.world, a_pool(labels=labels, tenants=tenants, **scaling), None, now=self.now)
        else:
            change_pool(self.world, Pool(id=pool, labels=labels), None, now=self.now)

    @rule()
    def restart(self) -> None:
        """The World made anew from what the journal wrote: the same pools, workers, cooldowns and rights."""
        before = self.world.tables.fleet
        for entry in self.world.journal.take(1 << 30):
            self.durable[entry.table, entry.key] = encode(entry.new) if entry.new is not None else None
        again = World(epoch=self.world.epoch + 1)
        again.number, again.tables.now = self.world.number, self.world.tables.now
        for table in KEPT:
            for (kind, key), value in self.durable.items():
                if kind is table and value is not None:
                    again.load(table, key, decode(table, value))
        fleet = again.tables.fleet
        fleet.ground = before.ground
        assert (fleet.pools, fleet.workers, fleet.growths, fleet.admitted) == (
            before.pools,
            before.workers,
            before.growths,
            before.admitted,
        )
        self.world = again

    # — what holds after every step —

    @invariant()
    def never_more_than_the_maximum(self) -> None:
        workers = self.world.tables.fleet.workers.values()
        assert len(workers) <= 3
        assert sum(worker.state is not WorkerState.ENDING for worker in workers) <= self.workers_max
        assert self.made <= set(self.world.tables.fleet.workers), "a worker that nobody knows of"

    @invariant()
    def never_overcommitted(self) -> None:
        tables = self.world.tables
        for node in tables.nodes.values():
            live = [tables.runs[run] for run in tables.runs_on.get(node.id, ()) if not tables.runs[run].is_over]
            assert sum((run.needs for run in live), NOTHING).fits_in(node.capacity)
            devices = [device for run in live for device in run.gpu_ids]
            assert len(devices) == len(set(devices)) <= node.capacity.gpus, "a device belongs to one run"
        ground = tables.fleet.ground
        assert ground is not None
        assert sum((node.capacity for node in tables.nodes.values()), NOTHING).fits_in(ground.capacity)

    @invariant()
    def no_busy_worker_is_gone(self) -> None:
        tables = self.world.tables
        assert all(run.node in tables.nodes for run in tables.runs.values() if not run.is_over)

    @invariant()
    def at_most_one_change_a_cooldown(self) -> None:
        for first, second in zip(self.changes, self.changes[1:], strict=False):
            same_way = (first.by > 0) == (second.by > 0)
            if same_way or second.by < 0:
                assert second.at - first.at >= COOLDOWN

    def teardown(self) -> None:
        """Left alone, with a provider that works, it comes to rest: drains end, nothing is left, no job waits."""
        self.change_access(False)
        for pool in (LOCAL_POOL, GROW):
            self.change_labels(pool, SMALL)
        for node in list(self.world.tables.nodes):
            if node not in self.world.tables.fleet.workers:
                uncordon(self.world, node, now=self.now)
        for _ in range(80):
            self.now = Millis(self.now + 10_000)
            self._provide()
            for run in [run for run in self.world.tables.runs.values() if not run.is_over]:
                over(self.world, run, self.now)
            place(self.world, now=self.now)
            give_up(self.world, GROW, now=self.now)
            scale(self.world, GROW, now=self.now)
        assert not self.world.tables.jobs
        assert not self.world.tables.fleet.workers
        assert set(self.world.tables.nodes) == {NodeId("n1")}

    def _provide(self) -> None:
        for worker in list(self.world.tables.fleet.workers.values()):
            if worker.state is WorkerState.ASKED:
                join_node(self.world, node_of(worker, self.world), now=self.now)
            elif worker.state is WorkerState.ENDING and not is_busy(self.world, worker.id):
                bury(self.world, worker.id, now=self.now)
            elif worker.id in self.world.tables.nodes and worker.state is WorkerState.READY:
                uncordon(self.world, worker.id, now=self.now)


TestPools = Pools.TestCase
TestPools.settings = settings(
    max_examples=200, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
