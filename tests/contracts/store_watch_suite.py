"""The part of the store contract that happens in time: watches and leases. Mixed into `StoreContract`."""

from collections.abc import AsyncIterator, Sequence

import anyio
import pytest

from tests.contracts.store_subject import Subject
from windlass.ports.store import Change, Compacted, Delete, Deposed, Expect, Put, Refused, Store

DEADLINE_SECONDS = 180


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
