"""What a tenant holds and has spent, kept up to date record by record, so that a decision about it looks at a few numbers.

Derived from the World's records alone (`world/tables.py` tells of each change): an undo, a trial and a restart give the same.
What a change moves are plain numbers; what few tenants have a limit on (a month's money, a month's jobs) is summed up when it is
asked for.
"""

from typing import Final

from windlass.core.model.calendar import DAY_MS, Day, Month, day_start, month_first_day, month_of
from windlass.core.model.ids import Millis, NodeId
from windlass.core.model.job import PENDING, Job
from windlass.core.model.money import RATE_SCALE, Micros, rate, stored_rate
from windlass.core.model.resources import Resources
from windlass.core.model.run import Intent, Run
from windlass.core.model.spending import DayTotal
from windlass.core.model.volume import Volume

_RUN: Final = Intent.RUN


class Usage:
    __slots__ = (
        "_accepted",
        "_asked_cpu",
        "_asked_gpus",
        "_asked_memory",
        "_held_cpu",
        "_held_gpus",
        "_held_memory",
        "_totals",
        "jobs",
        "live",
        "nodes",
        "queued",
        "runs",
        "unstopped",
    )

    def __init__(self) -> None:
        self.jobs = 0
        """That are not over."""
        self.queued = 0
        """Of these, PENDING: waiting, suspended or backing off."""
        self._asked_cpu = self._asked_memory = self._asked_gpus = 0
        self.runs = 0
        self.unstopped = 0
        """Of these, not told to stop."""
        self._held_cpu = self._held_memory = self._held_gpus = 0
        self.nodes: dict[NodeId, int] = {}
        """With runs of it that are not over, and how many."""
        self.live = Accrual()
        self._accepted: dict[int, int] = {}
        """Of its jobs that are not over, by the number of the day they came."""
        self._totals = Totals()

    # — what a decision asks —

    @property
    def asked(self) -> Resources:
        """By all its jobs that are not over, placed or not."""
        return Resources(self._asked_cpu, self._asked_memory, self._asked_gpus)

    @property
    def resources(self) -> Resources:
        """Held by its runs that are not over."""
        return Resources(self._held_cpu, self._held_memory, self._held_gpus)

    def accepted_in(self, month: Month) -> int:
        """Jobs accepted in that month, over or not."""
        live = sum(count for day, count in self._accepted.items() if month_of(Day(day)) == month)
        return live + self._totals.jobs_in(month)

    def spent_on(self, day: Day, now: Millis) -> Micros:
        """Of today: what is metered, and what runs until now."""
        return Micros(self._totals.cost_on(day) + self.live.cost_since(day, now))

    def spent_in(self, month: Month, now: Millis) -> Micros:
        return Micros(self._totals.cost_in(month) + self.live.cost_since(month_first_day(month), now))

    # — what changes it —

    def note_job(self, job: Job, sign: int) -> None:
        """A job that is not over; `sign` 1 when it comes, -1 when it goes."""
        self.jobs += sign
        if job.state is PENDING:
            self.queued += sign
        needs = job.shape.needs
        self._asked_cpu += sign * needs.cpu_millis
        self._asked_memory += sign * needs.memory_bytes
        self._asked_gpus += sign * needs.gpus
        accepted, day = self._accepted, job.created_at // DAY_MS
        left = accepted.get(day, 0) + sign
        if left:
            accepted[day] = left
        else:
            del accepted[day]

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
        needs = run.needs
        self._held_cpu += sign * needs.cpu_millis
        self._held_memory += sign * needs.memory_bytes
        self._held_gpus += sign * needs.gpus
        nodes, node = self.nodes, run.node
        left = nodes.get(node, 0) + sign
        if left:
            nodes[node] = left
        else:
            del nodes[node]
        if run.intent is _RUN:
            self.unstopped += sign
        if run.started_at is not None:
            self.live.note(run, sign)

    def note_progress(self, old: Run, new: Run) -> None:
        """Of a run that is not over, and holds what it held where it was."""
        self.unstopped += (new.intent is _RUN) - (old.intent is _RUN)
        if old.started_at is not None:
            self.live.note(old, -1)
        if new.started_at is not None:
            self.live.note(new, 1)

    def note_total(self, old: DayTotal | None, new: DayTotal | None) -> None:
        """Of one day."""
        self._totals.note(old, new)

    def note_stored(self, volume: Volume, sign: int) -> None:
        """A volume that is paid for."""
        self.live.note_stored(volume, sign)


class Totals:
    """The days' totals. A month is summed up when somebody asks for it, and is kept summed up from then on."""

    __slots__ = ("_days", "_months")

    def __init__(self) -> None:
        self._days: dict[Day, DayTotal] = {}
        self._months: dict[Month, tuple[int, int]] = {}
        """Money and jobs of those that were asked for."""

    def cost_on(self, day: Day) -> int:
        total = self._days.get(day)
        return total.cost if total is not None else 0

    def cost_in(self, month: Month) -> int:
        return self._sum(month)[0]

    def jobs_in(self, month: Month) -> int:
        return self._sum(month)[1]

    def note(self, old: DayTotal | None, new: DayTotal | None) -> None:
        if new is not None:
            day = new.day
            self._days[day] = new
        elif old is not None:
            day = old.day
            del self._days[day]
        else:
            return
        if self._months:
            self._move(month_of(day), old, new)

    def _move(self, month: Month, old: DayTotal | None, new: DayTotal | None) -> None:
        known = self._months.get(month)
        if known is not None:
            gone, come = _worth(old), _worth(new)
            self._months[month] = known[0] + come[0] - gone[0], known[1] + come[1] - gone[1]

    def _sum(self, month: Month) -> tuple[int, int]:
        known = self._months.get(month)
        if known is None:
            days = [total for day, total in self._days.items() if month_of(day) == month]
            known = self._months[month] = sum([one.cost for one in days]), sum([one.jobs for one in days])
        return known


class Accrual:
    """What started runs and stored volumes have cost since some midnight, without looking at them: sums of rates, and of
    rates × starts.

    They share a sum when they started on one day and their burst, if any, ends at one moment; those are few.
    """

    __slots__ = ("_dear", "_plain")

    def __init__(self) -> None:
        self._plain: dict[int, Sum] = {}
        """By the day of the start."""
        self._dear: dict[tuple[int, int], Sum] = {}
        """Surcharges: by the day of the start and when they end."""

    def note(self, run: Run, sign: int) -> None:
        started = run.started_at
        assert started is not None
        plain = rate(run.needs, run.prices)
        self._note_plain(sign * plain, started)
        until = run.burst_until
        if until is not None and until > started:
            dear = rate(run.needs, run.prices, factor=run.burst_factor) - plain
            key = started // DAY_MS, until
            sums = self._dear.get(key)
            if sums is None:
                sums = self._dear[key] = Sum()
            if sums.add(sign * dear, started):
                del self._dear[key]

    def note_stored(self, volume: Volume, sign: int) -> None:
        since = volume.stored_at
        assert since is not None
        self._note_plain(sign * stored_rate(volume.size_bytes, volume.hour_price), since)

    def cost_since(self, day: Day, now: Millis) -> Micros:
        first = day_start(day)
        summed = sum([sums.between(first if started < day else None, now) for started, sums in self._plain.items()])
        for (started, until), sums in self._dear.items():
            summed += sums.between(first if started < day else None, min(now, until))
        return Micros(summed // RATE_SCALE)

    def rate(self, now: Millis) -> int:
        """Times `RATE_SCALE`, a millisecond."""
        dear = sum([sums.rates for (_, until), sums in self._dear.items() if now < until])
        return sum([sums.rates for sums in self._plain.values()]) + dear

    def _note_plain(self, rates: int, start: int) -> None:
        day = start // DAY_MS
        sums = self._plain.get(day)
        if sums is None:
            sums = self._plain[day] = Sum()
        if sums.add(rates, start):
            del self._plain[day]


class Sum:
    """Of rates, and of rates × starts."""

    __slots__ = ("rates", "starts")

    def __init__(self) -> None:
        self.rates = 0
        self.starts = 0

    def add(self, rates: int, start: int) -> bool:
        """Whether nothing is left."""
        self.rates += rates
        self.starts += rates * start
        return not self.rates and not self.starts

    def between(self, first: int | None, end: int) -> int:
        """What they came to until `end`: from `first`, or from when each started."""
        if first is not None:
            return self.rates * max(0, end - first)
        return max(0, self.rates * end - self.starts)


def _worth(total: DayTotal | None) -> tuple[int, int]:
    return (total.cost, total.jobs) if total is not None else (0, 0)
