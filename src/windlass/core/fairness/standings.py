"""Deserved and received: what each tenant would have been given by an ideal scheduler, and what it was.

The ideal divides every bit of service at once, by weight, among the tenants that have jobs waiting (and whoever is served just
now). It is kept as one number that grows with the service for a unit of weight; a tenant that waits need not be touched until it
is asked about, stops waiting, or changes its weight. A measurement, not a decision: it is not stored, and starts anew with each
leadership.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from windlass.core.fairness.account import Work
from windlass.core.fairness.standing import Mark, Standing
from windlass.core.model.ids import Millis, TenantId

MARK_MS: Final = Millis(300_000)
"""How finely a window can be told."""
_MARKS: Final = 13
"""An hour of them, and the one before."""
_LEAST_KEPT: Final = 1e-100
"""Below, numbers are brought to a size again at which a fraction has all its digits."""


class Standings:
    def __init__(self, weight_of: Callable[[TenantId], int]) -> None:
        self._weight_of = weight_of
        self._sides: dict[TenantId, _Side] = {}
        self._given = 0.0
        """Service for a unit of weight, of which `_kept` was not taken back."""
        self._kept = 1.0
        self._received = 0
        """By all together; as much as all together deserved."""
        self._weights = 0
        """Of those that wait."""
        self.since: Millis | None = None
        """When counting began: with the leadership, or where nobody says when that was, with the first service."""
        self._served_at = Millis(0)
        self._marks: deque[Mark] = deque(maxlen=_MARKS)

    def begin(self, now: Millis) -> None:
        """With the leadership, before anybody is served: a quiet hour before the first job is part of what was measured."""
        self.since = now

    def waits(self, tenant: TenantId, does: bool) -> None:
        """Its first job has come, or its last one has left."""
        side = self._side(tenant)
        self._settle(side)
        side.waits = does
        self._weights += side.weight if does else -side.weight

    def weigh(self, tenant: TenantId) -> None:
        """Its weight may have changed."""
        side = self._sides.get(tenant)
        if side is not None:
            self._settle(side)
            weight = self._weight_of(tenant)
            if side.waits:
                self._weights += weight - side.weight
            side.weight = weight

    def serve(self, tenant: TenantId, work: Work, now: Millis) -> None:
        """A charge."""
        self._serve(self._side(tenant), work, now)

    def _serve(self, side: "_Side", work: Work, now: Millis) -> None:
        self._note_time(now)
        side.received += work
        self._received += work
        weights = self._weights if side.waits else self._weights + side.weight
        share = work / weights / self._kept
        self._given += share
        if not side.waits:
            side.deserved += share * side.weight
            side.seen = self._given

    def correct(self, tenant: TenantId, work: Work, now: Millis, *, charged_at: Millis) -> None:
        """By so much a charge was wrong; less than nothing: too high. What was charged before this leadership was not counted
        here, so it is not corrected here either; and no more is taken back than was counted, whatever the clocks say.
        """
        if self.since is not None and charged_at >= self.since:
            side = self._side(tenant)
            if work < 0:
                self._take_back(side, min(-work, side.received), now)
            else:
                self._serve(side, work, now)

    def _take_back(self, side: "_Side", work: Work, now: Millis) -> None:
        """From all, by what they deserved so far: who waited when it was charged is not known any more, and who waits now need not
        have been among them."""
        self._note_time(now)
        side.received -= work
        if self._received:
            self._kept *= (self._received - work) / self._received
        self._received -= work
        if self._kept < _LEAST_KEPT:
            for one in self._sides.values():
                self._settle(one)
                one.deserved *= self._kept
                one.seen = 0.0
            self._given, self._kept = 0.0, 1.0

    def _note_time(self, now: Millis) -> None:
        if self.since is None:
            self.since = now
        if not self._marks or now >= self._marks[-1].at + MARK_MS:
            self._mark(now)
        self._served_at = now

    def all(self, now: Millis, *, window_ms: Millis | None = None) -> tuple[Millis, list[Standing]]:
        """From when on, and everybody's: since the start, or in the window, which begins at a mark where service went on."""
        since, before = self.since if self.since is not None else now, dict[TenantId, tuple[Work, Work]]()
        if window_ms is not None and now - window_ms > since:
            since, before = self._at(Millis(now - window_ms))
        return since, [self._standing(tenant, before.get(tenant, (0, 0))) for tenant in self._sides]

    def _at(self, start: Millis) -> "tuple[Millis, dict[TenantId, tuple[Work, Work]]]":
        """What everybody had by then, or by the newest mark before it. Between two services nothing changes: there it is exact."""
        if self._served_at < start:
            return start, self._everyone()
        known, had = self.since if self.since is not None else start, dict[TenantId, tuple[Work, Work]]()
        for mark in self._marks:
            if mark.at > start:
                return (start, mark.had) if mark.served_at < start else (known, had)
            known, had = mark.at, mark.had
        return known, had

    def _standing(self, tenant: TenantId, before: tuple[Work, Work]) -> Standing:
        """Never below nothing: what is taken back in a window may have been charged before it, or shared with others then."""
        side = self._sides[tenant]
        self._settle(side)
        return Standing(
            tenant=tenant,
            weight=side.weight,
            deserved=max(0, round(side.deserved * self._kept) - before[0]),
            received=max(0, side.received - before[1]),
        )

    def _mark(self, now: Millis) -> None:
        self._marks.append(Mark(at=now, served_at=self._served_at, had=self._everyone()))

    def _everyone(self) -> dict[TenantId, tuple[Work, Work]]:
        for side in self._sides.values():
            self._settle(side)
        return {tenant: (round(side.deserved * self._kept), side.received) for tenant, side in self._sides.items()}

    def _side(self, tenant: TenantId) -> "_Side":
        side = self._sides.get(tenant)
        if side is None:
            side = self._sides[tenant] = _Side(self._weight_of(tenant), self._given)
        return side

    def _settle(self, side: "_Side") -> None:
        if side.waits:
            side.deserved += (self._given - side.seen) * side.weight
        side.seen = self._given


class _Side:
    __slots__ = ("deserved", "received", "seen", "waits", "weight")

    def __init__(self, weight: int, seen: float) -> None:
        self.weight = weight
        self.seen = seen
        self.waits = False
        self.deserved = 0.0
        self.received = 0
