"""The store contract on the stores that need nothing but this machine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.store_suite import StoreContract, Subject
from windlass.adapters.store.sqlite import SqliteStore
from windlass.testing.store import FaultyStore, MemoryStore

pytestmark = pytest.mark.anyio


class HandClock:
    """Stands still until moved."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds

    async def pass_time(self, seconds: float) -> None:
        self.seconds += seconds


class TestStore(StoreContract):
    @pytest.fixture(params=["memory", "faultless", "sqlite"])
    async def subject(self, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
        clock = HandClock()
        if request.param == "sqlite":
            async with SqliteStore.open(tmp_path / "store.db", monotonic=clock) as store:
                yield Subject(store, clock.pass_time)
        elif request.param == "faultless":
            yield Subject(FaultyStore(MemoryStore(monotonic=clock), ()), clock.pass_time)
        else:
            yield Subject(MemoryStore(monotonic=clock), clock.pass_time)
