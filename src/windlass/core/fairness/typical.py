"""How long a tenant's runs of one shape usually take: the median of the newest few, for jobs that do not say it themselves.

Of runs that ended by themselves. A measurement, not a decision: it is not stored, and starts empty with each leadership. Until
the first run of a shape has ended its jobs count with the default; every charge is corrected at the run's end, so a wrong guess
costs no one for long.
"""

from collections import OrderedDict, deque
from typing import Final

from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.shape import Shape

DEFAULT_MS: Final = Millis(60_000)
_WINDOW: Final = 15
_PAIRS_MAX: Final = 20_000


class _Newest:
    __slots__ = ("median", "spans")

    def __init__(self) -> None:
        self.spans: deque[Millis] = deque(maxlen=_WINDOW)
        self.median: Millis | None = None
        """Found when it is asked for: ends are many, and most jobs say themselves how long they take."""


class Typical:
    def __init__(self, *, pairs_max: int = _PAIRS_MAX) -> None:
        self._newest: OrderedDict[tuple[TenantId, Shape], _Newest] = OrderedDict()
        """The one that was silent longest first: it is forgotten first."""
        self._pairs_max = pairs_max

    def __len__(self) -> int:
        return len(self._newest)

    def note(self, tenant: TenantId, shape: Shape, ran_ms: Millis) -> None:
        key = (tenant, shape)
        newest = self._newest.get(key)
        if newest is None:
            newest = self._newest[key] = _Newest()
            if len(self._newest) > self._pairs_max:
                self._newest.popitem(last=False)
        else:
            self._newest.move_to_end(key)
        newest.spans.append(ran_ms)
        newest.median = None

    def span(self, tenant: TenantId, shape: Shape) -> Millis:
        newest = self._newest.get((tenant, shape))
        if newest is None:
            return DEFAULT_MS
        if newest.median is None:
            newest.median = sorted(newest.spans)[len(newest.spans) // 2]
        return newest.median
