"""How many workers should a dynamic pool have now? A pure step: what is seen in, one explained decision out.

The floor (minimum, schedule) is held without waiting for a cooldown. Beyond it, any trigger at its upper mark grows the pool and
all at their lower marks shrink it, bounded by cooldowns. How many a minute bounds all of it, the floor too: it is what a provider
can bear. Every bound that bit is named. Only idle workers are ever given back, so what is counted as removable is what the World
says is idle.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from windlass.core.model.ids import Millis, PoolId
from windlass.core.model.pool import Change, Measure, Scaling, Trigger
from windlass.core.model.spans import spoken

_MINUTE_MS: Final = Millis(60_000)


class Seen(Struct, frozen=True, kw_only=True):
    """A pool at one moment. A measure that cannot be had (no workers yet, no answer) is absent, never a guess."""

    ready: int = 0
    coming: int = 0
    """Asked for and not joined."""
    ending: int = 0
    """Being given back; they count against the maximum until they are gone."""
    idle: int = 0
    """Of the ready, without a run."""
    stale: int = 0
    """Of the idle, those idle for so long that they go whatever the triggers say."""
    needed: int = 0
    """Workers that the queued jobs would fill."""
    scheduled: int = 0
    """The minimum by the schedule that is in force."""
    measures: tuple[tuple[Measure, int], ...] = ()

    @property
    def size(self) -> int:
        return self.ready + self.coming


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to do, by which rule, from which numbers, and what held it back."""

    by: int = 0
    """Workers to ask for, or, negative, to give back."""
    rule: str = ""
    wanted: int = 0
    """By the rule alone."""
    held: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    """The kinds of these, in the same order: `maximum`, `cooldown`, `rate`, `busy`."""


class ScalingStep(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="pool-scaled"):
    """One line of a pool's history: from which numbers, by which rule, what was done, and what held it back."""

    pool: PoolId
    number: int
    """Of the decision."""
    at: Millis
    seen: Seen
    verdict: Verdict
    workers: tuple[str, ...] = ()
    """Asked for, or given back."""


class PoolTally(Struct, kw_only=True):
    """What a pool did since the server started."""

    steps: dict[str, int] = field(default_factory=dict)
    """`up`, `down`, `held`"""
    holds: dict[str, int] = field(default_factory=dict)
    """What held steps back, by its kind."""
    ready: int = 0
    """Workers that came,"""
    ready_ms: int = 0
    """and the time they took, together."""
    given_up: int = 0
    """Workers that did not."""
    refusals: int = 0
    """New words of its provisioner about why it could not."""


class PoolFigures(Struct, frozen=True, kw_only=True):
    pool: PoolId
    workers_max: int
    seen: Seen
    tally: PoolTally


class _Wish(Struct, frozen=True):
    size: int
    rule: str


def judge(scaling: Scaling, seen: Seen, past: Sequence[Change], now: Millis) -> Verdict:
    """`past`: the pool's changes, newest last; those older than a minute and its cooldowns do not matter."""
    floor = min(max(scaling.workers_min, seen.scheduled), scaling.workers_max)
    if seen.size > scaling.workers_max:
        return _shrink(scaling, seen, past, now, _Wish(scaling.workers_max, "more than the maximum"))
    if seen.size < floor:
        return _grow(scaling, seen, past, now, _Wish(floor, _floor_rule(scaling, seen)), is_urgent=True)
    wish = _upward(scaling, seen)
    if wish is not None and wish.size > seen.size:
        return _grow(scaling, seen, past, now, wish, is_urgent=False)
    wish = _downward(scaling, seen, floor)
    if wish is not None and wish.size < seen.size:
        return _shrink(scaling, seen, past, now, wish)
    return Verdict(wanted=seen.size, rule="steady")


def grows_again_at(scaling: Scaling, past: Sequence[Change], now: Millis) -> Millis | None:
    """When neither its cooldown nor its rate holds growth any more; None: neither does."""
    left = _cooling(past, now, scaling.cooldown_up_ms, is_up=True)
    moments = [now + left] if left else []
    grown = [change for change in past if change.by > 0 and change.at > now - _MINUTE_MS]
    if sum(change.by for change in grown) >= scaling.up_per_minute and grown:
        moments.append(grown[0].at + _MINUTE_MS)
    return Millis(max(moments)) if moments else None


def _floor_rule(scaling: Scaling, seen: Seen) -> str:
    return f"schedule: at least {seen.scheduled}" if seen.scheduled > scaling.workers_min else "at least the minimum"


def _upward(scaling: Scaling, seen: Seen) -> _Wish | None:
    """The largest wish of all that have one."""
    wishes = [_triggered(trigger, value, seen) for trigger, value in _pairs(scaling, seen) if value >= trigger.up]
    if seen.needed and not seen.size:
        wishes.append(_Wish(seen.needed, f"nothing is there, and {seen.needed} would be filled"))
    if seen.idle + seen.coming < scaling.spares:
        missing = scaling.spares - seen.idle - seen.coming
        wishes.append(_Wish(seen.size + missing, f"{scaling.spares} spare kept warm"))
    return max(wishes, key=lambda wish: wish.size, default=None)


def _triggered(trigger: Trigger, value: int, seen: Seen) -> _Wish:
    name = f"{trigger.measure} {_said(trigger.measure, value)} ≥ {_said(trigger.measure, trigger.up)}"
    if trigger.target and trigger.measure is Measure.DEPTH:
        busy = seen.ready - seen.idle
        return _Wish(max(busy - (-value // trigger.target), seen.size), f"{name}, {trigger.target} for each worker")
    if trigger.target and trigger.measure is not Measure.WAIT:
        # As many as bring it to the target, were the load to stay: rounded up, and one at least.
        size = max(-(-seen.ready * value // trigger.target), seen.ready + 1)
        return _Wish(size, f"{name}, to {_said(trigger.measure, trigger.target)}")
    return _Wish(seen.size + trigger.step_up, name)


def _downward(scaling: Scaling, seen: Seen, floor: int) -> _Wish | None:
    """Those idle for too long; else only when every trigger that has a value agrees. Never what the queue would fill."""
    least = max(floor, seen.ready - seen.idle + max(scaling.spares, min(seen.needed, seen.idle)))
    if seen.stale and seen.size > least:
        rule = f"{seen.stale} idle for {spoken(_seconds(scaling.idle_ms))}"
        return _Wish(max(seen.size - seen.stale, least), rule)
    pairs = _pairs(scaling, seen)
    if not pairs or seen.coming or any(value > trigger.down for trigger, value in pairs):
        return None
    size = max(_lowered(trigger, value, seen) for trigger, value in pairs)
    return _Wish(max(size, least), "all measures at their lower marks")


def _lowered(trigger: Trigger, value: int, seen: Seen) -> int:
    """As many as bring the measure to its target, or a step fewer. Nobody is coming now, so the ready are all there are."""
    if trigger.target and trigger.measure is Measure.DEPTH:
        return seen.ready - seen.idle - (-value // trigger.target)
    if trigger.target and trigger.measure is not Measure.WAIT:
        return -(-seen.ready * value // trigger.target)
    return seen.size - trigger.step_down


def _grow(
    scaling: Scaling, seen: Seen, past: Sequence[Change], now: Millis, wish: _Wish, *, is_urgent: bool
) -> Verdict:
    held: list[tuple[str, str]] = []
    by = wish.size - seen.size
    room = scaling.workers_max - seen.size - seen.ending
    by = _bounded(by, room, ("maximum", f"maximum {scaling.workers_max}"), held)
    if not is_urgent and by > 0:
        left = _cooling(past, now, scaling.cooldown_up_ms, is_up=True)
        by = _bounded(by, 0, ("cooldown", f"cooldown, {spoken(_seconds(left))} left"), held) if left else by
    rate = scaling.up_per_minute - _within_a_minute(past, now, is_up=True)
    by = _bounded(by, rate, ("rate", f"at most {scaling.up_per_minute} more a minute"), held)
    return _verdict(max(0, by), wish, held)


def _shrink(scaling: Scaling, seen: Seen, past: Sequence[Change], now: Millis, wish: _Wish) -> Verdict:
    held: list[tuple[str, str]] = []
    by = seen.size - wish.size
    by = _bounded(by, seen.idle, ("busy", "the others are busy"), held)
    left = _cooling(past, now, scaling.cooldown_down_ms, is_up=False)
    by = _bounded(by, 0, ("cooldown", f"cooldown, {spoken(_seconds(left))} left"), held) if left else by
    rate = scaling.down_per_minute - _within_a_minute(past, now, is_up=False)
    by = _bounded(by, rate, ("rate", f"at most {scaling.down_per_minute} fewer a minute"), held)
    return _verdict(-max(0, by), wish, held)


def _pairs(scaling: Scaling, seen: Seen) -> list[tuple[Trigger, int]]:
    values = dict(seen.measures)
    return [(trigger, values[trigger.measure]) for trigger in scaling.triggers if trigger.measure in values]


def _verdict(by: int, wish: _Wish, held: list[tuple[str, str]]) -> Verdict:
    words, kinds = tuple(said for _, said in held), tuple(kind for kind, _ in held)
    return Verdict(by=by, rule=wish.rule, wanted=wish.size, held=words, holds=kinds)


def _said(measure: Measure, value: int) -> str:
    """As people write it in a manifest, with its unit."""
    if measure is Measure.WAIT:
        return spoken(_seconds(Millis(value)))
    return str(value) if measure is Measure.DEPTH else f"{value / 10:g} %"


def _bounded(by: int, most: int, hold: tuple[str, str], held: list[tuple[str, str]]) -> int:
    """`hold`: its kind and its words."""
    if by <= most:
        return by
    held.append(hold)
    return max(0, most)


def _cooling(past: Sequence[Change], now: Millis, cooldown: Millis, *, is_up: bool) -> Millis:
    """What is left of it. Growing waits for growth, shrinking for any change: what was just asked for is not sent away."""
    last = max((change.at for change in past if change.by > 0 or not is_up), default=None)
    return Millis(max(0, last + cooldown - now)) if last is not None else Millis(0)


def _within_a_minute(past: Sequence[Change], now: Millis, *, is_up: bool) -> int:
    return sum(abs(change.by) for change in past if (change.by > 0) is is_up and change.at > now - _MINUTE_MS)


def _seconds(span: Millis) -> int:
    return -(-span // 1000)
