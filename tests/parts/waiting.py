"""Waiting for a fact, with a deadline. The only place in the tests where time passes on purpose."""

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

import anyio

Fact = TypeVar("Fact")

FIRST_PAUSE_SECONDS = 0.002
LONGEST_PAUSE_SECONDS = 0.1


class NeverHappened(AssertionError):
    """The deadline passed and the fact was still not there."""


def wait_for(predicate: Callable[[], Fact], deadline: float, what: str) -> Fact:
    """Call `predicate` until it gives something true, and give that back; `what` completes "waited 5 s for …"."""
    end = time.monotonic() + deadline
    pause = FIRST_PAUSE_SECONDS
    while not (fact := predicate()):
        if time.monotonic() >= end:
            raise NeverHappened(f"waited {deadline:g} s for {what}; last answer: {fact!r}")
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
    return fact


@overload
async def wait_until(predicate: Callable[[], Awaitable[Fact]], deadline: float, what: str) -> Fact: ...
@overload
async def wait_until(predicate: Callable[[], Fact], deadline: float, what: str) -> Fact: ...
async def wait_until(predicate: Callable[[], Any], deadline: float, what: str) -> Any:
    """`wait_for` inside a loop that must go on meanwhile; the predicate may be async."""
    end = time.monotonic() + deadline
    pause = FIRST_PAUSE_SECONDS
    while not (fact := await _value(predicate())):
        if time.monotonic() >= end:
            raise NeverHappened(f"waited {deadline:g} s for {what}; last answer: {fact!r}")
        await anyio.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
    return fact


async def _value(answer: Any) -> Any:
    if inspect.isawaitable(answer):
        return await answer
    return answer
