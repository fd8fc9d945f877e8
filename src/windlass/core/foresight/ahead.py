"""The live World driven ahead of time, inside a trial: runs end when expected, pools grow, and whoever is next is placed.

What `why` estimates a start by and `plan` is made of. The caller holds the trial, which takes everything back; timers are put aside
meanwhile, because a timer that has been taken off its heap cannot be taken back.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.admission.budget import cost_reached_at
from windlass.core.foresight.growths import Growths
from windlass.core.model.facts import RunEnded, RunStarted
from windlass.core.model.ids import JobId, Millis, NodeId, PoolId, RunId, TenantId
from windlass.core.model.job import Job
from windlass.core.model.run import Run, RunState
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.place import place
from windlass.core.world.timers import Due, Timers
from windlass.core.world.world import World

_NO_POOL: Final = PoolId("")
STEPS: Final = 80
"""Ends and placings, in all: an answer is given while somebody waits for it, on the loop that decides."""
_WAKING: Final = frozenset({Due.BACKOFF, Due.DEADLINE, Due.HOLD, Due.BURST})
"""Timers that let a job start, or another first. The others (times-to-live, old keys) would only be steps."""


class Placing(Struct, frozen=True):
    job: JobId
    tenant: TenantId
    node: NodeId
    at: Millis
    price_factor: int = 1000
    """Of the price, in thousandths: more than 1000 in a burst."""
    growing: PoolId = PoolId("")
    """The pool, where its node is a worker that is yet to come; then its name is not known."""


class Foreseen(Struct, frozen=True, kw_only=True):
    placings: tuple[Placing, ...]
    """In order."""
    reached: Millis
    """How far ahead it was looked."""
    is_cut: bool
    """The steps did not last; what is not among the placings comes later than `reached`."""

    def placing(self, job: JobId) -> Placing | None:
        return next((one for one in self.placings if one.job == job), None)


def look_ahead(
    world: World, wanted: Collection[JobId], *, now: Millis, steps: int = STEPS, arriving: Iterable[JobId] = ()
) -> Foreseen:
    """Until every job that is wanted has its place, nothing more can happen, or the steps are used up. Inside a trial.

    `arriving`: jobs that are submitted as they are taken from it, wanted too. Before each, what can be placed is, and autoscalers
    look at who found no place; no worker is there before the last.
    """
    left, coming = set(wanted), iter(arriving)
    placings: list[Placing] = []
    with _waking_timers(world):
        ends, growths = _expected_ends(world, now), Growths(world, now)
        while True:
            for run in place(world, now=now, limit=max(1, steps)):
                steps -= 1
                left.discard(run.job)
                growing = growths.brought.get(run.node, _NO_POOL)
                placings.append(Placing(run.job, run.tenant, run.node, now, run.burst_factor, growing))
                observe(world, RunStarted(run=run.id, token=run.token), now=now)
                heappush(ends, (_expected_end(world, run, now), run.id, run))
            if left:
                growths.ask(now)
            arrived = next(coming, None)
            if arrived is not None:
                left.add(arrived)
                continue
            came = growths.come(now) if left else 0
            steps -= came
            if came and steps > 0:
                continue
            moment = _earliest(_next_moment(world, ends), growths.next_at(now))
            if not left or steps <= 0 or moment is None:
                return Foreseen(placings=tuple(placings), reached=now, is_cut=bool(left) and moment is not None)
            now = max(now, moment)
            steps -= 1
            while ends and ends[0][0] <= now:
                steps -= 1
                _end(world, heappop(ends)[2], now)
            expire(world, now=now)


def expected_span(world: World, job: Job) -> Millis:
    """What it says itself, or what such jobs of its tenant usually take; its timeout at most."""
    span = job.expected_ms if job.expected_ms is not None else world.tables.typical.span(job.tenant, job.shape)
    return span if job.timeout_ms is None else min(span, job.timeout_ms)


def _earliest(*moments: Millis | None) -> Millis | None:
    return min((at for at in moments if at is not None), default=None)


def _next_moment(world: World, ends: list[tuple[Millis, RunId, Run]]) -> Millis | None:
    due = world.next_due()
    if not ends:
        return due
    return ends[0][0] if due is None else min(due, ends[0][0])


def _expected_ends(world: World, now: Millis) -> list[tuple[Millis, RunId, Run]]:
    ends = [
        (_expected_end(world, run, now), run.id, run)
        for run in world.tables.runs.values()
        if not run.is_over and run.job in world.tables.jobs
    ]
    heapify(ends)
    return ends


def _expected_end(world: World, run: Run, now: Millis) -> Millis:
    """One that has outlasted what was expected of it goes on half as long again as it has run, or until it is stopped."""
    job = world.tables.jobs[run.job]
    began = run.started_at if run.started_at is not None else run.assigned_at
    end = began + expected_span(world, job)
    if end <= now:
        end = now + max(1_000, (now - began) // 2)
    if job.timeout_ms is not None:
        end = min(end, max(now, began + job.timeout_ms))
    if job.cost_max is not None:
        at = cost_reached_at(replace(job, is_cost_warned=True), replace(run, started_at=began))
        end = min(end, max(now, at)) if at is not None else end
    return Millis(end)


def _end(world: World, run: Run, now: Millis) -> None:
    live = world.tables.runs.get(run.id)
    if live is None or live.is_over:
        return
    fact = RunEnded(
        run=run.id,
        token=run.token,
        state=RunState.EXITED,
        exit_code=0,
        reason="Completed",
        ran_ms=Millis(max(1, now - (live.started_at if live.started_at is not None else live.assigned_at))),
    )
    observe(world, fact, now=now)


@contextmanager
def _waking_timers(world: World) -> Iterator[None]:
    real = world.tables.timers
    imagined = Timers(only=_WAKING)
    for at, due, key in real.pending():
        imagined.add(at, due, key)
    world.tables.timers = imagined
    try:
        yield
    finally:
        world.tables.timers = real
