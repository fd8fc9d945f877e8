"""What a run, a worker and a stored volume cost: milliseconds at prices that were fixed, cut at burst edges and UTC midnights.

Comes after the run's end. The parts are rounded by what is left of the whole, so they sum to the run to the micro-unit.
"""

from collections.abc import Iterable
from typing import Final

from windlass.core.model.calendar import DAY_MS, next_day
from windlass.core.model.ids import Millis
from windlass.core.model.money import RATE_SCALE, Micros, rate, stored_rate
from windlass.core.model.pool import Worker
from windlass.core.model.run import Run
from windlass.core.model.spending import Segment
from windlass.core.model.volume import Volume

_HOUR_MS: Final = 3_600_000


def segments(run: Run) -> tuple[Segment, ...]:
    """Of a run that is over. Nothing was measured (it never started, or its node was lost): nothing is charged."""
    return _cut(run, Millis(run.ran_ms or 0))


def segments_so_far(run: Run, now: Millis) -> tuple[Segment, ...]:
    """Of a run that is not over: as if it ended now, by the leader's clock. The node's measure replaces it at the end."""
    return _cut(run, Millis(now - run.started_at)) if run.started_at is not None and now > run.started_at else ()


def total(parts: Iterable[Segment]) -> Micros:
    return Micros(sum([part.cost for part in parts]))


def cost_so_far(run: Run, now: Millis) -> Micros:
    return total(segments(run) if run.is_over else segments_so_far(run, now))


def worker_segments(worker: Worker, end: Millis) -> tuple[Segment, ...]:
    """Of a worker that is gone: by the hour that it was there, cut at UTC midnights. Nothing where that has no price."""
    if worker.ready_at is None or not worker.hour_price:
        return ()
    return _by_day(worker.ready_at, end, worker.hour_price, _HOUR_MS)


def stored_segments(volume: Volume, end: Millis) -> tuple[Segment, ...]:
    """Of a volume that is paid for, until `end`, cut at UTC midnights."""
    if volume.stored_at is None:
        return ()
    return _by_day(volume.stored_at, end, stored_rate(volume.size_bytes, volume.hour_price), RATE_SCALE)


def _by_day(begin: Millis, end: Millis, speed: int, scale: int) -> tuple[Segment, ...]:
    """`speed` / `scale` micro-units a millisecond."""
    found: list[Segment] = []
    charged, at = 0, begin
    while at < end:
        until = Millis(min(end, next_day(at)))
        part = (until - begin) * speed // scale - charged
        charged += part
        found.append(Segment(start=at, span_ms=Millis(until - at), cost=Micros(part)))
        at = until
    return tuple(found)


def _cut(run: Run, span: Millis) -> tuple[Segment, ...]:
    if run.started_at is None or span <= 0:
        return ()
    at, end = run.started_at, Millis(run.started_at + span)
    plain = rate(run.needs, run.prices)
    if run.burst_until is None and at // DAY_MS == (end - 1) // DAY_MS:  # as nearly all of them are
        return (Segment(start=at, span_ms=span, cost=Micros(plain * span // RATE_SCALE)),)
    dear = rate(run.needs, run.prices, factor=run.burst_factor)
    found: list[Segment] = []
    summed = charged = 0
    while at < end:
        is_burst = run.burst_until is not None and at < run.burst_until
        edge = run.burst_until if is_burst and run.burst_until is not None else end
        until = min(end, edge, next_day(at))
        summed += (dear if is_burst else plain) * (until - at)
        part = summed // RATE_SCALE - charged
        charged += part
        found.append(Segment(start=at, span_ms=Millis(until - at), cost=Micros(part), is_burst=is_burst))
        at = Millis(until)
    return tuple(found)
