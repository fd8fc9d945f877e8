"""Foresight in processor time: job events a minute of a simulation, and `why` and `plan` with ten thousand jobs queued.

`python -m bench simulate`. One thread of pure computing, so processor time is what it costs; a busy machine makes that dearer
too. A job's events are those that `windlass events` would show: accepted, scheduled, running, over.
"""

import gc
import random
import time
from collections.abc import Callable

from msgspec.structs import replace

from bench.report import Figure, at_least, at_most
from windlass.core.foresight.generate import Making, generate
from windlass.core.foresight.plan import plan
from windlass.core.foresight.simulate import simulate
from windlass.core.foresight.variant import parse_variant
from windlass.core.foresight.why import why
from windlass.core.model.facts import RunStarted
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.submission import Submission
from windlass.core.model.tenant import Quota
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_node, a_submission, a_world

EVENTS_A_MINUTE = 1_000_000
JOBS = 30_000
QUEUED = 10_000
ASKED = 200
LOOK_MS = 50
NOW = Millis(1_000_000_000_000)
TENANTS = tuple(TenantId(f"t{at}") for at in range(100))
UNLIMITED = Quota()
LIMITED = Quota(jobs=10, workers=3)
"""Every tenant comes to the end of it, most of them of the nodes they may be on, with room on others."""


def main() -> list[Figure]:
    world, chance = a_full_world(), random.Random(3)
    whys, limited = what_why_costs(world), what_why_costs(a_full_world(LIMITED))
    plans = [
        cost(lambda: plan(world, chance.choice(TENANTS), [wish(chance)], ids=[a_job_id()], now=NOW))
        for _ in range(ASKED)
    ]
    beside = "the figure set"
    return [
        at_least("simulated job events", events_a_minute(), EVENTS_A_MINUTE, 1.0, unit="a minute", beside=beside),
        at_most("why, 99th of a hundred", at_99(whys), LOOK_MS, 1.0, unit="ms", beside=beside),
        at_most("why, every tenant at its quota", at_99(limited), LOOK_MS, 1.0, unit="ms", beside=beside),
        at_most("plan, 99th of a hundred", at_99(plans), LOOK_MS, 1.0, unit="ms", beside=beside),
    ]


def events_a_minute() -> float:
    trace = generate(Making(jobs=JOBS, tenants=100, nodes=16))
    gc.collect()
    gc.freeze()
    began = time.process_time()
    outcome = simulate(trace, parse_variant("wfq"))
    return outcome.events / (time.process_time() - began) * 60


def what_why_costs(world: World) -> list[float]:
    chance = random.Random(3)
    waiting = [job for job in world.tables.jobs.values() if job.is_waiting]
    return [cost(lambda: why(world, chance.choice(waiting), now=NOW)) for _ in range(ASKED)]


def a_full_world(quota: Quota = UNLIMITED) -> World:
    """A hundred nodes that are full, or tenants that may have no more of them, and ten thousand jobs that wait."""
    chance = random.Random(2)
    world = a_world(*(a_node(f"n{at}", cpu=32_000, memory=128 * GIB) for at in range(100)), tenants=TENANTS)
    for tenant in TENANTS:
        world.set_tenant(replace(world.tenant(tenant), quota=quota), now=NOW)
    while len(world.tables.queue) < QUEUED:
        for _ in range(QUEUED // 10):
            submit(world, chance.choice(TENANTS), wish(chance), job=a_job_id(), now=NOW)
        for run in place(world, now=NOW, limit=QUEUED):
            observe(world, RunStarted(run=run.id, token=run.token), now=NOW)
        world.journal.take(len(world.journal))
        world.journal.settle()
    return world


def wish(chance: random.Random) -> Submission:
    asked = a_submission(cpu=chance.choice((1000, 2000, 4000)), memory=GIB)
    return replace(asked, expected_ms=Millis(chance.randrange(10, 3600) * 1000))


def cost(act: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.process_time()
    act()
    return (time.process_time() - began) * 1000


def at_99(measured: list[float]) -> float:
    return sorted(measured)[len(measured) * 99 // 100 - 1]


if __name__ == "__main__":
    from bench.report import show

    show("simulate", main())
