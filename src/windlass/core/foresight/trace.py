"""A trace: what was asked of a cluster and how long it took. Read from a file or made up; the input of `simulate`."""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.errors import Fault, Invalid
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.resources import Resources

JOBS_MAX: Final = 5_000_000
NODES_MAX: Final = 100_000
_FAULTS_MAX: Final = 10
_POOL: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]{0,62})=(\d{1,6})x(\d{1,8})(?::(\d{1,9})(Mi|Gi|Ti)(?::(\d{1,3}))?)?", re.ASCII
)
BYTES: Final = {"Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


Labels = tuple[tuple[str, str], ...]


class TracedJob(Struct, frozen=True):
    at: Millis
    """When it was submitted, from the trace's own beginning."""
    tenant: TenantId
    needs: Resources
    ran_ms: Millis
    expected_ms: Millis | None = None
    """What its owner announced; None where nothing was."""
    priority: int = 0
    pools: tuple[PoolId, ...] = ()
    """The pools it may use; empty: any."""
    due_ms: Millis | None = None
    """It should have started this long after it came; None: whenever."""
    name: str = ""
    """As it was called where the trace was recorded."""
    labels: Labels = ()
    """That a node must have."""


class SimPool(Struct, frozen=True, kw_only=True):
    """Equal nodes."""

    name: PoolId
    nodes: int
    each: Resources
    labels: Labels = ()


class Resize(Struct, frozen=True, kw_only=True):
    """From a moment on, one node of a pool has another size."""

    at: Millis
    pool: PoolId
    number: int
    """Which node of it, from 1 on."""
    each: Resources


class Trace(Struct, frozen=True, kw_only=True):
    jobs: tuple[TracedJob, ...]
    """By moment; at the same moment, in the order of the file."""
    pools: tuple[SimPool, ...]
    """The cluster it was recorded on or made for, as it was when the first job came."""
    resizes: tuple[Resize, ...] = ()
    """What became of its nodes after that, by moment."""
    left_out: int = 0
    """Entries that say nothing that could be run again: no run time, no processors."""
    passed_over: int = 0
    """Jobs that run wherever there is room here, though they asked for labels: nothing says which nodes have them."""

    @property
    def tenants(self) -> tuple[TenantId, ...]:
        return tuple(sorted({job.tenant for job in self.jobs}))


def in_order(jobs: Iterable[TracedJob]) -> tuple[TracedJob, ...]:
    """Sorted, and moved so that the first one comes at 0."""
    ordered = sorted(jobs, key=lambda job: job.at)
    first = ordered[0].at if ordered else 0
    if not first:
        return tuple(ordered)
    return tuple(_moved(job, first) for job in ordered)


def with_known_labels(trace: Trace) -> Trace:
    """Labels that no node a job may use is known to have are not asked for: it would be refused for what was not written down."""
    asked = {(job.labels, job.pools) for job in trace.jobs if job.labels}
    unknown = {one for one in asked if not any(_has(pool, *one) for pool in trace.pools)}
    if not unknown:
        return trace
    jobs = tuple(
        replace(job, labels=()) if job.labels and (job.labels, job.pools) in unknown else job for job in trace.jobs
    )
    dropped = sum(was.labels != job.labels for was, job in zip(trace.jobs, jobs, strict=True))
    return replace(trace, jobs=jobs, passed_over=trace.passed_over + dropped)


def parse_pool(text: str) -> SimPool:
    """`NAME=NODESxCORES[:MEMORY[:GPUS]]`; without a memory it has enough of it for anything."""
    matched = _POOL.fullmatch(text)
    if matched is None:
        raise Invalid(
            f"{text!r} is not a pool",
            code="variant",
            faults=[
                Fault("--pool", "expected NAME=NODESxCORES[:MEMORY[:GPUS]], as in batch=16x32 or gpu=4x32:128Gi:8")
            ],
        )
    name, nodes, cores, memory, unit, gpus = matched.groups()
    each = Resources(
        cpu_millis=int(cores) * 1000,
        memory_bytes=int(memory) * BYTES[unit] if memory else 1 << 60,
        gpus=int(gpus or 0),
    )
    return SimPool(name=PoolId(name), nodes=int(nodes), each=each)


class LineFaults:
    """What is wrong with a file, line by line. Several are named at once; a file that is all wrong is given up."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, line: int, message: str) -> None:
        self._faults.append(Fault(f"line {line}", message))
        if len(self._faults) >= _FAULTS_MAX:
            self.check()

    def check(self) -> None:
        if self._faults:
            raise Invalid(
                "this file is not a trace that can be replayed",
                code="trace",
                faults=self._faults,
                hint="`windlass simulate --help` says which formats are read",
            )


def _moved(job: TracedJob, by: int) -> TracedJob:
    return TracedJob(
        Millis(job.at - by),
        job.tenant,
        job.needs,
        job.ran_ms,
        job.expected_ms,
        job.priority,
        job.pools,
        job.due_ms,
        job.name,
        job.labels,
    )


def _has(pool: SimPool, labels: Labels, pools: tuple[PoolId, ...]) -> bool:
    return (not pools or pool.name in pools) and set(labels) <= set(pool.labels)
