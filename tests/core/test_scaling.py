"""The autoscaler's step by tables, and its promises for whatever is seen: bounds held, busy workers kept, every hold named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.model.ids import Millis
from windlass.core.model.pool import Change, Measure, Scaling, Trigger
from windlass.core.model.resources import Resources
from windlass.core.scaling import Seen, Verdict, judge

NOW = Millis(10_000_000)
SIZE = Resources(cpu_millis=1000, memory_bytes=1 << 30)


def a_scaling(**changes: object) -> Scaling:
    return Scaling(**{"workers_max": 10, "worker": SIZE, **changes})  # type: ignore[arg-type]


def loaded(cpu: int, **changes: int) -> Seen:
    measures = ((Measure.CPU, cpu), (Measure.MEMORY, 0), (Measure.DEPTH, 0), (Measure.WAIT, 0))
    return Seen(measures=measures, **changes)


@pytest.mark.parametrize(
    ("seen", "by", "rule"),
    [
        (Seen(needed=4, measures=((Measure.DEPTH, 4),)), 4, "nothing is there, and 4 would be filled"),
        (Seen(), 0, "steady"),
        (loaded(900, ready=4), 2, "cpu 90 % ≥ 80 %, to 60 %"),
        (loaded(800, ready=1), 1, "cpu 80 % ≥ 80 %, to 60 %"),
        (loaded(799, ready=4), 0, "steady"),
        (Seen(ready=3, measures=((Measure.DEPTH, 50),)), 1, "depth 50 ≥ 50"),
        (Seen(ready=3, measures=((Measure.WAIT, 300_000),)), 1, "wait 5 min ≥ 5 min"),
        (loaded(300, ready=4, idle=3), -1, "all measures at their lower marks"),
        (loaded(301, ready=4, idle=3), 0, "steady"),
        (loaded(0, ready=4, idle=4, coming=1), 0, "steady"),
    ],
)
def test_triggers_grow_and_shrink_a_pool(seen: Seen, by: int, rule: str) -> None:
    verdict = judge(a_scaling(), seen, [], NOW)
    assert (verdict.by, verdict.rule, verdict.held) == (by, rule, ())


def test_the_minimum_is_held_at_once_even_in_a_cooldown() -> None:
    just_grown = [Change(at=Millis(NOW - 1), by=1)]
    assert judge(a_scaling(workers_min=3), Seen(ready=1), just_grown, NOW).by == 2


def test_the_minimum_comes_at_the_pools_rate_and_that_is_named() -> None:
    verdict = judge(a_scaling(workers_min=3, up_per_minute=1), Seen(), [], NOW)
    assert (verdict.by, verdict.wanted, verdict.held) == (1, 3, ("at most 1 more a minute",))
    by_hand = judge(a_scaling(workers_min=3, up_per_minute=0), Seen(), [], NOW)
    assert (by_hand.by, by_hand.held) == (0, ("at most 0 more a minute",))


def test_a_schedule_raises_the_floor_and_is_named() -> None:
    verdict = judge(a_scaling(), Seen(ready=1, scheduled=4), [], NOW)
    assert (verdict.by, verdict.rule) == (3, "schedule: at least 4")


def test_a_schedule_never_goes_beyond_the_maximum() -> None:
    assert judge(a_scaling(workers_max=2), Seen(scheduled=9), [], NOW).by == 2


def test_what_holds_a_growth_back_is_named() -> None:
    full = judge(a_scaling(workers_max=4), loaded(900, ready=4), [], NOW)
    assert (full.by, full.held) == (0, ("maximum 4",))
    cooling = judge(a_scaling(), loaded(900, ready=4), [Change(at=Millis(NOW - 20_000), by=1)], NOW)
    assert (cooling.by, cooling.held) == (0, ("cooldown, 40 s left",))
    many = judge(a_scaling(workers_max=50, cooldown_up_ms=Millis(0)), Seen(needed=30), [], NOW)
    assert (many.by, many.wanted, many.held) == (10, 30, ("at most 10 more a minute",))


def test_what_was_just_asked_for_is_not_sent_away() -> None:
    verdict = judge(a_scaling(), loaded(0, ready=4, idle=4), [Change(at=Millis(NOW - 60_000), by=4)], NOW)
    assert (verdict.by, verdict.held) == (0, ("cooldown, 1 min left",))


def test_spares_are_kept_warm_and_not_given_back() -> None:
    scaling = a_scaling(spares=2)
    assert judge(scaling, loaded(500, ready=4, idle=1), [], NOW).by == 1
    assert judge(scaling, loaded(0, ready=2, idle=2), [], NOW).by == 0


def test_workers_being_given_back_count_against_the_maximum() -> None:
    verdict = judge(a_scaling(workers_max=5), loaded(900, ready=3, ending=2), [], NOW)
    assert (verdict.by, verdict.held) == (0, ("maximum 5",))


def test_a_measure_that_cannot_be_had_is_no_reason() -> None:
    assert judge(a_scaling(), Seen(ready=3, idle=3), [], NOW) == Verdict(wanted=3, rule="steady")


counts = st.integers(0, 60)
scalings = st.builds(
    lambda low, span, **rest: a_scaling(workers_min=low, workers_max=low + span, **rest),
    low=st.integers(0, 20),
    span=st.integers(0, 40),
    spares=st.integers(0, 5),
    up_per_minute=st.integers(0, 20),
    down_per_minute=st.integers(0, 20),
    triggers=st.lists(
        st.builds(
            lambda measure, down, gap, target, step: Trigger(
                measure=measure, up=down + gap, down=down, target=target, step_up=step, step_down=step
            ),
            st.sampled_from(Measure),
            st.integers(0, 500),
            st.integers(1, 500),
            st.none() | st.integers(1, 900),
            st.integers(1, 7),
        ),
        max_size=4,
        unique_by=lambda trigger: trigger.measure,
    ).map(tuple),
)
sights = st.builds(
    lambda ready, busy, **rest: Seen(ready=ready, idle=max(0, ready - busy), **rest),
    ready=counts,
    busy=counts,
    coming=st.integers(0, 10),
    ending=st.integers(0, 10),
    needed=counts,
    scheduled=st.integers(0, 30),
    measures=st.dictionaries(st.sampled_from(Measure), st.integers(0, 1200)).map(lambda found: tuple(found.items())),
)
pasts = st.lists(
    st.builds(
        lambda ago, by: Change(at=Millis(NOW - ago), by=by),
        st.integers(0, 200_000),
        st.integers(-9, 9).filter(bool),
    ),
    max_size=6,
).map(lambda changes: sorted(changes, key=lambda change: change.at))


@given(scalings, sights, pasts)
def test_for_whatever_is_seen_the_bounds_hold(scaling: Scaling, seen: Seen, past: list[Change]) -> None:
    verdict = judge(scaling, seen, past, NOW)
    if verdict.by > 0:
        assert seen.size + seen.ending + verdict.by <= scaling.workers_max
        assert _recent(past, is_up=True) + verdict.by <= scaling.up_per_minute
    if verdict.by < 0:
        assert -verdict.by <= seen.idle
        assert seen.size + verdict.by >= min(max(scaling.workers_min, seen.scheduled), scaling.workers_max)
        assert _recent(past, is_up=False) - verdict.by <= scaling.down_per_minute
        assert all(change.at <= NOW - scaling.cooldown_down_ms for change in past)


@given(scalings, sights, pasts)
def test_a_wish_that_is_not_granted_whole_says_what_held_it(scaling: Scaling, seen: Seen, past: list[Change]) -> None:
    verdict = judge(scaling, seen, past, NOW)
    assert verdict.rule
    assert bool(verdict.held) == (verdict.wanted != seen.size + verdict.by)


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_constant_load_is_reached_and_then_nothing_moves(busy: int, start: int) -> None:
    """Jobs that fill `busy` workers, whatever was there at first: steady within a few rounds, and enough for the load."""
    scaling = a_scaling(workers_max=80, up_per_minute=80, down_per_minute=80, worker=SIZE)
    past: list[Change] = []
    now, size = NOW, start
    verdicts = []
    for _ in range(60):
        held = min(busy, size)
        measures = ((Measure.CPU, held * 1000 // size), (Measure.DEPTH, busy - held)) if size else ()
        verdict = judge(scaling, Seen(ready=size, idle=size - held, needed=busy - held, measures=measures), past, now)
        verdicts.append(verdict)
        size += verdict.by
        past = [*past, *([Change(at=now, by=verdict.by)] if verdict.by else [])]
        now = Millis(now + 120_000)
    assert size >= busy
    assert [verdict.by for verdict in verdicts[-5:]] == [0] * 5


def _recent(past: list[Change], *, is_up: bool) -> int:
    return sum(abs(change.by) for change in past if (change.by > 0) is is_up and change.at > NOW - 60_000)
