"""A full disk stops writes, and nothing else: reads go on, and writes resume without a restart (R-13, R-17)."""

import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import anyio
import apsw
import pytest

from tests.store.small_disk import filled, small_disk
from windlass.adapters.store.sqlite import SqliteStore
from windlass.ports.store import Put, Refused, Store

pytestmark = pytest.mark.anyio

DISK_BYTES = 12 << 20
VALUE = bytes(50_000)


class Place:
    """Where a store may be put whose disk can be filled and freed."""

    def __init__(self, directory: Path, full: Callable[[], AbstractContextManager[None]]) -> None:
        self.path = directory / "store.db"
        self.full = full


@pytest.fixture(params=["a full file system", "a file size limit"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "a file size limit":
        yield Place(tmp_path, _limited_file_size)
        return
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        yield Place(disk, lambda: filled(disk))


async def test_a_full_disk_refuses_writes_and_recovers_when_space_returns(place: Place) -> None:
    async with SqliteStore.open(place.path) as store:
        accepted = {f"/before/{n}": await store.commit([Put(f"/before/{n}", VALUE)]) for n in range(10)}
        with place.full():
            refused = await _commit_until_refused(store, accepted)
            assert await store.get(refused) is None
            assert await _keys(store) == accepted.keys()
            with pytest.raises(Refused):
                await store.commit([Put("/again", VALUE * 20)])
            assert await _keys(store) == accepted.keys()
        accepted["/after"] = await store.commit([Put("/after", VALUE * 20)])
        assert await _keys(store) == accepted.keys()
    assert _is_sound(place.path)
    async with SqliteStore.open(place.path) as store:
        items = (await store.range("/")).items
        assert {item.key: item.modified for item in items} == accepted


async def test_that_there_is_no_room_is_said_without_a_write(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        async with SqliteStore.open(disk / "store.db") as store:
            await store.check_room()
            with filled(disk):
                with pytest.raises(Refused) as refusal:
                    await store.check_room()
                assert refusal.value.code == "store-disk-full"
            await store.check_room()
            assert await store.revision() == 0


async def test_watchers_hear_what_was_accepted_and_nothing_of_what_was_refused(place: Place) -> None:
    accepted: dict[str, int] = {}
    async with SqliteStore.open(place.path) as store:
        async with store.watch(after=0) as changes:
            with place.full():
                await _commit_until_refused(store, accepted)
            accepted["/after"] = await store.commit([Put("/after", VALUE)])
            with anyio.fail_after(120):
                heard = [await anext(changes) for _ in accepted]
    assert {commit[0].key: commit[0].revision for commit in heard} == accepted
    assert sorted(accepted.values()) == list(range(1, len(accepted) + 1))


async def test_a_commit_too_large_for_the_disk_does_not_take_small_ones_along(tmp_path: Path) -> None:
    refused: list[tuple[str, str]] = []
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        async with SqliteStore.open(disk / "store.db") as store:

            async def put(key: str, value: bytes) -> None:
                try:
                    await store.commit([Put(key, value)])
                except Refused as error:
                    refused.append((key, error.code))

            async with anyio.create_task_group() as tasks:
                for n in range(40):
                    tasks.start_soon(put, f"/small/{n}", b"x")
                    if n == 20:
                        tasks.start_soon(put, "/huge", bytes(DISK_BYTES * 2))
            assert refused == [("/huge", "store-disk-full")]
            assert await _keys(store) == {f"/small/{n}" for n in range(40)}


async def test_leases_outlive_a_full_disk_and_end_when_space_returns(tmp_path: Path) -> None:
    now = [0.0]
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        async with SqliteStore.open(disk / "store.db", monotonic=lambda: now[0]) as store:
            lease = await store.grant(5)
            await store.commit([Put("/leased", b"1", lease)])
            with filled(disk):
                await _commit_until_refused(store, {})
                # Not one page of the log is left for the deletion: use up what a smaller commit could still take.
                for size in (10_000, 1_000, 1):
                    with pytest.raises(Refused):
                        for n in range(1_000):
                            await store.commit([Put(f"/fill/{size}/{n}", bytes(size))])
                now[0] += 6
                assert not await store.keep_alive(lease)
                assert await store.get("/leased") is not None
            now[0] += 2
            assert await store.get("/leased") is None


async def _commit_until_refused(store: Store, accepted: dict[str, int]) -> str:
    for n in range(10_000):
        key = f"/while-full/{n}"
        try:
            accepted[key] = await store.commit([Put(key, VALUE)])
        except Refused:
            return key
    raise AssertionError("the disk never filled up")


async def _keys(store: Store) -> set[str]:
    return {item.key for item in (await store.range("/")).items}


def _is_sound(path: Path) -> bool:
    connection = apsw.Connection(str(path))
    return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@contextmanager
def _limited_file_size() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
