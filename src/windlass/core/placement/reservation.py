"""Backfill: the first job that found no place is promised a node and a start; others may pass it only where they cannot delay it.

One promise at a time, to whoever is first. It is kept on one node: the one that, by what is known of its runs' ends, can take the
job soonest; where nothing is known, the one with most room. Other nodes are free for everybody. On that node a job may pass only

- into room that is left over even when the promised start comes, or
- if its timeout ends before the promised start. A job without a timeout never does.

Where no start can be told, only what the waiting job has enough of already is left over.
"""

from collections.abc import Iterable

from windlass.core.model.ids import Millis, NodeId
from windlass.core.model.job import Job
from windlass.core.model.resources import Resources
from windlass.core.placement.nodes import Slot
from windlass.core.placement.promise import Reservation
from windlass.core.placement.shortage import fits

CANDIDATES_MAX = 64
"""Nodes that are looked at for a promise: it need not be the best, it must be kept."""


def reserve(job: Job, slots: Iterable[Slot], now: Millis) -> Reservation | None:
    """On the best of `slots`; None when there are none."""
    offers = [opening(job, slot, now) for slot in slots]
    return min(offers, key=_preference, default=None)


def opening(job: Job, slot: Slot, now: Millis) -> Reservation:
    """When and with how much to spare `job` could start there, if nothing else did."""
    needs, free, runs = job.shape.needs, slot.free, slot.runs
    start: Millis | None = None
    ending = sorted(
        (run.ends_at, run.id) for run in slot.held.values() if run.ends_at is not None and run.ends_at > now
    )
    for at, run_id in ending:
        if start is not None and at > start:
            break
        free, runs = free + slot.held[run_id].needs, runs - 1
        if fits(needs, free) and runs < slot.runs_max:
            start = at
    if start is None:
        free, runs = slot.free, slot.runs
    return Reservation(
        job=job.id,
        node=slot.node.id,
        start=start,
        spare=_at_least_nothing(free - needs),
        spare_runs=max(0, slot.runs_max - runs - 1),
        version=slot.version,
        holds_until=ending[0][0] if start is not None else None,
    )


def may_pass(job: Job, promised: Reservation, now: Millis) -> bool:
    """Whether `job`, started now on the promised node, leaves the promise as it is."""
    if fits(job.shape.needs, promised.spare) and promised.spare_runs:
        return True
    return promised.start is not None and job.timeout_ms is not None and ends_by(job, now) <= promised.start


def ends_by(job: Job, now: Millis) -> Millis:
    """When a run of a job with a timeout is over at the latest."""
    assert job.timeout_ms is not None
    return Millis(now + job.timeout_ms + job.grace_ms)


def known_end(job: Job, now: Millis) -> Millis | None:
    """When a run that starts now is over: by what its job announced, else by its timeout."""
    if job.expected_ms is not None:
        return Millis(now + job.expected_ms)
    return ends_by(job, now) if job.timeout_ms is not None else None


def _at_least_nothing(room: Resources) -> Resources:
    return Resources(cpu_millis=max(0, room.cpu_millis), memory_bytes=max(0, room.memory_bytes), gpus=max(0, room.gpus))


def _preference(offer: Reservation) -> tuple[bool, int, int, int, int, NodeId]:
    """The soonest; of those, and where nobody knows, the roomiest."""
    spare = offer.spare
    return (offer.start is None, offer.start or 0, -spare.gpus, -spare.cpu_millis, -spare.memory_bytes, offer.node)
