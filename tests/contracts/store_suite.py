"""What every store must do, whatever it is made of. A test module mixes this class in and provides `subject`.

Written for etcd as much as for SQLite: revisions are compared with each other and never with a number, the end of a lease
is awaited, and only what the port promises is asked.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import anyio
import pytest
from msgspec import Struct

from windlass.ports.store import Change, Compacted, Delete, Deposed, Expect, Put, Refused, Store

DEADLINE_SECONDS = 30


class Subject(Struct, frozen=True):
    """A fresh, empty store under test."""

    store: Store
    pass_time: Callable[[float], Awaitable[None]]
    """Let the store's clock advance: a fake one is moved, a real one waited for."""
    ttl_seconds: int = 10
    """A lease worth waiting for on this store's clock."""


class Commits:
    async def test_a_new_store_is_empty(self, subject: Subject) -> None:
        snapshot = await subject.store.range("")
        assert snapshot.items == ()
        assert snapshot.revision == await subject.store.revision()

    async def test_each_commit_takes_the_next_revision(self, subject: Subject) -> None:
        before = await subject.store.revision()
        revisions = [await subject.store.commit([Put("/a", b"%d" % n)]) for n in range(5)]
        assert revisions == [before + n for n in range(1, 6)]
        assert await subject.store.revision() == before + 5

    async def test_all_writes_of_a_commit_share_its_revision(self, subject: Subject) -> None:
        revision = await subject.store.commit([Put("/a", b"1"), Put("/b", b"2"), Put("/c", b"3")])
        items = (await subject.store.range("/")).items
        assert [(item.key, item.value, item.created, item.modified) for item in items] == [
            ("/a", b"1", revision, revision),
            ("/b", b"2", revision, revision),
            ("/c", b"3", revision, revision),
        ]

    async def test_an_update_keeps_the_creation_revision(self, subject: Subject) -> None:
        created = await subject.store.commit([Put("/a", b"1")])
        modified = await subject.store.commit([Put("/a", b"2")])
        item = await subject.store.get("/a")
        assert item is not None
        assert (item.value, item.created, item.modified) == (b"2", created, modified)

    async def test_a_key_made_anew_after_deletion_has_a_new_creation_revision(self, subject: Subject) -> None:
        await subject.store.commit([Put("/a", b"1")])
        await subject.store.commit([Delete("/a")])
        assert await subject.store.get("/a") is None
        created = await subject.store.commit([Put("/a", b"2")])
        item = await subject.store.get("/a")
        assert item is not None
        assert item.created == item.modified == created

    async def test_an_empty_commit_answers_the_current_revision(self, subject: Subject) -> None:
        revision = await subject.store.commit([Put("/a", b"1")])
        assert await subject.store.commit([]) == revision
        assert await subject.store.commit([], [Expect(key="/a", created=revision)]) == revision
        assert await subject.store.revision() == revision

    async def test_an_empty_commit_checks_its_expectations(self, subject: Subject) -> None:
        with pytest.raises(Deposed):
            await subject.store.commit([], [Expect(key="/absent", created=7)])

    async def test_deleting_what_is_absent_changes_nothing(self, subject: Subject) -> None:
        revision = await subject.store.commit([Put("/a", b"1")])
        assert await subject.store.commit([Delete("/absent")]) == revision
        assert await subject.store.revision() == revision

    async def test_an_empty_value_is_not_a_deletion(self, subject: Subject) -> None:
        await subject.store.commit([Put("/a", b"")])
        item = await subject.store.get("/a")
        assert item is not None
        assert item.value == b""

    async def test_a_value_of_a_large_part_of_the_limit_comes_back_equal(self, subject: Subject) -> None:
        value = bytes(range(256)) * (subject.store.limits.bytes // 512)
        await subject.store.commit([Put("/large", value)])
        item = await subject.store.get("/large")
        assert item is not None
        assert item.value == value


class Expectations:
    @pytest.mark.parametrize("field", ["created", "modified"])
    async def test_zero_means_the_key_must_be_absent(self, subject: Subject, field: str) -> None:
        absent = Expect(key="/a", **{field: 0})
        await subject.store.commit([Put("/a", b"1")], [absent])
        with pytest.raises(Deposed):
            await subject.store.commit([Put("/a", b"2")], [absent])
        item = await subject.store.get("/a")
        assert item is not None
        assert item.value == b"1"

    async def test_the_creation_revision_holds_over_updates_and_not_over_recreation(self, subject: Subject) -> None:
        store = subject.store
        created = await store.commit([Put("/leader", b"me")])
        still = Expect(key="/leader", created=created)
        await store.commit([Put("/leader", b"me again")], [still])
        await store.commit([Put("/a", b"1")], [still])
        await store.commit([Delete("/leader")])
        with pytest.raises(Deposed):
            await store.commit([Put("/a", b"2")], [still])
        await store.commit([Put("/leader", b"another")])
        with pytest.raises(Deposed):
            await store.commit([Put("/a", b"3")], [still])
        item = await store.get("/a")
        assert item is not None
        assert item.value == b"1"

    async def test_the_modification_revision_holds_until_the_next_change(self, subject: Subject) -> None:
        first = await subject.store.commit([Put("/a", b"1")])
        second = await subject.store.commit([Put("/a", b"2")], [Expect(key="/a", modified=first)])
        with pytest.raises(Deposed):
            await subject.store.commit([Put("/a", b"3")], [Expect(key="/a", modified=first)])
        assert await subject.store.commit([Put("/a", b"3")], [Expect(key="/a", modified=second)]) == second + 1

    async def test_one_failed_expectation_of_many_prevents_every_write(self, subject: Subject) -> None:
        revision = await subject.store.commit([Put("/a", b"1"), Put("/b", b"1")])
        with pytest.raises(Deposed):
            await subject.store.commit(
                [Put("/a", b"2"), Delete("/b"), Put("/c", b"2")],
                [Expect(key="/a", modified=revision), Expect(key="/b", modified=revision + 5)],
            )
        assert {item.key: item.value for item in (await subject.store.range("/")).items} == {"/a": b"1", "/b": b"1"}
        assert await subject.store.revision() == revision

    async def test_unrelated_writes_do_not_disturb_an_expectation(self, subject: Subject) -> None:
        revision = await subject.store.commit([Put("/a", b"1")])
        for n in range(5):
            await subject.store.commit([Put(f"/other/{n}", b"x")])
        assert await subject.store.commit([Put("/a", b"2")], [Expect(key="/a", modified=revision)]) == revision + 6

    async def test_of_concurrent_claims_to_one_key_exactly_one_wins(self, subject: Subject) -> None:
        won, lost = [], []

        async def claim(name: int) -> None:
            try:
                await subject.store.commit([Put("/leader", b"%d" % name)], [Expect(key="/leader", created=0)])
                won.append(name)
            except Deposed:
                lost.append(name)

        async with anyio.create_task_group() as tasks:
            for name in range(50):
                tasks.start_soon(claim, name)
        item = await subject.store.get("/leader")
        assert item is not None
        assert [b"%d" % name for name in won] == [item.value]
        assert len(lost) == 49

    async def test_concurrent_counting_by_compare_and_retry_loses_nothing(self, subject: Subject) -> None:
        await subject.store.commit([Put("/count", b"0")])

        async def count() -> None:
            while True:
                item = await subject.store.get("/count")
                assert item is not None
                try:
                    put = Put("/count", b"%d" % (int(item.value) + 1))
                    await subject.store.commit([put], [Expect(key="/count", modified=item.modified)])
                    return
                except Deposed:
                    continue

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(count)
        item = await subject.store.get("/count")
        assert item is not None
        assert item.value == b"20"

    async def test_concurrent_commits_each_have_a_revision_of_their_own(self, subject: Subject) -> None:
        before = await subject.store.revision()
        revisions: list[int] = []

        async def put(n: int) -> None:
            revisions.append(await subject.store.commit([Put(f"/{n}", b"x")]))

        async with anyio.create_task_group() as tasks:
            for n in range(100):
                tasks.start_soon(put, n)
        assert sorted(revisions) == list(range(before + 1, before + 101))


class Refusals:
    async def test_more_operations_than_the_limit_are_refused_and_leave_no_trace(self, subject: Subject) -> None:
        allowed = subject.store.limits.operations
        before = await subject.store.revision()
        with pytest.raises(Refused) as refusal:
            await subject.store.commit([Put(f"/{n}", b"") for n in range(allowed + 1)])
        assert refusal.value.code == "store-over-limits"
        assert (await subject.store.range("")).items == ()
        assert await subject.store.revision() == before

    async def test_as_many_operations_as_the_limit_are_taken(self, subject: Subject) -> None:
        allowed = subject.store.limits.operations
        await subject.store.commit([Put(f"/{n}", b"") for n in range(allowed)])
        assert len((await subject.store.range("/")).items) == allowed

    async def test_more_bytes_than_the_limit_are_refused_and_leave_no_trace(self, subject: Subject) -> None:
        half = bytes(subject.store.limits.bytes // 2)
        with pytest.raises(Refused) as refusal:
            await subject.store.commit([Put("/a", half), Put("/b", half)])
        assert refusal.value.code == "store-over-limits"
        assert (await subject.store.range("")).items == ()

    @pytest.mark.parametrize(
        ("writes", "expect"),
        [
            pytest.param([Put("/a", b"1"), Put("/a", b"2")], [], id="a key twice"),
            pytest.param([Put("/a", b"1"), Delete("/a")], [], id="a key put and deleted"),
            pytest.param([Put("", b"1")], [], id="an empty key"),
            pytest.param([Put("/\ud800", b"1")], [], id="half a surrogate pair"),
            pytest.param([Put("/a", b"1")], [Expect(key="/a")], id="an expectation of nothing"),
            pytest.param([Put("/a", b"1")], [Expect(key="/a", created=0, modified=0)], id="an expectation of both"),
        ],
    )
    async def test_a_malformed_commit_is_refused_whole(
        self, subject: Subject, writes: Sequence[Put | Delete], expect: Sequence[Expect]
    ) -> None:
        with pytest.raises(Refused) as refusal:
            await subject.store.commit([Put("/b", b"1"), *writes], expect)
        assert refusal.value.code == "store-malformed"
        assert (await subject.store.range("")).items == ()

    async def test_a_refused_neighbour_does_not_disturb_concurrent_commits(self, subject: Subject) -> None:
        refused: list[int] = []

        async def put(n: int) -> None:
            writes = [Put(f"/{n}", b"x")] if n % 3 else [Put("/twice", b""), Put("/twice", b"")]
            try:
                await subject.store.commit(writes)
            except Refused:
                refused.append(n)

        async with anyio.create_task_group() as tasks:
            for n in range(60):
                tasks.start_soon(put, n)
        assert sorted(refused) == list(range(0, 60, 3))
        keys = {item.key for item in (await subject.store.range("/")).items}
        assert keys == {f"/{n}" for n in range(60) if n % 3}


class Ranges:
    async def test_keys_come_in_the_order_of_their_utf8_bytes(self, subject: Subject) -> None:
        keys = [
            "/z",
            "/a",
            "/Z",
            "/é",
            "/€",
            "/\uffff",
            "/\U0001f600",
            "/a/b",
            "/a0",
            "/a.b",
            "/ ",
            "/~",
            "/\x7f",
            "/\x01",
        ]
        await subject.store.commit([Put(key, key.encode()) for key in keys])
        found = [item.key for item in (await subject.store.range("/")).items]
        assert found == sorted(keys, key=lambda key: key.encode())

    async def test_a_prefix_selects_exactly_its_keys(self, subject: Subject) -> None:
        keys = ["/job", "/jobs", "/jobs/", "/jobs/1", "/jobs/\U0010ffff/deep", "/jobs0", "/jobt", "jobs/1"]
        await subject.store.commit([Put(key, b"") for key in keys])
        found = [item.key for item in (await subject.store.range("/jobs/")).items]
        assert found == ["/jobs/", "/jobs/1", "/jobs/\U0010ffff/deep"]

    async def test_a_prefix_ending_in_any_character_finds_its_keys(self, subject: Subject) -> None:
        prefixes = ["a\x7f", "a\u07ff", "a\uffff", "a\U0010ffff"]
        await subject.store.commit([Put(prefix + "x", b"") for prefix in prefixes])
        for prefix in prefixes:
            assert [item.key for item in (await subject.store.range(prefix)).items] == [prefix + "x"]

    async def test_the_empty_prefix_means_everything(self, subject: Subject) -> None:
        await subject.store.commit([Put("\x01", b""), Put("/m", b""), Put("\U0010ffff", b"")])
        assert [item.key for item in (await subject.store.range("")).items] == ["\x01", "/m", "\U0010ffff"]

    async def test_pages_by_limit_and_start_give_everything_once(self, subject: Subject) -> None:
        keys = [f"/k/{n:03}" for n in range(57)]
        await subject.store.commit([Put(key, b"") for key in keys] + [Put("/j", b""), Put("/l", b"")])
        found, start = [], ""
        while page := (await subject.store.range("/k/", start=start, limit=10)).items:
            assert len(page) <= 10
            found += [item.key for item in page]
            start = page[-1].key
        assert found == keys

    async def test_start_lies_before_the_first_key_given_whether_or_not_it_exists(self, subject: Subject) -> None:
        await subject.store.commit([Put("/b/1", b""), Put("/b/3", b"")])
        for start, expected in [
            ("/b/1", ["/b/3"]),
            ("/b/2", ["/b/3"]),
            ("/b/3", []),
            ("/a", ["/b/1", "/b/3"]),
            ("/c", []),
        ]:
            items = (await subject.store.range("/b/", start=start)).items
            assert [item.key for item in items] == expected, start

    async def test_a_range_is_one_moment(self, subject: Subject) -> None:
        """Two keys are always written together; no range may see them apart, or a revision that does not fit."""
        done = anyio.Event()

        async def write() -> None:
            for n in range(200):
                await subject.store.commit([Put("/pair/a", b"%d" % n), Put("/pair/b", b"%d" % n)])
            done.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            while not done.is_set():
                snapshot = await subject.store.range("/pair/")
                assert len({(item.value, item.modified) for item in snapshot.items}) <= 1
                assert all(item.modified <= snapshot.revision for item in snapshot.items)
        final = await subject.store.range("/pair/")
        assert [item.modified for item in final.items] == [final.revision, final.revision]

    async def test_who_was_answered_reads_own_writes(self, subject: Subject) -> None:
        for n in range(20):
            revision = await subject.store.commit([Put("/a", b"%d" % n)])
            item = await subject.store.get("/a")
            assert item is not None
            assert (item.value, item.modified) == (b"%d" % n, revision)
            assert (await subject.store.range("/a")).revision == revision


class Watches:
    async def test_a_watch_tells_the_changes_after_a_revision(self, subject: Subject) -> None:
        await subject.store.commit([Put("/a", b"0")])
        after = await subject.store.commit([Put("/a", b"1")])
        second = await subject.store.commit([Put("/a", b"2"), Put("/b", b"2")])
        third = await subject.store.commit([Delete("/a")])
        async with subject.store.watch(after=after) as changes:
            assert await _take(changes, 2) == [
                [Change(revision=second, key="/a", value=b"2"), Change(revision=second, key="/b", value=b"2")],
                [Change(revision=third, key="/a", value=None)],
            ]

    async def test_a_watch_from_now_hears_the_next_commit(self, subject: Subject) -> None:
        after = await subject.store.commit([Put("/a", b"1")])
        async with subject.store.watch(after=after) as changes:
            revision = await subject.store.commit([Put("/a", b"2")])
            assert await _take(changes, 1) == [[Change(revision=revision, key="/a", value=b"2")]]

    async def test_a_waiting_watch_is_woken(self, subject: Subject) -> None:
        after = await subject.store.revision()
        heard: list[list[Change]] = []

        async def listen(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            async with subject.store.watch(after=after) as changes:
                task_status.started()
                heard.extend(await _take(changes, 3))

        async with anyio.create_task_group() as tasks:
            await tasks.start(listen)
            for n in range(3):
                await subject.store.commit([Put("/a", b"%d" % n)])
        assert [change.value for commit in heard for change in commit] == [b"0", b"1", b"2"]

    async def test_a_watch_from_a_snapshot_continues_it_without_gap_or_double(self, subject: Subject) -> None:
        """Readers begin at many moments of a stream of commits; each must end with the same picture."""
        total = 300

        async def follow() -> dict[str, bytes]:
            snapshot = await subject.store.range("/f/")
            seen = {item.key: item.value for item in snapshot.items}
            last = snapshot.revision
            async with subject.store.watch(after=snapshot.revision, prefix="/f/") as changes:
                while seen.get("/f/last") != b"%d" % (total - 1):
                    for change in (await _take(changes, 1))[0]:
                        assert change.revision == last + 1 or change.revision == last
                        last = change.revision
                        assert change.value is not None
                        seen[change.key] = change.value
            return seen

        pictures: list[dict[str, bytes]] = []

        async def follow_and_note() -> None:
            pictures.append(await follow())

        async with anyio.create_task_group() as tasks:
            for n in range(total):
                await subject.store.commit([Put(f"/f/{n % 7}", b"%d" % n), Put("/f/last", b"%d" % n)])
                if n % 30 == 0:
                    tasks.start_soon(follow_and_note)
        final = {item.key: item.value for item in (await subject.store.range("/f/")).items}
        assert pictures == [final] * 10

    async def test_a_prefix_selects_changes_and_hides_foreign_commits(self, subject: Subject) -> None:
        after = await subject.store.revision()
        await subject.store.commit([Put("/jobs/1", b"a"), Put("/nodes/1", b"a")])
        await subject.store.commit([Put("/nodes/1", b"b")])
        async with subject.store.watch(after=after, prefix="/jobs/") as changes:
            await subject.store.commit([Put("/nodes/2", b"c")])
            await subject.store.commit([Put("/jobs/2", b"d"), Put("/nodes/2", b"d")])
            heard = await _take(changes, 2)
        assert [[(change.key, change.value) for change in commit] for commit in heard] == [
            [("/jobs/1", b"a")],
            [("/jobs/2", b"d")],
        ]

    async def test_a_watch_of_the_future_hears_only_what_comes_after_it(self, subject: Subject) -> None:
        after = await subject.store.revision() + 2
        async with subject.store.watch(after=after) as changes:
            for n in range(4):
                await subject.store.commit([Put("/a", b"%d" % n)])
            heard = await _take(changes, 2)
        assert [change.value for commit in heard for change in commit] == [b"2", b"3"]

    async def test_deleting_what_is_absent_tells_nobody(self, subject: Subject) -> None:
        after = await subject.store.revision()
        await subject.store.commit([Delete("/absent"), Put("/a", b"1")])
        await subject.store.commit([Delete("/absent")])
        await subject.store.commit([Put("/a", b"2")])
        async with subject.store.watch(after=after) as changes:
            heard = await _take(changes, 2)
        assert [[change.key for change in commit] for commit in heard] == [["/a"], ["/a"]]

    async def test_a_slow_watcher_misses_nothing(self, subject: Subject) -> None:
        after = await subject.store.revision()
        value = bytes(8_192)
        async with subject.store.watch(after=after) as changes:
            first = await subject.store.commit([Put("/slow/first", value)])
            assert (await _take(changes, 1))[0][0].revision == first
            for n in range(120):
                await subject.store.commit([Put(f"/slow/{n}/{m}", value) for m in range(20)])
            heard = await _take(changes, 120)
            last = await subject.store.commit([Put("/slow/last", value)])
            heard += await _take(changes, 1)
        assert [commit[0].revision for commit in heard] == list(range(first + 1, last + 1))
        assert all(len(commit) == 20 for commit in heard[:-1])

    async def test_what_is_compacted_cannot_be_watched(self, subject: Subject) -> None:
        revisions = [await subject.store.commit([Put("/a", b"%d" % n)]) for n in range(6)]
        await subject.store.compact(revisions[3])
        with pytest.raises(Compacted):
            async with subject.store.watch(after=revisions[1]) as changes:
                await _take(changes, 1)
        async with subject.store.watch(after=revisions[2]) as changes:
            heard = await _take(changes, 3)
        assert [commit[0].revision for commit in heard] == revisions[3:]

    async def test_compaction_keeps_current_values_and_revisions(self, subject: Subject) -> None:
        old = await subject.store.commit([Put("/old", b"1")])
        newest = await subject.store.commit([Put("/new", b"2")])
        await subject.store.compact(newest)
        await subject.store.compact(newest)
        await subject.store.compact(old)
        items = (await subject.store.range("/")).items
        assert [(item.key, item.created) for item in items] == [("/new", newest), ("/old", old)]
        assert await subject.store.revision() == newest
        assert await subject.store.commit([Put("/next", b"3")]) == newest + 1

    async def test_a_watch_that_runs_survives_a_compaction(self, subject: Subject) -> None:
        after = await subject.store.revision()
        async with subject.store.watch(after=after, prefix="/mine") as changes:
            first = await subject.store.commit([Put("/mine", b"1")])
            assert [commit[0].revision for commit in await _take(changes, 1)] == [first]
            for n in range(5):
                newest = await subject.store.commit([Put("/other", b"%d" % n)])
            await subject.store.compact(newest)
            last = await subject.store.commit([Put("/mine", b"2")])
            assert [commit[0].revision for commit in await _take(changes, 1)] == [last]


class Leases:
    async def test_the_end_of_a_lease_deletes_its_keys_in_one_commit(self, subject: Subject) -> None:
        store = subject.store
        lease = await store.grant(subject.ttl_seconds)
        await store.commit([Put("/l/a", b"1", lease), Put("/l/b", b"1", lease), Put("/stays", b"1")])
        after = await store.revision()
        await subject.pass_time(subject.ttl_seconds + 1)
        await _until_gone(store, "/l/a")
        assert await store.get("/l/b") is None
        assert await store.get("/stays") is not None
        async with store.watch(after=after) as changes:
            (ended,) = await _take(changes, 1)
        assert sorted((change.key, change.value) for change in ended) == [("/l/a", None), ("/l/b", None)]
        assert not await store.keep_alive(lease)

    async def test_a_lease_that_is_kept_alive_goes_on(self, subject: Subject) -> None:
        lease = await subject.store.grant(subject.ttl_seconds)
        await subject.store.commit([Put("/l", b"1", lease)])
        for _ in range(4):
            await subject.pass_time(subject.ttl_seconds / 2)
            assert await subject.store.keep_alive(lease)
        assert await subject.store.get("/l") is not None

    async def test_revoking_a_lease_deletes_its_keys_at_once(self, subject: Subject) -> None:
        store = subject.store
        lease, other = await store.grant(subject.ttl_seconds), await store.grant(subject.ttl_seconds)
        assert lease != other
        revision = await store.commit([Put("/l", b"1", lease), Put("/o", b"1", other)])
        await store.revoke(lease)
        assert await store.get("/l") is None
        assert await store.get("/o") is not None
        assert await store.revision() == revision + 1
        assert not await store.keep_alive(lease)
        assert await store.keep_alive(other)

    async def test_revoking_what_is_gone_is_fine(self, subject: Subject) -> None:
        lease = await subject.store.grant(subject.ttl_seconds)
        before = await subject.store.revision()
        await subject.store.revoke(lease)
        await subject.store.revoke(lease)
        assert await subject.store.revision() == before

    async def test_a_key_written_again_without_its_lease_stays(self, subject: Subject) -> None:
        store = subject.store
        lease = await store.grant(subject.ttl_seconds)
        await store.commit([Put("/a", b"1", lease), Put("/b", b"1", lease)])
        await store.commit([Put("/a", b"2")])
        await store.revoke(lease)
        assert await store.get("/a") is not None
        assert await store.get("/b") is None

    async def test_a_key_moves_to_the_lease_it_was_last_written_with(self, subject: Subject) -> None:
        store = subject.store
        first, second = await store.grant(subject.ttl_seconds), await store.grant(subject.ttl_seconds)
        await store.commit([Put("/a", b"1", first)])
        await store.commit([Put("/a", b"2", second)])
        await store.revoke(first)
        assert await store.get("/a") is not None
        await store.revoke(second)
        assert await store.get("/a") is None

    async def test_nothing_can_be_put_on_a_lease_that_is_gone(self, subject: Subject) -> None:
        store = subject.store
        lease = await store.grant(subject.ttl_seconds)
        await store.revoke(lease)
        with pytest.raises(Refused) as refusal:
            await store.commit([Put("/other", b"1"), Put("/a", b"1", lease)])
        assert refusal.value.code == "store-lease-gone"
        assert (await store.range("")).items == ()

    async def test_who_loses_the_lease_loses_the_lead(self, subject: Subject) -> None:
        """The leader key as the leader uses it: claimed when absent, on a lease, compared in every commit."""
        store = subject.store
        lease = await store.grant(subject.ttl_seconds)
        mine = await store.commit([Put("/leader", b"me", lease)], [Expect(key="/leader", created=0)])
        await store.commit([Put("/decision", b"1")], [Expect(key="/leader", created=mine)])
        await subject.pass_time(subject.ttl_seconds + 1)
        await _until_gone(store, "/leader")
        await store.commit([Put("/leader", b"other")], [Expect(key="/leader", created=0)])
        with pytest.raises(Deposed):
            await store.commit([Put("/decision", b"2")], [Expect(key="/leader", created=mine)])
        item = await store.get("/decision")
        assert item is not None
        assert item.value == b"1"


class StoreContract(Commits, Expectations, Refusals, Ranges, Watches, Leases):
    """All of it."""


async def _take(changes: AsyncIterator[Sequence[Change]], commits: int) -> list[list[Change]]:
    with anyio.fail_after(DEADLINE_SECONDS):
        return [list(await anext(changes)) for _ in range(commits)]


async def _until_gone(store: Store, key: str) -> None:
    """Watch rather than poll: a store may need a moment to end a lease."""
    with anyio.fail_after(DEADLINE_SECONDS):
        snapshot = await store.range(key)
        if not snapshot.items:
            return
        async with store.watch(after=snapshot.revision, prefix=key) as changes:
            async for commit in changes:
                if any(change.key == key and change.value is None for change in commit):
                    return
