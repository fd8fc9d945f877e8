"""What is SQLite's own in the store: its file, its lock, its thread, its timer."""

import stat
from pathlib import Path

import anyio
import pytest

from windlass.adapters.store import sqlite_writer, watching
from windlass.adapters.store.sqlite import SqliteStore
from windlass.core.errors import NotFound, Unavailable
from windlass.ports.store import Change, Compacted, Expect, Put, Refused

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "store.db"


async def test_what_was_committed_is_there_after_reopening(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        first = await store.commit([Put("/a", b"1")])
        second = await store.commit([Put("/b", b"2")])
    async with SqliteStore.open(path) as store:
        assert await store.revision() == second
        assert [(item.key, item.modified) for item in (await store.range("")).items] == [("/a", first), ("/b", second)]
        async with store.watch(after=first) as changes:
            assert await anext(changes) == (Change(revision=second, key="/b", value=b"2"),)
        assert await store.commit([Put("/c", b"3")], [Expect(key="/a", created=first)]) == second + 1


async def test_compaction_is_remembered_after_reopening(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        revisions = [await store.commit([Put("/a", b"%d" % n)]) for n in range(4)]
        await store.compact(revisions[-1])
    async with SqliteStore.open(path) as store:
        with pytest.raises(Compacted):
            async with store.watch(after=revisions[0]) as changes:
                await anext(changes)
        assert await store.revision() == revisions[-1]


async def test_only_the_owner_may_read_the_files(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        await store.commit([Put("/a", b"1")])
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        assert modes.keys() >= {"store.db", "store.db-wal", "store.db-lock"}
        assert {mode & 0o077 for mode in modes.values()} == {0}


async def test_a_second_opening_is_refused_until_the_first_ends(path: Path) -> None:
    async with SqliteStore.open(path):
        with pytest.raises(Refused) as refusal:
            async with SqliteStore.open(path):
                pass
        assert refusal.value.code == "store-locked"
    async with SqliteStore.open(path) as store:
        assert await store.commit([Put("/a", b"1")]) == 1


async def test_an_error_in_the_block_comes_out_as_it_was_raised(path: Path) -> None:
    with pytest.raises(NotFound, match="mine"):
        async with SqliteStore.open(path):
            raise NotFound("mine")


async def test_a_closed_store_refuses_and_tells_its_watchers(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        watch = store.watch(after=0)
        changes = await watch.__aenter__()
    with pytest.raises(Unavailable) as ended:
        await anext(changes)
    assert ended.value.code == "store-closed"
    with pytest.raises(Refused):
        await store.commit([Put("/a", b"1")])
    with pytest.raises(Unavailable):
        await store.get("/a")
    await watch.__aexit__(None, None, None)


async def test_what_was_submitted_before_closing_is_written(path: Path) -> None:
    revisions: list[int] = []

    async with anyio.create_task_group() as tasks:
        async with SqliteStore.open(path) as store:

            async def put(n: int) -> None:
                revisions.append(await store.commit([Put(f"/{n}", b"x")]))

            for n in range(50):
                tasks.start_soon(put, n)
            await anyio.lowlevel.checkpoint()
    async with SqliteStore.open(path) as store:
        assert await store.revision() == len(revisions) == 50


async def test_a_lease_ends_in_time_although_nobody_calls(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        lease = await store.grant(1)
        after = await store.commit([Put("/l", b"1", lease)])
        async with store.watch(after=after) as changes:
            with anyio.fail_after(120):
                assert await anext(changes) == (Change(revision=after + 1, key="/l", value=None),)


async def test_a_lease_found_at_opening_has_its_whole_time_again(path: Path) -> None:
    now = [0.0]
    async with SqliteStore.open(path, monotonic=lambda: now[0]) as store:
        lease = await store.grant(10)
        await store.commit([Put("/l", b"1", lease)])
        now[0] += 9
    now[0] = 5_000.0  # another boot, another clock
    async with SqliteStore.open(path, monotonic=lambda: now[0]) as store:
        now[0] += 9
        assert await store.get("/l") is not None
        assert await store.keep_alive(lease)
        now[0] += 11
        assert await store.get("/l") is None
        assert await store.grant(10) != lease


async def test_a_commit_given_up_by_its_caller_leaves_the_store_whole(path: Path) -> None:
    async with SqliteStore.open(path) as store:
        for n in range(50):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await store.commit([Put(f"/given-up/{n}", b"x")])
        await store.commit([Put("/kept", b"x")])
        snapshot = await store.range("")
        # Executed or not is open; what counts is that revisions and values agree.
        assert snapshot.revision == len(snapshot.items)
        async with store.watch(after=0) as changes:
            heard = [(await anext(changes))[0].key for _ in snapshot.items]
        assert sorted(heard) == [item.key for item in snapshot.items]


async def test_more_waiting_writes_than_memory_should_hold_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "WAITING_WEIGHT_MAX", 100)
    outcomes: list[str] = []
    async with SqliteStore.open(path) as store:

        async def put(n: int) -> None:
            try:
                await store.commit([Put(f"/{n}", b"x")])
                outcomes.append("written")
            except Refused as error:
                outcomes.append(error.code)

        async with anyio.create_task_group() as tasks:
            for n in range(500):
                tasks.start_soon(put, n)
        written = outcomes.count("written")
        assert outcomes.count("store-overloaded") == 500 - written > 0
        assert written == await store.revision()
        assert await store.commit([Put("/later", b"x")]) == written + 1


async def test_a_watcher_too_slow_for_memory_reads_the_log_while_commits_go_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "WAITING_COMMITS_MAX", 3)
    total = 400
    heard: list[int] = []
    async with SqliteStore.open(path) as store:

        async def write() -> None:
            async with anyio.create_task_group() as writers:
                for n in range(total):
                    writers.start_soon(store.commit, [Put(f"/w/{n}", b"x"), Put("/other", b"x")])

        async with store.watch(after=0, prefix="/w/") as changes, anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            with anyio.fail_after(60):
                while len(heard) < total:
                    (change,) = await anext(changes)
                    heard.append(change.revision)
                    if change.revision % 7 == 0:
                        await store.get("/other")  # be slow, in the store's own time
    assert heard == list(range(1, total + 1))


async def test_a_slow_watcher_overtaken_by_compaction_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "WAITING_COMMITS_MAX", 3)
    async with SqliteStore.open(path) as store:
        async with store.watch(after=0) as changes:
            for n in range(20):
                newest = await store.commit([Put("/a", b"%d" % n)])
            await store.compact(newest)
            with pytest.raises(Compacted):
                await anext(changes)


async def test_the_log_of_many_commits_is_compacted_in_slices_between_which_others_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.adapters.store.sqlite.COMPACTION_SLICE", 10)
    async with SqliteStore.open(path) as store:
        for n in range(95):
            newest = await store.commit([Put("/a", b"%d" % n)])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.compact, newest)
            for n in range(20):
                tasks.start_soon(store.commit, [Put(f"/meanwhile/{n}", b"x")])
        async with store.watch(after=newest - 1) as changes:
            heard = [(await anext(changes))[0].revision for _ in range(21)]
    assert heard == list(range(newest, newest + 21))


async def test_the_log_file_starts_over_under_constant_writing_and_reading(path: Path) -> None:
    wal = path.with_name("store.db-wal")
    largest = 0
    async with SqliteStore.open(path) as store:
        for n in range(60):
            await store.commit([Put(f"/{m}", bytes(2_000)) for m in range(300)])
            assert len((await store.range("/")).items) == 300
            largest = max(largest, wal.stat().st_size)
            written = n * 300 * 2_000 * 2
    assert largest < written / 2
