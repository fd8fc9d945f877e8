"""The fair queue with its ledger, alone: a million queued jobs of ten thousand tenants. `python -m bench fairness`.

Pure: no World, no store. A dequeue is what a placing does here: look who is next, take the job out, charge its tenant. The jobs
arrive shuffled over the tenants, with weights from 0.5 to 10, two of eight shapes to a tenant, and lengths of its own.
"""

import gc
import random
import time
from collections.abc import Callable

from bench.report import Figure, at_least, at_most
from windlass.core.fairness.ledger import Ledger, charge, work_of
from windlass.core.fairness.queue import WaitingQueue
from windlass.core.model.ids import JobId, Millis, TenantId
from windlass.core.model.job import Job
from windlass.core.model.resources import Resources
from windlass.core.model.shape import Shape

JOBS = 1_000_000
TENANTS = 10_000
TENTHS = 10
SEED = 7
ENQUEUES, DEQUEUES, BYTES, FLAT = 200_000, 150_000, 600, 0.8
WEIGHTS = (500, 1000, 2000, 3000, 5000, 10_000)
SHAPES = [Shape(needs=Resources(cpu_millis=250 << step % 4, memory_bytes=(1 + step // 4) << 29)) for step in range(8)]


def main() -> list[Figure]:
    waiting = a_million()
    resident = resident_bytes()
    queue, ledger = WaitingQueue(), Ledger()
    enqueues = rates(lambda tenth: [queue.add(job) for job in tenth], tenths(waiting))
    bytes_a_job = (resident_bytes() - resident) / JOBS
    weights = {tenant: WEIGHTS[at % len(WEIGHTS)] for at, tenant in enumerate(sorted({job.tenant for job in waiting}))}
    dequeues = rates(lambda tenth: [serve(queue, ledger, weights) for _ in tenth], tenths(waiting))
    assert len(queue) == 0
    return [
        at_least("enqueues", mean(enqueues), ENQUEUES, 1.0, unit="/s", beside="the figure set"),
        at_least("dequeues, charged", mean(dequeues), DEQUEUES, 1.0, unit="/s", beside="the figure set"),
        at_most("memory of queue and ledger", bytes_a_job, BYTES, 1.0, unit="bytes a job", beside="the figure set"),
        at_least("last tenth of the enqueues", enqueues[-1], enqueues[0], FLAT, unit="/s", beside="the first tenth"),
        at_least("last tenth of the dequeues", dequeues[-1], dequeues[0], FLAT, unit="/s", beside="the first tenth"),
    ]


def a_million() -> list[Job]:
    chance = random.Random(SEED)
    tenants = [TenantId(f"tenant-{at}") for at in range(TENANTS)]
    lengths = [Millis(chance.randrange(1_000, 600_000)) for _ in tenants]
    made = []
    for seq in range(JOBS):
        at = chance.randrange(TENANTS)
        job = Job(
            id=JobId(f"01900000-0000-7000-8000-{seq:012x}"),
            tenant=tenants[at],
            name="",
            seq=seq,
            shape=SHAPES[(at + chance.randrange(2)) % len(SHAPES)],
            created_at=Millis(0),
            since=Millis(0),
            priority=0 if chance.randrange(10) else 1,
            expected_ms=lengths[at],
        )
        made.append(job)
    return made


def serve(queue: WaitingQueue, ledger: Ledger, weights: dict[TenantId, int]) -> None:
    head = queue.head()
    assert head is not None
    job = head[1]
    tenant = job.tenant
    queue.discard(job)
    work = work_of(job.shape.needs, job.expected_ms or Millis(0))
    is_last = not queue.waits(tenant)
    account = ledger.account(tenant)
    others = ledger.work - account.work
    account = charge(account, ledger.now(), work, weights[tenant], others=others, is_last=is_last)
    ledger.replace(tenant, account)
    queue.tag(tenant, account.finish)


def tenths(jobs: list[Job]) -> list[list[Job]]:
    size = len(jobs) // TENTHS
    return [jobs[at : at + size] for at in range(0, size * TENTHS, size)]


def rates(act: Callable[[list[Job]], object], parts: list[list[Job]]) -> list[float]:
    """Of each part, acts a second of processor time: this is one thread of pure computing, whatever else the machine does.

    What was made before is out of the collector's way, as in a server that has started.
    """
    gc.collect()
    gc.freeze()
    measured = []
    for part in parts:
        began = time.process_time()
        act(part)
        measured.append(len(part) / (time.process_time() - began))
    return measured


def mean(rates_measured: list[float]) -> float:
    """Over equal parts: the whole count by the whole time."""
    return len(rates_measured) / sum(1 / rate for rate in rates_measured)


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096


if __name__ == "__main__":
    from bench.report import show

    show("fairness", main())
