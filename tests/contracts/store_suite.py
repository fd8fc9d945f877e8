"""What every store must do, whatever it is made of. A test module mixes this class in and provides `subject`.

Written for etcd as much as for SQLite: revisions are compared with each other and never with a number, the end of a lease
is awaited, and only what the port promises is asked.
"""

from collections.abc import Sequence

import anyio
import pytest

from tests.contracts.store_subject import Subject
from tests.contracts.store_watch_suite import Leases, Watches
from windlass.ports.store import Delete, Deposed, Expect, Put, Refused


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


class StoreContract(Commits, Expectations, Refusals, Ranges, Watches, Leases):
    """All of it."""
