"""What a tenant holds and has spent, kept up to date record by record, so that a decision about it looks at a few numbers.

Derived from the World's records alone (`world/tables.py` tells of each change): an undo, a trial and a restart give the same.
"""

from collections import Counter
from typing import Final, TypeVar

from windlass.core.model.calendar import DAY_MS, Day, Month, day_of, day_start, month_first_day, month_of
from windlass.core.model.ids import Millis, NodeId
from windlass.core.model.job import PENDING, Job
from windlass.core.model.money import RATE_SCALE, Micros, rate
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.model.run import Intent, Run
from windlass.core.model.spending import DayTotal

K = TypeVar("K")
_RUN: Final = Intent.RUN


class Usage:
    __slots__ = (
        "_accepted",
        "_day_cost",
        "_month_cost",
        "asked",
        "jobs",
        "live",
        "nodes",
        "queued",
        "resources",
        "runs",
        "unstopped",
    )

    def __init__(self) -> None:
        self.jobs = 0
        """That are not over."""
        self.queued = 0
        """Of these, PENDING: waiting, suspended or backing off."""
        self.asked: Resources = NOTHING
        """By all its jobs that are not over, placed or not."""
        self.runs = 0
        self.unstopped = 0
        """Of these, not told to stop."""
        self.resources: Resources = NOTHING
        """Held by its runs that are not over."""
        self.nodes: Counter[NodeId] = Counter()
        """With runs of it that are not over."""
        self.live = Accrual()
        self._accepted: Counter[Month] = Counter()
        self._day_cost: Counter[Day] = Counter()
        self._month_cost: Counter[Month] = Counter()

    # — what a decision asks —

    def accepted_in(self, month: Month) -> int:
        """Jobs accepted in that month, over or not."""
        return self._accepted[month]

    def spent_on(self, day: Day, now: Millis) -> Micros:
        """Of today: what is metered, and what runs until now."""
        return Micros(self._day_cost[day] + self.live.cost_since(day, now))

    def spent_in(self, month: Month, now: Millis) -> Micros:
        return Micros(self._month_cost[month] + self.live.cost_since(month_first_day(month), now))

    # — what changes it —

    def note_job(self, job: Job, sign: int) -> None:
        """A job that is not over; `sign` 1 when it comes, -1 when it goes."""
        self.jobs += sign
        self.queued += sign * (job.state is PENDING)
        needs = job.shape.needs
        self.asked = self.asked + needs if sign > 0 else self.asked - needs
        _count(self._accepted, month_of(day_of(job.created_at)), sign)

    def note_change(self, old: Job, new: Job) -> None:
        """Of a job that is not over: little of it ever changes."""
        if old.shape is new.shape and old.created_at == new.created_at:
            self.queued += (new.state is PENDING) - (old.state is PENDING)
        else:
            self.note_job(old, -1)
            self.note_job(new, 1)

    def note_run(self, run: Run, sign: int) -> None:
        """A run that is not over."""
        self.runs += sign
        self.resources = self.resources + run.needs if sign > 0 else self.resources - run.needs
        _count(self.nodes, run.node, sign)
        self._note_progress(run, sign)

    def note_progress(self, old: Run, new: Run) -> None:
        """Of a run that is not over, and holds what it held where it was."""
        self._note_progress(old, -1)
        self._note_progress(new, 1)

    def note_total(self, old: DayTotal | None, new: DayTotal | None) -> None:
        """Of one day."""
        known = new or old
        if known is None:
            return
        month = month_of(known.day)
        cost = (new.cost if new is not None else 0) - (old.cost if old is not None else 0)
        _count(self._accepted, month, (new.jobs if new is not None else 0) - (old.jobs if old is not None else 0))
        _count(self._day_cost, known.day, cost)
        _count(self._month_cost, month, cost)

    def _note_progress(self, run: Run, sign: int) -> None:
        self.unstopped += sign * (run.intent is _RUN)
        if run.started_at is not None:
            self.live.note(run, sign)


class Accrual:
    """What started runs have cost since some midnight, without looking at the runs: sums of rates, and of rates × starts.

    Runs share a sum when they started on one day and their burst, if any, ends at one moment; those are few.
    """

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[tuple[Day, Millis | None], tuple[int, int]] = {}
        """By the day of the start and the end of the surcharge (None: the plain price)."""

    def note(self, run: Run, sign: int) -> None:
        assert run.started_at is not None
        plain = rate(run.needs, run.prices)
        self._add((Day(run.started_at // DAY_MS), None), sign * plain, run.started_at)
        if run.burst_until is not None and run.burst_until > run.started_at:
            dear = rate(run.needs, run.prices, factor=run.burst_factor) - plain
            self._add((day_of(run.started_at), run.burst_until), sign * dear, run.started_at)

    def cost_since(self, day: Day, now: Millis) -> Micros:
        first = day_start(day)
        summed = 0
        for (started, until), (rates, starts) in self._sums.items():
            end = now if until is None or now < until else until
            summed += rates * max(0, end - first) if started < day else max(0, rates * end - starts)
        return Micros(summed // RATE_SCALE)

    def rate(self, now: Millis) -> int:
        """Times `RATE_SCALE`, a millisecond."""
        return sum(rates for (_, until), (rates, _) in self._sums.items() if until is None or now < until)

    def _add(self, key: tuple[Day, Millis | None], rates: int, start: Millis) -> None:
        old = self._sums.get(key, (0, 0))
        new = old[0] + rates, old[1] + rates * start
        if new == (0, 0):
            self._sums.pop(key, None)
        else:
            self._sums[key] = new


def _count(counter: Counter[K], key: K, change: int) -> None:
    if not change:
        return
    left = counter.get(key, 0) + change
    if left:
        counter[key] = left
    else:
        counter.pop(key, None)
