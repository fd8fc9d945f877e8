"""The store port as a plain dictionary, and a machine that holds real stores against it, step by random step."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, precondition, rule

from tests.contracts.clocks import HandClock
from windlass.ports.store import Change, Compacted, Delete, Deposed, Expect, Item, Put, Refused, Store, Write

OpenStore = Callable[[HandClock], AbstractAsyncContextManager[Store]]

KEYS = ("/a", "/a/", "/a/1", "/a/é", "/b", "/b/\U0001f600", "c")
PREFIXES = ("", "/", "/a", "/a/", "/b/", "c", "d")
VALUES = st.sampled_from((b"", b"x", b"\x00\xff"))
TTL_SECONDS = 10


class Model:
    """What the port says, in as few words as it takes."""

    def __init__(self) -> None:
        self.revision = 0
        self.compacted = 0
        self.items: dict[str, Item] = {}
        self.lease_of: dict[str, int] = {}
        self.deadlines: dict[int, float] = {}
        self.log: list[tuple[Change, ...]] = []

    def commit(self, writes: Sequence[Write], expect: Sequence[Expect]) -> int | type[Exception]:
        for expectation in expect:
            item = self.items.get(expectation.key)
            actual = (item.created, item.modified) if item else (0, 0)
            if expectation.created not in (None, actual[0]) or expectation.modified not in (None, actual[1]):
                return Deposed
        if any(isinstance(write, Put) and write.lease and write.lease not in self.deadlines for write in writes):
            return Refused
        self._apply([write for write in writes if isinstance(write, Put) or write.key in self.items])
        return self.revision

    def end_leases(self, now: float) -> None:
        for lease in [lease for lease, deadline in self.deadlines.items() if deadline <= now]:
            self.revoke(lease)

    def revoke(self, lease: int) -> None:
        self.deadlines.pop(lease, None)
        self._apply([Delete(key) for key, holder in sorted(self.lease_of.items()) if holder == lease])

    def range(self, prefix: str, start: str, limit: int) -> tuple[Item, ...]:
        keys = sorted(key for key in self.items if key.startswith(prefix) and key > start)
        return tuple(self.items[key] for key in keys[: limit or None])

    def changes(self, after: int, prefix: str) -> list[tuple[Change, ...]]:
        selected = (
            tuple(change for change in commit if change.key.startswith(prefix))
            for commit in self.log
            if commit[0].revision > after
        )
        return [commit for commit in selected if commit]

    def _apply(self, writes: Sequence[Write]) -> None:
        if not writes:
            return
        self.revision += 1
        for write in writes:
            before = self.items.pop(write.key, None)
            self.lease_of.pop(write.key, None)
            if isinstance(write, Put):
                created = before.created if before else self.revision
                self.items[write.key] = Item(key=write.key, value=write.value, created=created, modified=self.revision)
                if write.lease:
                    self.lease_of[write.key] = write.lease
        self.log.append(
            tuple(
                Change(revision=self.revision, key=write.key, value=write.value if isinstance(write, Put) else None)
                for write in writes
            )
        )


class StoreMachine(RuleBasedStateMachine):
    """Subclasses say how a store is opened. Revisions must start at 0, as a fresh SQLite or memory store's do."""

    open_store: OpenStore
    can_reopen = False

    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.clock = HandClock()
        self._portal_block = start_blocking_portal()
        self.portal: BlockingPortal = self._portal_block.__enter__()
        self._store_block: AbstractContextManager[Store] | None = None

    @initialize()
    def open(self) -> None:
        self._store_block = self.portal.wrap_async_context_manager(self.open_store(self.clock))
        self.store = self._store_block.__enter__()

    def teardown(self) -> None:
        if self._store_block is not None:
            self._store_block.__exit__(None, None, None)
        self._portal_block.__exit__(None, None, None)

    @rule(
        keys=st.lists(st.sampled_from(KEYS), unique=True, max_size=4),
        values=st.lists(st.one_of(st.none(), VALUES), min_size=4, max_size=4),
        lease=st.one_of(st.just(0), leases),
        leased=st.integers(0, 15),
        expect=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans(), st.sampled_from((0, 0, 0, -1, 1))), max_size=2),
    )
    def commit(
        self,
        keys: list[str],
        values: list[bytes | None],
        lease: int,
        leased: int,
        expect: list[tuple[str, bool, int]],
    ) -> None:
        writes: list[Write] = [
            Delete(key) if value is None else Put(key, value, lease if leased >> place & 1 else 0)
            for place, (key, value) in enumerate(zip(keys, values, strict=False))
        ]
        expectations = [self._expect(*wanted) for wanted in expect]
        self.model.end_leases(self.clock())
        expected = self.model.commit(writes, expectations)
        try:
            answer: int | type[Exception] = self.portal.call(self.store.commit, writes, expectations)
        except (Deposed, Refused) as error:
            answer = type(error)
        assert answer == expected

    @rule(prefix=st.sampled_from(PREFIXES), start=st.sampled_from(("", *KEYS, "/a/0", "z")), limit=st.integers(0, 4))
    def range(self, prefix: str, start: str, limit: int) -> None:
        self.model.end_leases(self.clock())
        snapshot = self.portal.call(lambda: self.store.range(prefix, start=start, limit=limit))
        assert snapshot.items == self.model.range(prefix, start, limit)
        assert snapshot.revision == self.model.revision

    @rule(key=st.sampled_from(KEYS))
    def get(self, key: str) -> None:
        self.model.end_leases(self.clock())
        assert self.portal.call(self.store.get, key) == self.model.items.get(key)

    @rule(back=st.integers(0, 8), prefix=st.sampled_from(PREFIXES))
    def watch(self, back: int, prefix: str) -> None:
        after = max(0, self.model.revision - back)
        if after + 1 < self.model.compacted:
            assert self.portal.call(self._watched, after, prefix, 1) is Compacted
        else:
            expected = self.model.changes(after, prefix)
            assert self.portal.call(self._watched, after, prefix, len(expected)) == expected

    @precondition(lambda self: self.model.revision > 0)
    @rule(back=st.integers(0, 6))
    def compact(self, back: int) -> None:
        before = max(0, self.model.revision - back)
        self.model.compacted = max(self.model.compacted, before)
        self.portal.call(self.store.compact, before)

    @rule(target=leases)
    def grant(self) -> int:
        lease = self.portal.call(self.store.grant, TTL_SECONDS)
        assert lease not in self.model.deadlines
        self.model.deadlines[lease] = self.clock() + TTL_SECONDS
        return lease

    @rule(lease=leases)
    def keep_alive(self, lease: int) -> None:
        self.model.end_leases(self.clock())
        alive = lease in self.model.deadlines
        assert self.portal.call(self.store.keep_alive, lease) == alive
        if alive:
            self.model.deadlines[lease] = self.clock() + TTL_SECONDS

    @rule(lease=consumes(leases))
    def revoke(self, lease: int) -> None:
        self.model.end_leases(self.clock())
        self.model.revoke(lease)
        self.portal.call(self.store.revoke, lease)

    @rule(seconds=st.integers(1, TTL_SECONDS))
    def pass_time(self, seconds: int) -> None:
        self.portal.call(self.clock.pass_time, seconds)

    @precondition(lambda self: self.can_reopen)
    @rule()
    def reopen(self) -> None:
        """Nothing is lost, and every lease that had not ended has its whole time again."""
        self.model.end_leases(self.clock())
        assert self.portal.call(self.store.revision) == self.model.revision
        assert self._store_block is not None
        self._store_block.__exit__(None, None, None)
        self.open()
        self.model.deadlines = dict.fromkeys(self.model.deadlines, self.clock() + TTL_SECONDS)

    def _expect(self, key: str, is_creation: bool, off_by: int) -> Expect:
        item = self.model.items.get(key)
        if is_creation:
            return Expect(key=key, created=(item.created if item else 0) + off_by)
        return Expect(key=key, modified=(item.modified if item else 0) + off_by)

    async def _watched(self, after: int, prefix: str, commits: int) -> list[tuple[Change, ...]] | type[Compacted]:
        try:
            with anyio.fail_after(120):
                async with self.store.watch(after=after, prefix=prefix) as changes:
                    return [tuple(await anext(changes)) for _ in range(commits)]
        except Compacted as error:
            return type(error)
