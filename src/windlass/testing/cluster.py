"""One simulated installation: a server, nodes with agents, a store and the lines between them, all of it the product's own code.

Whatever may be killed is a `Process`; whatever survives a kill (store, read tables, machines, disks) is held here.
"""

import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import anyio
from msgspec import json

from windlass.adapters.readmodel.sqlite import SqliteReadTables
from windlass.agent.agent import Agent
from windlass.control.assemble import assemble
from windlass.control.janitor import Retention
from windlass.control.plane import ControlPlane
from windlass.control.readmodel import in_place
from windlass.core.errors import Unavailable
from windlass.core.model.ids import Millis, NodeId, RunId, VolumeId
from windlass.core.model.money import Prices
from windlass.core.model.node import Node
from windlass.core.model.tenant import Tenant
from windlass.core.world.policy import Policy
from windlass.core.world.records import PRICES_KEY, Table, parse_key
from windlass.ports.runtime import Machine
from windlass.ports.store import Deposed, Item
from windlass.testing.blobs import MemoryBlobs
from windlass.testing.ids import SeededIds
from windlass.testing.logs import Disk, MemoryJournal, MemoryLogs
from windlass.testing.network import CALM, FaultyLink, Network
from windlass.testing.plane import NoFetcher
from windlass.testing.runtime import FakeMachine, FakeRuntime
from windlass.testing.runtime.machine import Container
from windlass.testing.secrets import MemoryGuard, MemorySealer
from windlass.testing.store import CALM as CALM_COMMIT
from windlass.testing.store import Fate, FaultyStore, MemoryStore, Mishap, seeded_plan
from windlass.testing.virtual import Process, VirtualClock, VirtualLoop

_ALIVE = {Table.JOBS, Table.RUNS, Table.VOLUMES, Table.NAMES, Table.OUTBOX, Table.NODES}
_SHOWN = frozenset({*_ALIVE, Table.TENANTS, Table.TOTALS, Table.BURSTS})


class History:
    """What clients did, what machines did, what the store took: one line each, in order, at virtual milliseconds."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.lines: list[dict[str, Any]] = []

    def note(self, kind: str, **fields: Any) -> None:
        self.lines.append({"at": self._clock.now(), "kind": kind, **fields})

    def jsonl(self) -> bytes:
        return b"".join(json.encode(line) + b"\n" for line in self.lines)


class WitnessedStore(MemoryStore):
    """The truth: every commit is a line of the history at the moment it is durable."""

    def __init__(self, history: History, loop: VirtualLoop) -> None:
        super().__init__(monotonic=loop.time)
        self._history = history

    def items_below(self, prefix: str) -> list[Item]:
        return [self._items[key] for key in self._keys if key.startswith(prefix)]

    def _apply(self, writes: Any, size: int) -> None:
        before = self._hub.revision
        super()._apply(writes, size)
        if self._hub.revision == before:
            return
        for change in self._log[-1].changes:
            parsed = parse_key(change.key)
            if parsed is not None and parsed[0] in _SHOWN:
                value = json.decode(change.value) if change.value is not None else None
                self._history.note("store", revision=change.revision, table=parsed[0], key=parsed[1], value=value)


class WitnessedMachine(FakeMachine):
    """A machine whose containers and volumes leave lines in the history."""

    def __init__(self, node: NodeId, history: History, clock: VirtualClock, **options: Any) -> None:
        super().__init__(clock, **options)
        self._node = node
        self._history = history
        self._ended: set[RunId] = set()
        self.outputs: dict[RunId, list[bytes]] = {}
        """What each container wrote, whole lines, known when it ended."""
        self.containers = _Noticed(self._container_made, self._container_gone)
        self.volumes = _Noticed(self._volume_made, self._volume_gone)

    async def changed(self, event: anyio.Event, until: Millis | None) -> None:
        """On virtual time a deadline will do; it is much cheaper than a task per wait."""
        left_ms = math.inf if until is None else max(0, until - self.clock.now())
        with anyio.move_on_after(left_ms / 1000):
            await event.wait()

    def settle(self) -> None:
        super().settle()
        for run, container in self.containers.items():
            self._notice_end(run, container)

    def start(self, container: Container, steps: tuple[str, ...], environ: Mapping[str, str]) -> None:
        self._say("started", container.assignment.run)
        super().start(container, steps, environ)

    def remove_by_hand(self, run: RunId) -> None:
        container = self.containers[run]
        if container.program is not None:
            container.program.kill(self.clock.now())
        self.settle()
        self._history.note("fault", what="container removed by hand", node=self._node, run=run)
        del self.containers[run]
        self.change()

    def forget_faults(self) -> None:
        self._faults.clear()

    def _notice_end(self, run: RunId, container: Container) -> None:
        if container.program is None or container.program.end is None or run in self._ended:
            return
        self._ended.add(run)
        end = container.program.end
        self.outputs[run] = [line.text for line in self.lines(container)]
        self._say("ended", run, ended_at=end.at, code=end.code)

    def _container_made(self, run: RunId, container: Container) -> None:
        self._say("created", run)

    def _container_gone(self, run: RunId, container: Container) -> None:
        self._notice_end(run, container)
        self._say("removed", run)

    def _volume_made(self, volume: VolumeId, folder: object) -> None:
        self._history.note("machine", node=self._node, what="volume made", volume=volume)

    def _volume_gone(self, volume: VolumeId, folder: object) -> None:
        self._history.note("machine", node=self._node, what="volume gone", volume=volume)

    def _say(self, what: str, run: RunId, **more: Any) -> None:
        self._history.note("machine", node=self._node, what=what, run=run, **more)


class _Noticed(dict[Any, Any]):
    """A dictionary that tells who comes and goes."""

    def __init__(self, came: Callable[[Any, Any], None], went: Callable[[Any, Any], None]) -> None:
        super().__init__()
        self._came = came
        self._went = went

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self._came(key, value)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def __delitem__(self, key: Any) -> None:
        self._went(key, self[key])
        super().__delitem__(key)


class KillingFailpoints:
    """Chance kills the process at a failpoint: the windows that a random moment rarely meets."""

    def __init__(self, chance: Random, history: History) -> None:
        self.probability = 0.0
        self._chance = chance
        self._history = history

    def of(self, process: Process) -> "OneProcess":
        return OneProcess(self, process)

    def strikes(self, process: Process, name: str) -> bool:
        if self.probability <= 0 or self._chance.random() >= self.probability:
            return False
        self._history.note("fault", what="killed at failpoint", process=process.name, name=name)
        return True


class OneProcess:
    """`ports.failpoints.Failpoints` of one process."""

    def __init__(self, all_of_them: KillingFailpoints, process: Process) -> None:
        self._all = all_of_them
        self._process = process

    async def reach(self, name: str) -> None:
        if self._all.strikes(self._process, name):
            self._process.kill()
            await anyio.Event().wait()  # never resumed


class ServerHost:
    """Where the control plane lives and dies. What it needs from outside its memory is the cluster's."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._count = 0
        self.process: Process | None = None
        self.plane: ControlPlane | None = None
        self.restart_after_seconds: float | None = None
        """For the next death; None: soon."""

    def start(self) -> None:
        self._count += 1
        cluster = self._cluster
        process = Process(cluster.loop, f"server-{self._count}", on_failure=self._failed)
        self.process = process
        cluster.history.note("process", what="started", name=process.name)
        process.when_dead(lambda: self._died(process))
        process.spawn(lambda: self._live(process))

    async def _live(self, process: Process) -> None:
        cluster = self._cluster
        plane = await assemble(
            store=cluster.store,
            tables=cluster.tables,
            blobs=cluster.blobs,
            logs=cluster.logs,
            fetcher=NoFetcher(),
            runtime=next(iter(cluster.agents.values())).runtime,
            machine=Machine(runtime="fake", kind="container", capacity=cluster.nodes[0].capacity),
            clock=cluster.clock,
            ids=cluster.ids,
            sealer=cluster.sealer,
            guard=MemoryGuard(),
            failpoints=cluster.failpoints.of(process),
            offload=in_place,
            policy=cluster.policy,
            retention=cluster.retention,
        )
        world, now = plane.brain.world, cluster.clock.now()
        for tenant in cluster.tenants:
            world.set_tenant(tenant, now=now)
        if world.tables.prices != cluster.prices:
            with world.decision(now):
                world.put(Table.PRICES, PRICES_KEY, cluster.prices)
        plane.brain.committer.nudge()
        self.plane = plane
        await plane.run()

    def _failed(self, error: BaseException) -> None:
        """A server that lost its store or its leadership ends, and its supervisor starts it again. All else is our fault."""
        process = self.process
        for one in _leaves(error):
            if not isinstance(one, Deposed | Unavailable):
                self._cluster.blame("server", one)
        self._cluster.history.note("process", what="failed", error=repr(error)[:200])
        if process is not None:
            process.kill()

    def _died(self, process: Process) -> None:
        cluster = self._cluster
        self.process = self.plane = None
        cluster.history.note("process", what="died", name=process.name)
        pause = self.restart_after_seconds
        self.restart_after_seconds = None
        cluster.after(pause if pause is not None else cluster.chance.uniform(0.05, 5.0), self.start)


class AgentHost:
    def __init__(self, cluster: "Cluster", node: Node, machine: WitnessedMachine) -> None:
        self._cluster = cluster
        self._count = 0
        self.node = node
        self.machine = machine
        self.runtime = FakeRuntime(machine, installation="simulation", node=node.id)
        self.disk = Disk(cluster.disk_sync)
        self.logs = cluster.logs
        self.process: Process | None = None
        self.agent: Agent | None = None
        self.journal: MemoryJournal | None = None
        self.restart_after_seconds: float | None = None

    def start(self) -> None:
        self._count += 1
        cluster = self._cluster
        process = Process(cluster.loop, f"agent-{self.node.id}-{self._count}", on_failure=self._failed)
        self.process = process
        self.runtime = FakeRuntime(self.machine, installation="simulation", node=self.node.id)
        self.journal = MemoryJournal(self.disk)
        cluster.history.note("process", what="started", name=process.name)
        process.when_dead(lambda: self._died(process))
        self.agent = Agent(
            self.node,
            link=FaultyLink(cluster.network, cluster.server, self.node.id, process),
            runtime=self.runtime,
            blobs=cluster.blobs,
            logs=self.logs,
            journal=self.journal,
            clock=cluster.clock,
            failpoints=cluster.failpoints.of(process),
            starts_max=4,
        )
        process.spawn(self.agent.run)

    def _failed(self, error: BaseException) -> None:
        for one in _leaves(error):
            self._cluster.blame(f"agent {self.node.id}", one)
        if self.process is not None:
            self.process.kill()

    def _died(self, process: Process) -> None:
        self.process = self.agent = None
        self._cluster.history.note("process", what="died", name=process.name)
        pause = self.restart_after_seconds
        self.restart_after_seconds = None
        self._cluster.after(pause if pause is not None else self._cluster.chance.uniform(0.05, 5.0), self.start)


class Cluster:
    def __init__(
        self,
        loop: VirtualLoop,
        seed: int,
        *,
        nodes: tuple[Node, ...],
        tenants: tuple[Tenant, ...],
        policy: Policy,
        retention: Retention,
        prices: Prices = Prices(),  # noqa: B008 — frozen
        machine_options: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self.loop = loop
        self.seed = seed
        self.chance = self.chance_of("cluster")
        self.clock = VirtualClock(loop)
        self.history = History(self.clock)
        self.outside = Process(loop, "outside", on_failure=lambda error: self.blame("outside", error))
        self.nodes = nodes
        self.tenants = tenants
        self.policy = policy
        self.retention = retention
        self.prices = prices
        self.truth = WitnessedStore(self.history, loop)
        self._store_weather = _Plan()
        self.store = FaultyStore(self.truth, self._store_weather, sleep=anyio.sleep)
        self.tables = SqliteReadTables(":memory:")
        self.blobs = MemoryBlobs()
        self.logs = MemoryLogs()
        self.sealer = MemorySealer()
        self.ids = SeededIds(self.chance_of("ids"), self.clock)
        self.failpoints = KillingFailpoints(self.chance_of("failpoints"), self.history)
        self.faults: list[str] = []
        """What only a fault of the product explains: an exception nobody should see."""
        self.server = ServerHost(self)
        self.network = Network(self.chance_of("network"), self.outside, self.server)
        machines = {node.id: WitnessedMachine(node.id, self.history, self.clock, **machine_options()) for node in nodes}
        self.agents = {node.id: AgentHost(self, node, machines[node.id]) for node in nodes}

    def chance_of(self, what: str) -> Random:
        """Each part has its own stream, so that one more draw here does not change everything there."""
        return Random(f"{self.seed}/{what}")  # noqa: S311 - repeatable, not secret

    def start(self) -> None:
        self.server.start()
        for agent in self.agents.values():
            agent.start()

    def trouble_the_store(self, mishaps: Mapping[Mishap, float], *, delayed: float, delay_seconds_max: float) -> None:
        self._store_weather.fates = seeded_plan(
            self.chance.getrandbits(32), mishaps, delayed=delayed, delay_seconds_max=delay_seconds_max
        )

    def heal(self) -> None:
        """From here on nothing goes wrong any more; what is down comes back by itself."""
        self._store_weather.fates = iter(())
        self.network.weather = CALM
        self.network.cut.clear()
        self.failpoints.probability = 0.0
        for agent in self.agents.values():
            agent.machine.is_down = False
            agent.machine.forget_faults()
        self.history.note("heal")

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        async def wait() -> None:
            await anyio.sleep(seconds)
            act()

        self.outside.spawn(wait)

    async def disk_sync(self) -> None:
        await anyio.sleep(self.chance.choice((0.0, 0.002, 0.02)))

    def blame(self, who: str, error: BaseException) -> None:
        trace = "".join(traceback.format_exception(error))
        self.faults.append(f"{who}: {error!r}\n{trace}")
        self.history.note("blame", who=who, error=repr(error))


class _Plan:
    """Fates for the store's commits that can be changed on the way."""

    def __init__(self) -> None:
        self.fates: Iterator[Fate] = iter(())

    def __iter__(self) -> Iterator[Fate]:
        return self

    def __next__(self) -> Fate:
        return next(self.fates, CALM_COMMIT)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]
