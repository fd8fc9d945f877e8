"""The World whole: admission, the fair queue, placement, the ledger, every record. `python -m bench world`.

Ten thousand nodes that are full, ten thousand tenants, and up to a million jobs waiting, as many all the time: round by round some
runs end, whoever is next is placed where the room is and starts, and as many new jobs are accepted. A *decision* is what the World
numbers; a job's life here is four of them (accepted, placed, started, ended), made by the verbs that the server calls, each with
all it writes: records, accounts, totals, the last words for the history. The journal is taken and settled as the committer does.
No store: what is measured is the deciding, in processor time, with the collector set as the server sets it and what people ask for
made beforehand. Once more with nine of ten waiting jobs asking for what nobody has free.

Each measurement is a process of its own: with the deciding part compiled (`make up-compiled`), and, to be seen beside it, as it is
by `make up`.
"""

import gc
import os
import random
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.report import Figure, at_least, only_shown
from windlass.boot.tuning import tune
from windlass.core.model.facts import RunEnded, RunStarted
from windlass.core.model.ids import JobId, Millis, NodeId, PoolId, TenantId
from windlass.core.model.job import JobSpec
from windlass.core.model.node import Node
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run, RunState
from windlass.core.model.submission import Submission
from windlass.core.model.tenant import Tenant
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.records import Table
from windlass.core.world.submit import submit
from windlass.core.world.world import World

ROOT = Path(__file__).resolve().parents[1]
COMPILED = ROOT / "build" / "compiled"
DECISIONS, FLAT = 40_000, 0.8
DECISIONS_MEASURED = 200_000
TENTHS = 10
ROUNDS = 3
"""By turns, the best of each counts: what is counted is processor time, and whoever else is on the machine can only add to it."""
A_ROUND = 64
"""Runs that end between two looks of the loop, and jobs that come."""
ROUND_MS = 6
"""What a round takes at the figure we set ourselves: four decisions for each of them."""
SEED = 7
NOW = Millis(1_000_000)
GIB = 1 << 30
EXITED = RunState.EXITED
SPECS = [
    JobSpec(image="busybox:1", needs=Resources(cpu_millis=1000 << step % 2, memory_bytes=(1 + step // 2) * GIB))
    for step in range(8)
]
UNPLACEABLE = [
    JobSpec(image="busybox:1", needs=Resources(cpu_millis=1000 + step, memory_bytes=GIB, gpus=8)) for step in range(8)
]


class Size(Struct, frozen=True, kw_only=True):
    jobs: int = 1_000_000
    tenants: int = 10_000
    nodes: int = 10_000
    stuck: int = 0
    """Of ten waiting jobs, so many ask for what nobody has free."""


def main() -> list[Figure]:
    subprocess.run([sys.executable, ROOT / "tools" / "compile", COMPILED], check=True)
    sizes = (Size(), Size(jobs=100_000), Size(stuck=9))
    rounds = [[measured(size, COMPILED) for size in sizes] for _ in range(ROUNDS)]
    many, few, mostly_stuck = (max(turns, key=lambda one: one.mean) for turns in zip(*rounds, strict=True))
    interpreted = measured(Size(), ROOT / "src")
    return [
        at_least("decisions", many.mean, DECISIONS, 1.0, unit="/s", beside="the figure set"),
        only_shown("the same, interpreted", interpreted.mean, DECISIONS, unit="/s", beside="the figure set"),
        at_least("a million queued", many.mean, few.mean, FLAT, unit="/s", beside="a tenth of them"),
        at_least("nine of ten unplaceable", mostly_stuck.mean, many.mean, FLAT, unit="/s", beside="none of them"),
        at_least("last tenth of the decisions", many.rates[-1], many.rates[0], FLAT, unit="/s", beside="the first"),
    ]


def measured(size: Size, package: Path) -> "Measured":
    """By a process that has `package` first on its path."""
    path = os.pathsep.join((str(package), str(ROOT)))
    command = [sys.executable, "-m", "bench.world", msgspec.json.encode(size).decode()]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout, type=Measured)


class Coming(Struct, frozen=True, gc=False):
    """Somebody, about to submit something."""

    tenant: TenantId
    job: JobId
    asked: Submission


class Measured(Struct, frozen=True):
    rates: list[float]
    """Decisions a second, tenth by tenth."""
    micros: dict[str, float]
    """Processor time of a verb, by what it decides."""

    @property
    def mean(self) -> float:
        """Over equal parts: the whole count by the whole time."""
        return len(self.rates) / sum(1 / rate for rate in self.rates)


def measure(size: Size) -> Measured:
    town = Town(size)
    tune()
    rates = []
    for _ in range(TENTHS):
        town.imagine(DECISIONS_MEASURED // TENTHS // 3)  # four decisions each, and some to spare
        number, began = town.world.number, time.process_time()
        while town.world.number - number < DECISIONS_MEASURED // TENTHS:
            town.round()
        rates.append((town.world.number - number) / (time.process_time() - began))
    gc.unfreeze()
    return Measured(rates, {verb: spent / town.made[verb] / 1000 for verb, spent in town.spent.items()})


class Town:
    """A World that is full, with a queue that stays as long as it is."""

    def __init__(self, size: Size) -> None:
        self.world = World(epoch=1)
        self.now = NOW
        self.spent: Counter[str] = Counter()
        self.made: Counter[str] = Counter()
        self._size = size
        self._chance = random.Random(SEED)
        self._numbers = count()
        self._spans = cycle([Millis(self._chance.randrange(1_000, 60_000)) for _ in range(4099)])
        self._tenants = [TenantId(f"tenant-{at}") for at in range(size.tenants)]
        self._settle_down()
        self._coming: deque[Coming] = deque()
        for at in range(size.jobs):
            self._submit(self._someone(UNPLACEABLE if at % 10 < size.stuck else SPECS))
            if at % 10_000 == 0:
                self._settle()
        self._running = deque(self._fill())
        self._settle()

    def round(self) -> None:
        with self._measured("ended", A_ROUND):
            for _ in range(A_ROUND):
                self._end(self._running.popleft())
        number = self.world.number
        with self._measured("placed", 0):
            placed = place(self.world, now=self.now)
        self.made["placed"] += self.world.number - number
        with self._measured("started", len(placed)):
            for run in placed:
                observe(self.world, RunStarted(run=run.id, token=run.token), now=self.now)
        with self._measured("accepted", len(placed)):
            for _ in placed:
                self._submit(self._coming.popleft())
        self._running += placed
        self._settle()
        self.now = Millis(self.now + ROUND_MS)

    @contextmanager
    def _measured(self, verb: str, made: int) -> Iterator[None]:
        began = time.process_time_ns()
        yield
        self.spent[verb] += time.process_time_ns() - began
        self.made[verb] += made

    def _settle_down(self) -> None:
        for tenant in self._tenants:
            weight = self._chance.choice((500, 1000, 2000, 5000))
            self.world.load(Table.TENANTS, tenant, Tenant(id=tenant, weight=weight))
        for at in range(self._size.nodes):
            gpu_ids = tuple(f"g{gpu}" for gpu in range(8 * (at % 100 == 0)))
            capacity = Resources(cpu_millis=4000, memory_bytes=16 * GIB, gpus=len(gpu_ids))
            node = Node(id=NodeId(f"node-{at:05}"), pool=PoolId("p"), capacity=capacity, gpu_ids=gpu_ids)
            self.world.load(Table.NODES, node.id, node)

    def imagine(self, jobs: int) -> None:
        """What will be asked for in the rounds to come."""
        self._coming += [self._someone(SPECS) for _ in range(jobs)]

    def _someone(self, specs: list[JobSpec]) -> "Coming":
        """Each tenant has a few kinds of jobs."""
        at, chance = self._chance.randrange(self._size.tenants), self._chance
        spec, expected = specs[(at + chance.randrange(2)) % 8], Millis(chance.randrange(1_000, 600_000))
        job = JobId(f"01900000-0000-7000-8000-{next(self._numbers):012x}")
        return Coming(self._tenants[at], job, Submission(spec=spec, expected_ms=expected))

    def _submit(self, one: "Coming") -> None:
        submit(self.world, one.tenant, one.asked, job=one.job, now=self.now)

    def _fill(self) -> list[Run]:
        """Every node, before anything is measured. Those with accelerators go on for ever."""
        running: list[Run] = []
        while placed := place(self.world, now=self.now, limit=4096):
            for run in placed:
                observe(self.world, RunStarted(run=run.id, token=run.token), now=self.now)
            running += placed
            self._settle()
        self._chance.shuffle(running)
        return [run for run in running if not run.gpu_ids]

    def _end(self, run: Run) -> None:
        fact = RunEnded(run=run.id, token=run.token, state=EXITED, exit_code=0, ran_ms=next(self._spans))
        observe(self.world, fact, now=self.now)

    def _settle(self) -> None:
        self.world.journal.take(1 << 30)
        self.world.journal.settle()


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(measure(msgspec.json.decode(sys.argv[1], type=Size))))
