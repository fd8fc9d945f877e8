"""What a simulation came to: waits, utilisation, fairness, deadlines, money; and the curves that plots are drawn from.

Everything is counted in integers and divided once, at the end.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from windlass.core.foresight.simulate import Outcome, Served, Told, simulate
from windlass.core.foresight.trace import Trace
from windlass.core.foresight.variant import Variant
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.money import Micros, cost

CURVE_POINTS: Final = 120
WINDOWS: Final = 100
"""Fairness is looked at in so many parts of the whole time."""
TENANTS_SHOWN: Final = 12
_QUANTILES: Final = tuple(range(0, 101, 2))

Interval = tuple[int, int, int]
"""From, to, and how much of something all the while."""


class Waits(Struct, frozen=True, kw_only=True):
    p50_ms: Millis
    p95_ms: Millis
    p99_ms: Millis
    longest_ms: Millis


class TenantFigures(Struct, frozen=True, kw_only=True):
    tenant: TenantId
    jobs: int
    waits: Waits
    cost_micros: Micros


class Figures(Struct, frozen=True, kw_only=True):
    variant: Variant
    started: int
    refused: int
    never_started: int
    lost_runs: int
    late_losses: int
    """Losses of nodes that came when all was over."""
    waits: Waits | None
    """None: nothing started, so of waits there is nothing to say."""
    utilisation: float
    """Core-time that runs held, as part of what the nodes had until the last end."""
    jain: float | None
    """1: whoever waited was given the same for its weight. None: no two tenants ever waited at once."""
    due: int
    """Jobs with a deadline that were accepted,"""
    missed: int
    """and those that started after it, or never."""
    cost_micros: Micros
    makespan_ms: Millis
    events: int
    refusals: tuple[tuple[str, int], ...]
    """By code, most frequent first;"""
    refused_for: tuple[tuple[str, str], ...]
    """and of each code what was said of the first."""
    tenants: tuple[TenantFigures, ...]
    """Those that used most."""
    busy: tuple[float, ...]
    """Utilisation over time."""
    waiting: tuple[float, ...]
    """Jobs that wait, over time."""
    wait_quantiles_ms: tuple[Millis, ...]
    """Empty where nothing started."""


class Report(Struct, frozen=True, kw_only=True):
    jobs: int
    tenants: int
    pools: int
    nodes: int
    left_out: int
    passed_over: int
    """Jobs whose node labels were."""
    span_ms: Millis
    """From the first submission to the last."""
    figures: tuple[Figures, ...]


def compare(trace: Trace, variants: Sequence[Variant], *, told: Told | None = None) -> Report:
    """The same trace under each variant, one after the other."""
    total = len(trace.jobs) * len(variants)
    figures = []
    for number, variant in enumerate(variants):
        before = number * len(trace.jobs)
        outcome = simulate(trace, variant, told=_from(told, before, total))
        figures.append(measure(trace, outcome))
    return Report(
        jobs=len(trace.jobs),
        tenants=len(trace.tenants),
        pools=len(trace.pools),
        nodes=sum(pool.nodes for pool in trace.pools),
        left_out=trace.left_out,
        passed_over=trace.passed_over,
        span_ms=trace.jobs[-1].at if trace.jobs else Millis(0),
        figures=tuple(figures),
    )


def measure(trace: Trace, outcome: Outcome) -> Figures:
    jobs, runs = trace.jobs, outcome.runs
    end = max((run.ended for run in runs), default=Millis(0))
    first = _first_starts(runs)
    waits = sorted(began - jobs[number].at for number, began in first.items())
    held = [(run.began, run.ended, jobs[run.job].needs.cpu_millis) for run in runs]
    room = _until(outcome.room, end)
    due = _due(trace, outcome)
    accepted = len(jobs) - len(outcome.refused_jobs)
    return Figures(
        variant=outcome.variant,
        started=len(first),
        refused=len(outcome.refused_jobs),
        never_started=accepted - len(first),
        lost_runs=sum(run.is_lost for run in runs),
        late_losses=sum(loss.at >= end for loss in outcome.variant.losses) if runs else 0,
        waits=_waits(waits) if waits else None,
        utilisation=_ratio(_area(held), _area(room)),
        jain=_jain(trace, outcome, first, end),
        due=len(due),
        missed=sum(number not in first or first[number] > latest for number, latest in due.items()),
        cost_micros=Micros(sum(cost(jobs[run.job].needs, Millis(run.ended - run.began)) for run in runs)),
        makespan_ms=end,
        events=outcome.events,
        refusals=outcome.refused,
        refused_for=outcome.refused_for,
        tenants=_by_tenant(trace, runs, first),
        busy=tuple(map(_ratio, spread(held, end, CURVE_POINTS), spread(room, end, CURVE_POINTS))),
        waiting=_queue_lengths(trace, outcome, first, end),
        wait_quantiles_ms=tuple(Millis(percentile(waits, at)) for at in _QUANTILES if waits),
    )


def _due(trace: Trace, outcome: Outcome) -> dict[int, int]:
    """By when each accepted job that has a deadline should have started."""
    return {
        number: job.at + job.due_ms
        for number, job in enumerate(trace.jobs)
        if job.due_ms is not None and number not in outcome.refused_jobs
    }


def _area(intervals: Iterable[Interval]) -> int:
    return sum((to - since) * size for since, to, size in intervals)


def _until(steps: Sequence[tuple[Millis, int]], end: Millis) -> list[Interval]:
    """What is so from each moment on, until the next one."""
    ends = [*(at for at, _ in steps[1:]), end]
    return [(since, min(to, end), size) for (since, size), to in zip(steps, ends, strict=True) if since < min(to, end)]


def percentile(ordered: Sequence[int], percent: int) -> int:
    """By nearest rank: a value that occurred. 0 where there is none."""
    if not ordered:
        return 0
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]


def spread(intervals: Iterable[Interval], end: int, parts: int) -> list[int]:
    """How much of it fell into each of `parts` equal parts of 0 … `end`, exactly: size × time."""
    inside, edges = [0] * parts, [0] * (parts + 1)
    if end <= 0:
        return inside
    for since, to, size in intervals:
        first, last = since * parts // end, min(to * parts // end, parts - 1)
        if first >= parts:
            continue
        if first == last:
            inside[first] += (to - since) * size
            continue
        inside[first] += ((first + 1) * end // parts - since) * size
        inside[last] += (to - last * end // parts) * size
        edges[first + 1] += size
        edges[last] -= size
    running = 0
    for at in range(parts):
        running += edges[at]
        inside[at] += running * ((at + 1) * end // parts - at * end // parts)
    return inside


def jain(shares: Sequence[float]) -> float:
    """(Σx)² ÷ n Σx²: 1 when all are equal, 1/n when one has everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def _jain(trace: Trace, outcome: Outcome, first: dict[int, Millis], end: Millis) -> float | None:
    """Over the tenants that waited all through a window, of what each was given in it for its weight; the mean over windows.

    Over the whole trace everybody gets what it asked for, under any order: only where somebody waits is there something to share.
    """
    jobs = trace.jobs
    given: defaultdict[TenantId, list[Interval]] = defaultdict(list)
    for run in outcome.runs:
        given[jobs[run.job].tenant].append((run.began, run.ended, cost(jobs[run.job].needs, Millis(3_600_000))))
    windows: list[list[float]] = [[] for _ in range(WINDOWS)]
    for tenant, intervals in _backlogs(trace, outcome, first, end).items():
        received = spread(given[tenant], end, WINDOWS)
        weight = outcome.variant.weight(tenant)
        for since, to in intervals:
            for at in range(-(-since * WINDOWS // end), to * WINDOWS // end):
                windows[at].append(received[at] / weight)
    shared = [shares for shares in windows if len(shares) > 1]
    if not shared:
        return None
    return round(sum(jain(shares) * len(shares) for shares in shared) / sum(map(len, shared)), 4)


def _backlogs(
    trace: Trace, outcome: Outcome, first: dict[int, Millis], end: Millis
) -> dict[TenantId, list[tuple[int, int]]]:
    """When each tenant had something waiting, without a gap."""
    backlogs: dict[TenantId, list[tuple[int, int]]] = {}
    for number, job in enumerate(trace.jobs):
        until = first.get(number, end)
        if number in outcome.refused_jobs or until <= job.at:
            continue
        known = backlogs.setdefault(job.tenant, [])
        if known and job.at <= known[-1][1]:
            known[-1] = (known[-1][0], max(known[-1][1], until))
        else:
            known.append((job.at, until))
    return backlogs


def _by_tenant(trace: Trace, runs: Sequence[Served], first: dict[int, Millis]) -> tuple[TenantFigures, ...]:
    jobs = trace.jobs
    waits: defaultdict[TenantId, list[int]] = defaultdict(list)
    used: defaultdict[TenantId, int] = defaultdict(int)
    for number, began in first.items():
        waits[jobs[number].tenant].append(began - jobs[number].at)
    for run in runs:
        used[jobs[run.job].tenant] += cost(jobs[run.job].needs, Millis(run.ended - run.began))
    most = sorted(used, key=lambda tenant: (-used[tenant], tenant))[:TENANTS_SHOWN]
    return tuple(
        TenantFigures(
            tenant=tenant,
            jobs=len(waits[tenant]),
            waits=_waits(sorted(waits[tenant])),
            cost_micros=Micros(used[tenant]),
        )
        for tenant in most
    )


def _queue_lengths(trace: Trace, outcome: Outcome, first: dict[int, Millis], end: Millis) -> tuple[float, ...]:
    waited = [
        (job.at, first.get(number, end), 1)
        for number, job in enumerate(trace.jobs)
        if number not in outcome.refused_jobs and job.at < end
    ]
    return tuple(round(part * CURVE_POINTS / end, 3) if end else 0.0 for part in spread(waited, end, CURVE_POINTS))


def _first_starts(runs: Sequence[Served]) -> dict[int, Millis]:
    first: dict[int, Millis] = {}
    for run in runs:
        first.setdefault(run.job, run.began)
    return first


def _waits(ordered: Sequence[int]) -> Waits:
    """Of at least one."""
    return Waits(
        p50_ms=Millis(percentile(ordered, 50)),
        p95_ms=Millis(percentile(ordered, 95)),
        p99_ms=Millis(percentile(ordered, 99)),
        longest_ms=Millis(ordered[-1]),
    )


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole > 0 else 0.0


def _from(told: Told | None, before: int, total: int) -> Told | None:
    return (lambda done, _: told(before + done, total)) if told is not None else None
