"""The store that fails by plan does what its plan says, and the same again from the same seed."""

from itertools import islice

import pytest

from windlass.ports.store import Expect, Put, Refused, Unknown
from windlass.testing.store import Fate, FaultyStore, MemoryStore, Mishap, seeded_plan

pytestmark = pytest.mark.anyio


async def test_a_refused_commit_is_not_executed() -> None:
    store = FaultyStore(MemoryStore(), [Fate(mishap=Mishap.REFUSED)])
    with pytest.raises(Refused):
        await store.commit([Put("/a", b"1")])
    assert await store.get("/a") is None
    assert await store.commit([Put("/a", b"2")]) == 1


async def test_a_lost_commit_is_unknown_and_not_executed() -> None:
    store = FaultyStore(MemoryStore(), [Fate(mishap=Mishap.LOST)])
    with pytest.raises(Unknown):
        await store.commit([Put("/a", b"1")])
    assert await store.get("/a") is None


async def test_an_unanswered_commit_is_unknown_and_executed() -> None:
    store = FaultyStore(MemoryStore(), [Fate(mishap=Mishap.UNANSWERED)])
    with pytest.raises(Unknown):
        await store.commit([Put("/a", b"1")])
    assert await store.get("/a") is not None


async def test_an_unanswered_commit_hides_that_it_was_deposed() -> None:
    store = FaultyStore(MemoryStore(), [Fate(mishap=Mishap.UNANSWERED)])
    with pytest.raises(Unknown):
        await store.commit([Put("/a", b"1")], [Expect(key="/leader", created=7)])
    assert await store.get("/a") is None


async def test_a_late_commit_arrives_after_the_caller_has_read_back() -> None:
    store = FaultyStore(MemoryStore(), [Fate(mishap=Mishap.LATE, late_by_operations=2)])
    with pytest.raises(Unknown):
        await store.commit([Put("/a", b"1")])
    assert await store.get("/a") is None
    assert await store.get("/a") is not None


async def test_a_late_commit_still_keeps_its_expectations() -> None:
    store = FaultyStore(MemoryStore(), [Fate(mishap=Mishap.LATE, late_by_operations=2)])
    with pytest.raises(Unknown):
        await store.commit([Put("/a", b"late")], [Expect(key="/a", created=0)])
    await store.commit([Put("/a", b"in time")])
    assert await store.revision() == 1
    item = await store.get("/a")
    assert item is not None
    assert item.value == b"in time"


async def test_a_delay_is_slept_on_the_clock_it_was_given() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    store = FaultyStore(MemoryStore(), [Fate(delay_seconds=3.0)], sleep=sleep)
    await store.commit([Put("/a", b"1")])
    await store.commit([Put("/a", b"2")])
    assert slept == [3.0]


def test_a_seed_gives_the_same_plan_again() -> None:
    def plan(seed: int) -> list[Fate]:
        mishaps = {Mishap.LOST: 0.1, Mishap.UNANSWERED: 0.1, Mishap.REFUSED: 0.1}
        return list(islice(seeded_plan(seed, mishaps, delayed=0.3), 1_000))

    assert plan(1) == plan(1)
    assert plan(1) != plan(2)
    kinds = [fate.mishap for fate in plan(1)]
    assert set(kinds) == {Mishap.NONE, Mishap.LOST, Mishap.UNANSWERED, Mishap.REFUSED}
    assert any(fate.delay_seconds for fate in plan(1))
