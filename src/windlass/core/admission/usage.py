"""What a tenant holds and has spent, kept up to date record by record, so that a decision about it looks at a few numbers.

Derived from the World's records alone (`world/tables.py` tells of each change): an undo, a trial and a restart give the same.
"""

from collections import Counter
from typing import TypeVar

from windlass.core.model.calendar import Day, Month, day_of, day_start, month_first_day, month_of
from windlass.core.model.ids import Millis, NodeId
from windlass.core.model.job import Job, JobState
from windlass.core.model.money import RATE_SCALE, Micros, rate
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.model.run import Intent, Run
from windlass.core.model.spending import DayTotal

K = TypeVar("K")


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
        self.queued += sign * (job.state is JobState.PENDING)
        needs = job.shape.needs
        self.asked = self.asked + needs if sign > 0 else self.asked - needs
        _count(self._accepted, month_of(day_of(job.created_at)), sign)

    def note_run(self, run: Run, sign: int) -> None:
        """A run that is not over."""
        self.runs += sign
        self.unstopped += sign * (run.intent is Intent.RUN)
        self.resources = self.resources + run.needs if sign > 0 else self.resources - run.needs
        _count(self.nodes, run.node, sign)
        if run.started_at is not None:
            self.live.note(run, sign)

    def note_total(self, total: DayTotal, sign: int) -> None:
        month = month_of(total.day)
        _count(self._accepted, month, sign * total.jobs)
        _count(self._day_cost, total.day, sign * total.cost)
        _count(self._month_cost, month, sign * total.cost)


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
        self._add((day_of(run.started_at), None), sign * plain, run.started_at)
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
    left = counter[key] + change
    if left:
        counter[key] = left
    else:
        counter.pop(key, None)
