"""The bucket: as many at once as it holds, then as fast as it fills, and never more in any window."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.admission.rate import SECOND_NS, Buckets


def test_after_a_pause_so_many_come_at_once_and_then_one_at_a_time() -> None:
    buckets: Buckets[str] = Buckets()
    assert [buckets.take("a", 10, 3, 0) for _ in range(4)] == [0, 0, 0, SECOND_NS // 10]
    assert buckets.take("a", 10, 3, SECOND_NS // 10) == 0
    assert buckets.take("a", 10, 3, SECOND_NS // 10) == SECOND_NS // 10


def test_one_that_is_told_to_wait_is_let_in_when_it_did() -> None:
    buckets: Buckets[str] = Buckets()
    buckets.take("a", 3, 1, 5)
    wait = buckets.take("a", 3, 1, 5)
    assert buckets.take("a", 3, 1, 5 + wait - 1) == 1
    assert buckets.take("a", 3, 1, 5 + wait) == 0


def test_what_one_uses_up_is_not_the_others() -> None:
    buckets: Buckets[str] = Buckets()
    while not buckets.take("a", 1, 5, 0):
        pass
    assert buckets.take("b", 1, 5, 0) == 0


@given(
    st.integers(1, 1000), st.integers(1, 50), st.lists(st.integers(0, 3 * SECOND_NS), min_size=1, max_size=200)
)  # fmt: skip
def test_no_window_has_more_than_the_rate_and_what_may_come_at_once(rate: int, at_once: int, steps: list[int]) -> None:
    buckets: Buckets[str] = Buckets()
    now, taken = 0, list[int]()
    for step in steps:
        now += step // 50
        if not buckets.take("a", rate, at_once, now):
            taken.append(now)
    for first, begin in enumerate(taken):
        for last in range(first, len(taken)):
            span = taken[last] - begin
            assert last - first + 1 <= at_once + span // (SECOND_NS // rate)
