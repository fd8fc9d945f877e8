"""A made-up trace, shaped as published traces of shared clusters are: few tenants bring most of the work, most jobs are small and
short while most of the work is in few long ones, submissions come in bursts and follow the day, and people announce too much.
"""

from bisect import bisect_right
from itertools import accumulate
from math import pi, sin
from typing import Final

from msgspec import Struct

from windlass.core.errors import Fault, Invalid
from windlass.core.foresight.chance import Chance
from windlass.core.foresight.trace import JOBS_MAX, NODES_MAX, SimPool, Trace, TracedJob, in_order
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.resources import Resources

GIB: Final = 1 << 30
_SLOT_MS: Final = 300_000
_DAY_MS: Final = 86_400_000
_LONGEST_S: Final = 7 * 86_400
_CORES: Final = ((1, 50), (2, 18), (4, 16), (8, 10), (16, 6))
_MEMORY_PER_CORE: Final = ((GIB // 2, 20), (GIB, 30), (2 * GIB, 35), (4 * GIB, 15))
_ANNOUNCED_S: Final = (60, 300, 900, 1800, 3600, 4 * 3600, 12 * 3600, 86_400, 2 * 86_400, _LONGEST_S)
"""Nobody announces 37 minutes: people take the next round number, or the one after it."""
_DUE_S: Final = ((300, 10), (900, 20), (3600, 30), (4 * 3600, 25), (86_400, 15))
"""The classes of the service agreement."""


class Making(Struct, frozen=True, kw_only=True):
    """What to make up."""

    jobs: int = 1_000
    seed: int = 1
    tenants: int = 20
    pools: int = 1
    nodes: int = 16
    """In each pool."""
    cores: int = 32
    """Of each node; it has four times as many GiB of memory."""
    load: float = 0.9
    """Work asked for, as part of what the cluster could do in the time the trace takes: above 1 the queue only grows."""


class _Habit(Struct, frozen=True):
    """How one tenant uses the cluster."""

    tenant: TenantId
    pool: PoolId
    median_s: float
    burst: int
    weight: int


def generate(making: Making) -> Trace:
    """The same trace for the same `making`, to the byte."""
    _check(making)
    chance = Chance(making.seed)
    each = Resources(cpu_millis=making.cores * 1000, memory_bytes=making.cores * 4 * GIB)
    width = len(str(making.pools))
    pools = tuple(
        SimPool(name=PoolId(f"pool-{at:0{width}}"), nodes=making.nodes, each=each) for at in range(1, making.pools + 1)
    )
    habits = _habits(making, pools, chance)
    batches = _batches(making, habits, chance)
    span = _span(making, batches)
    day = _Day(span)
    jobs: list[TracedJob] = []
    for batch in batches:
        at = day.moment(chance.unit())
        for job in batch:
            jobs.append(_at(job, at))
            at += 1_000 * chance.below(20)
    return Trace(jobs=in_order(jobs), pools=pools)


def _check(making: Making) -> None:
    bounds = (
        ("jobs", making.jobs, 1, JOBS_MAX),
        ("tenants", making.tenants, 1, 100_000),
        ("pools", making.pools, 1, 1_000),
        ("nodes", making.nodes * making.pools, 1, NODES_MAX),
        ("cores", making.cores, 1, 4_096),
        ("load", making.load, 0.01, 100),
    )
    faults = [
        Fault(name, f"{value} is not between {low:g} and {high:,}")
        for name, value, low, high in bounds
        if not low <= value <= high
    ]
    if faults:
        raise Invalid("such a trace cannot be made up", code="trace", faults=faults)


def _habits(making: Making, pools: tuple[SimPool, ...], chance: Chance) -> list[_Habit]:
    """Activity falls off with the rank (Zipf); every tenant keeps to one pool."""
    width = len(str(making.tenants))
    return [
        _Habit(
            TenantId(f"tenant-{rank:0{width}}"),
            pools[(rank - 1) % len(pools)].name,
            chance.lognormal(120, 1.2),
            1 + chance.below(12),
            max(1, 1_000_000 // rank),
        )
        for rank in range(1, making.tenants + 1)
    ]


def _batches(making: Making, habits: list[_Habit], chance: Chance) -> list[list[TracedJob]]:
    """What is submitted together: one job, or a sweep of equal ones."""
    bounds = list(accumulate(habit.weight for habit in habits))
    batches: list[list[TracedJob]] = []
    left = making.jobs
    once = iter(habits if making.jobs >= 2 * making.tenants else ())
    while left:
        # Everyone comes once, if there are jobs enough; then as often as it is its habit.
        newcomer = next(once, None)
        habit = newcomer or habits[bisect_right(bounds, chance.below(bounds[-1]))]
        size = 1 if newcomer is not None or chance.happens(0.6) else 1 + chance.below(2 * habit.burst)
        batches.append(_batch(making, habit, min(size, left), chance))
        left -= len(batches[-1])
    return batches


def _batch(making: Making, habit: _Habit, size: int, chance: Chance) -> list[TracedJob]:
    cores = min(chance.pick(_CORES), making.cores)
    needs = Resources(cpu_millis=cores * 1000, memory_bytes=cores * chance.pick(_MEMORY_PER_CORE))
    announces = chance.happens(0.7)
    due_ms = Millis(chance.pick(_DUE_S) * 1000) if chance.happens(0.3) else None
    # A batch is one program on many inputs: its runs are like each other, and one in twenty is far longer than usual.
    typical = chance.pareto(habit.median_s * 4, 1.1) if chance.happens(0.05) else chance.lognormal(habit.median_s, 1.0)
    jobs = []
    for _ in range(size):
        seconds = min(max(chance.lognormal(typical, 0.3), 1.0), _LONGEST_S)
        expected = _announced(seconds, chance) if announces else None
        jobs.append(
            TracedJob(Millis(0), habit.tenant, needs, Millis(int(seconds) * 1000), expected, 0, (habit.pool,), due_ms)
        )
    return jobs


def _announced(seconds: float, chance: Chance) -> Millis:
    at = bisect_right(_ANNOUNCED_S, seconds) + chance.below(2)
    return Millis(_ANNOUNCED_S[min(at, len(_ANNOUNCED_S) - 1)] * 1000)


def _span(making: Making, batches: list[list[TracedJob]]) -> int:
    """How long the trace has to take so that the cluster is loaded as wished."""
    work = sum(job.needs.cpu_millis * job.ran_ms for batch in batches for job in batch)
    capacity = making.cores * 1000 * making.nodes * making.pools
    return max(_SLOT_MS, int(work / (capacity * making.load)))


class _Day:
    """When submissions come: five times as many in the afternoon as before dawn."""

    def __init__(self, span: int) -> None:
        slots = -(-span // _SLOT_MS)
        self._sums = list(accumulate(self._intensity(at * _SLOT_MS) for at in range(slots)))

    def moment(self, unit: float) -> int:
        sought = int(unit * self._sums[-1])
        slot = bisect_right(self._sums, sought)
        before = self._sums[slot - 1] if slot else 0
        part = (sought - before) * _SLOT_MS // (self._sums[slot] - before)
        return (slot * _SLOT_MS + part) // 1000 * 1000

    @staticmethod
    def _intensity(at: int) -> int:
        return int(1_000_000 * (1 + sin(2 * pi * (at % _DAY_MS / _DAY_MS - 0.05)) * 2 / 3))


def _at(job: TracedJob, at: int) -> TracedJob:
    return TracedJob(
        Millis(at), job.tenant, job.needs, job.ran_ms, job.expected_ms, job.priority, job.pools, job.due_ms
    )
