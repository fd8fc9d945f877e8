"""The store contract on the stores that need nothing but this machine, and the same stores against a dictionary."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.contracts.clocks import HandClock
from tests.contracts.store_model import StoreMachine
from tests.contracts.store_subject import Subject
from tests.contracts.store_suite import StoreContract
from windlass.adapters.store.sqlite import SqliteStore
from windlass.ports.store import Store
from windlass.testing.store import FaultyStore, MemoryStore


@pytest.mark.anyio
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


class MemoryMachine(StoreMachine):
    @asynccontextmanager
    async def open_store(self, clock: HandClock) -> AsyncIterator[Store]:
        yield MemoryStore(monotonic=clock)


class SqliteMachine(StoreMachine):
    can_reopen = True

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()

    @asynccontextmanager
    async def open_store(self, clock: HandClock) -> AsyncIterator[Store]:
        async with SqliteStore.open(Path(self.directory.name) / "store.db", monotonic=clock) as store:
            yield store

    def teardown(self) -> None:
        super().teardown()
        self.directory.cleanup()


_quick = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
TestMemoryAgainstModel = MemoryMachine.TestCase
TestMemoryAgainstModel.settings = _quick
TestSqliteAgainstModel = SqliteMachine.TestCase
TestSqliteAgainstModel.settings = _quick
