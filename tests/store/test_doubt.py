"""When the disk fails in the middle of COMMIT: what is said to be refused never comes back, and doubt is admitted."""

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.store.disks import Operation, Platter, Sync, WatchedDisk
from windlass.adapters.store.sqlite import SqliteStore
from windlass.core.errors import Unavailable
from windlass.ports.store import Put, Refused, Store, Unknown

pytestmark = pytest.mark.anyio


class FailingDisk:
    """Syncs of the WAL fail as often as told; the platter knows what a crash would leave."""

    def __init__(self) -> None:
        self.failures_left = 0
        self.platter = Platter()
        self._vfs = WatchedDisk("failing", self._touched, is_default=True)

    def crash(self, directory: Path) -> Path:
        """The files after a crash of the process: the kernel still writes all it was given."""
        self.platter.cut(directory, random.Random(), kept=1.0, torn=0.0)
        return directory / "store.db"

    def remove(self) -> None:
        self._vfs.unregister()

    def _touched(self, path: str, operation: Operation) -> None:
        if Path(path).parent.name != "live":
            return  # an image of a crash, being looked at
        if path.endswith("-wal") and isinstance(operation, Sync) and self.failures_left:
            self.failures_left -= 1
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        self.platter.note(path, operation)


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    disk = FailingDisk()
    yield disk
    disk.remove()


async def test_a_failed_sync_that_could_be_settled_is_a_refusal_for_good(disk: FailingDisk, tmp_path: Path) -> None:
    async with SqliteStore.open(tmp_path / "live" / "store.db") as store:
        revision = await store.commit([Put("/a", b"1")])
        disk.failures_left = 1
        with pytest.raises(Refused):
            await store.commit([Put("/lost", b"1")])
        assert await store.get("/lost") is None
        assert await keys_after(disk.crash(tmp_path / "crash-1")) == {"/a"}
        assert await store.commit([Put("/b", b"1")]) == revision + 1
        assert await keys_after(disk.crash(tmp_path / "crash-2")) == {"/a", "/b"}


async def test_a_failed_sync_that_cannot_be_settled_is_unknown(disk: FailingDisk, tmp_path: Path) -> None:
    """And rightly so: invisible to us, the commit is there after a crash."""
    async with SqliteStore.open(tmp_path / "live" / "store.db") as store:
        await store.commit([Put("/a", b"1")])
        disk.failures_left = 2
        with pytest.raises(Unknown):
            await store.commit([Put("/doubtful", bytes(10_000))])
        disk.failures_left = 1_000
        with pytest.raises(Unavailable):
            await store.get("/doubtful")
        with pytest.raises(Refused):
            await store.commit([Put("/next", b"1")])
        disk.failures_left = 0


async def test_a_commit_whose_sync_failed_may_be_found_after_a_crash(disk: FailingDisk, tmp_path: Path) -> None:
    """Why Unknown exists: without the settling commit, the transaction lies complete in the WAL."""
    async with SqliteStore.open(tmp_path / "live" / "store.db") as store:
        await store.commit([Put("/a", b"1")])
        connection = apsw.Connection(str(tmp_path / "live" / "store.db"))
        connection.pragma("synchronous", "full")
        connection.execute("BEGIN IMMEDIATE; DELETE FROM items").fetchall()
        disk.failures_left = 1
        with pytest.raises(apsw.IOError):
            connection.execute("COMMIT")
        assert connection.execute("SELECT count(*) FROM items").get == 1
        connection.close()
        assert await keys_after(disk.crash(tmp_path / "crash")) == set()


async def test_doubt_ends_when_the_disk_is_well_again(disk: FailingDisk, tmp_path: Path) -> None:
    async with SqliteStore.open(tmp_path / "live" / "store.db") as store:
        revision = await store.commit([Put("/a", b"1")])
        disk.failures_left = 2
        with pytest.raises(Unknown):
            await store.commit([Put("/doubtful", b"1")])
        assert disk.failures_left == 0
        assert await store.get("/doubtful") is None
        assert await keys_after(disk.crash(tmp_path / "crash")) == {"/a"}
        assert await store.commit([Put("/b", b"1")]) == revision + 1
        assert await keys_of(store) == {"/a", "/b"}


async def keys_of(store: Store) -> set[str]:
    return {item.key for item in (await store.range("")).items}


async def keys_after(crash: Path) -> set[str]:
    async with SqliteStore.open(crash) as store:
        return await keys_of(store)
