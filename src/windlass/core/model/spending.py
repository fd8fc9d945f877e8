"""What a tenant has spent: a total per UTC day, by pool, and how far into its budget it has been told it is."""

from msgspec import Struct

from windlass.core.model.calendar import Day, Month
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.money import Micros


class Segment(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A part of a run that lies within one day, all in burst or all out of it. A run's segments sum to the run."""

    start: Millis
    span_ms: Millis
    cost: Micros
    is_burst: bool = False

    @property
    def day(self) -> Day:
        return Day(self.start // 86_400_000)


class PoolTotal(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    cost: Micros = Micros(0)
    burst_cost: Micros = Micros(0)
    """Part of `cost`."""
    span_ms: Millis = Millis(0)


class DayTotal(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    tenant: TenantId
    day: Day
    jobs: int = 0
    """Accepted on this day, and over since."""
    pools: dict[PoolId, PoolTotal] = {}

    @property
    def cost(self) -> int:
        return sum([total.cost for total in self.pools.values()])  # a list: there are few, and ends come often


class Passed(Struct, frozen=True, kw_only=True):
    """A threshold of a budget was passed."""

    threshold: int
    """In thousandths."""
    at: Millis
    spent: Micros


class BudgetMark(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was told of this month's budget."""

    tenant: TenantId
    month: Month
    passed: tuple[Passed, ...] = ()

    @property
    def highest(self) -> int:
        return max((one.threshold for one in self.passed), default=0)
