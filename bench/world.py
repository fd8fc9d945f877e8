"""The World whole: admission's gate, the fair queue, placement, the ledger, every record. `python -m bench world`.

Ten thousand nodes, ten thousand tenants, and up to a million jobs waiting. Runs end one after the other and whoever is next is
placed where the room is; both are numbered decisions, counted here. Once more with nine of ten waiting jobs asking for what nobody
has free. No store: what is measured is the deciding, in processor time.
"""

import gc
import random
import time
from itertools import islice

from bench.report import Figure, at_least
from windlass.core.model.facts import RunEnded
from windlass.core.model.ids import JobId, Millis, NodeId, PoolId, TenantId
from windlass.core.model.job import Job
from windlass.core.model.node import Node
from windlass.core.model.resources import Resources
from windlass.core.model.run import Run, RunState
from windlass.core.model.shape import Shape
from windlass.core.model.tenant import Tenant
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.records import Table
from windlass.core.world.world import World

JOBS, FEW = 1_000_000, 100_000
TENANTS = NODES = 10_000
DECISIONS_MEASURED = 60_000
TENTHS = 10
SEED = 7
DECISIONS, FLAT = 40_000, 0.8
NOW = Millis(1_000_000)
GIB = 1 << 30
SHAPES = [Shape(needs=Resources(cpu_millis=1000 << step % 2, memory_bytes=(1 + step // 2) * GIB)) for step in range(8)]
UNPLACEABLE = [Shape(needs=Resources(cpu_millis=1000 + step, memory_bytes=GIB, gpus=8)) for step in range(8)]


def main() -> list[Figure]:
    many, few = rates(JOBS), rates(FEW)
    mostly_stuck = rates(JOBS, stuck=9)
    return [
        at_least("decisions", mean(many), DECISIONS, 1.0, unit="/s", beside="the figure set"),
        at_least("a million queued", mean(many), mean(few), FLAT, unit="/s", beside="a tenth of them"),
        at_least("nine of ten unplaceable", mean(mostly_stuck), mean(many), FLAT, unit="/s", beside="none of them"),
        at_least("last tenth of the decisions", many[-1], many[0], FLAT, unit="/s", beside="the first tenth"),
    ]


def rates(jobs: int, *, stuck: int = 0) -> list[float]:
    """Decisions a second, tenth by tenth, with `stuck` of ten waiting jobs asking for what nobody has free."""
    world = a_world(jobs, stuck=stuck)
    running = fill(world)
    gc.collect()
    gc.freeze()
    measured = []
    for _ in range(TENTHS):
        number, began = world.number, time.process_time()
        while world.number - number < DECISIONS_MEASURED // TENTHS:
            assert running, "there are too few jobs that can be placed"
            for run in islice(running, 16):
                end(world, run)
            del running[:16]
            running += place(world, now=NOW)
            world.journal.take(1 << 30)
            world.journal.settle()
        measured.append((world.number - number) / (time.process_time() - began))
    gc.unfreeze()
    return measured


def a_world(jobs: int, *, stuck: int) -> World:
    world, chance = World(epoch=1), random.Random(SEED)
    tenants = [TenantId(f"tenant-{at}") for at in range(TENANTS)]
    for tenant in tenants:
        world.load(Table.TENANTS, tenant, Tenant(id=tenant, weight=chance.choice((500, 1000, 2000, 5000))))
    for at in range(NODES):
        has_gpus = at % 100 == 0
        node = Node(
            id=NodeId(f"node-{at:05}"),
            pool=PoolId("p"),
            capacity=Resources(cpu_millis=4000, memory_bytes=16 * GIB, gpus=8 * has_gpus),
            gpu_ids=tuple(f"g{gpu}" for gpu in range(8)) if has_gpus else (),
        )
        world.load(Table.NODES, node.id, node)
    for seq in range(jobs):
        at = chance.randrange(TENANTS)
        shapes = UNPLACEABLE if seq % 10 < stuck else SHAPES
        job = a_job(seq, tenants[at], shapes[(at + chance.randrange(2)) % 8], chance.randrange(1_000, 600_000))
        world.load(Table.JOBS, job.id, job)
    return world


def a_job(seq: int, tenant: TenantId, shape: Shape, expected: int) -> Job:
    return Job(
        id=JobId(f"01900000-0000-7000-8000-{seq:012x}"),
        tenant=tenant,
        name=f"job-{seq}",
        seq=seq,
        shape=shape,
        created_at=NOW,
        since=NOW,
        expected_ms=Millis(expected),
    )


def fill(world: World) -> list[Run]:
    """Every node, before anything is measured."""
    running: list[Run] = []
    while placed := place(world, now=NOW, limit=4096):
        running += placed
        world.journal.take(1 << 30)
        world.journal.settle()
    random.Random(SEED).shuffle(running)
    return [run for run in running if not run.gpu_ids]  # those with accelerators go on for ever


def end(world: World, run: Run) -> None:
    fact = RunEnded(run=run.id, token=run.token, state=RunState.EXITED, exit_code=0, ran_ms=Millis(30_000))
    observe(world, fact, now=NOW)


def mean(measured: list[float]) -> float:
    """Over equal parts: the whole count by the whole time."""
    return len(measured) / sum(1 / rate for rate in measured)


if __name__ == "__main__":
    from bench.report import show

    show("world", main())
