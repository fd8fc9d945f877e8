"""The tree of senders: how one image gets from the nodes that have it to all that lack it.

Each sender reads a layer once and feeds up to `fanout` receivers from that one reading; in the next round the
receivers send too. So a layer leaves any node at most once, and n nodes take O(log n) rounds.
"""

from collections import deque
from collections.abc import Sequence

from msgspec import Struct


class Send(Struct, frozen=True):
    sender: str
    receivers: tuple[str, ...]


def sender_rounds(holders: Sequence[str], lackers: Sequence[str], *, fanout: int = 4) -> tuple[tuple[Send, ...], ...]:
    """Rounds of simultaneous sends. Every lacker receives once; nobody sends before it has received, or twice."""
    if lackers and not holders:
        raise ValueError("nobody has it")
    if fanout < 1:
        raise ValueError("a sender feeds at least one receiver")
    waiting = deque(lackers)
    ready = list(holders)
    rounds: list[tuple[Send, ...]] = []
    while waiting:
        sends = tuple(_spread(ready, waiting, fanout))
        rounds.append(sends)
        ready = [node for send in sends for node in send.receivers]
    return tuple(rounds)


def rounds_needed(holders: int, lackers: int, *, fanout: int = 4) -> int:
    """The bound the plan keeps: the depth of a `fanout`-ary tree."""
    depth, reached = 0, 0
    width = holders
    while reached < lackers:
        width *= fanout
        reached += width
        depth += 1
    return depth


def _spread(ready: Sequence[str], waiting: "deque[str]", fanout: int) -> list[Send]:
    """Receivers are dealt evenly: two holders and four lackers make two and two, not four and none."""
    hands: list[list[str]] = [[] for _ in ready]
    for _ in range(fanout):
        for hand in hands:
            if waiting:
                hand.append(waiting.popleft())
    return [Send(sender, tuple(hand)) for sender, hand in zip(ready, hands, strict=True) if hand]
