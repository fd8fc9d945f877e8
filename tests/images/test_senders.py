"""The tree of senders, held against its promises for every shape."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.distribution import rounds_needed, sender_rounds


@given(st.integers(1, 5), st.integers(0, 200), st.integers(1, 8))
def test_everybody_receives_once_and_nobody_sends_what_it_has_not_or_twice(
    holders: int, lackers: int, fanout: int
) -> None:
    have = {f"h{i}" for i in range(holders)}
    waiting = [f"l{i}" for i in range(lackers)]
    rounds = sender_rounds(sorted(have), waiting, fanout=fanout)
    sent: list[str] = []
    received: list[str] = []
    for sends in rounds:
        arrived = [node for send in sends for node in send.receivers]
        assert all(send.sender in have for send in sends)
        assert all(0 < len(send.receivers) <= fanout for send in sends)
        sent += [send.sender for send in sends]
        received += arrived
        have |= set(arrived)
    assert sorted(received) == sorted(waiting)
    assert len(sent) == len(set(sent))
    assert len(rounds) == rounds_needed(holders, lackers, fanout=fanout)


@pytest.mark.parametrize("nodes", [2, 10, 100, 1000, 10_000])
def test_the_rounds_grow_with_the_logarithm_of_the_nodes(nodes: int) -> None:
    rounds = sender_rounds(["first"], [f"n{i}" for i in range(nodes - 1)], fanout=2)
    assert len(rounds) <= math.ceil(math.log2(nodes))


def test_receivers_are_dealt_evenly_to_the_holders() -> None:
    (sends,) = sender_rounds(["a", "b"], ["w", "x", "y", "z"], fanout=4)
    assert [(send.sender, send.receivers) for send in sends] == [("a", ("w", "y")), ("b", ("x", "z"))]


def test_without_a_holder_there_is_nothing_to_plan() -> None:
    with pytest.raises(ValueError, match="nobody"):
        sender_rounds([], ["x"])
