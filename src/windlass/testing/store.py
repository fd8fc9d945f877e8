"""Stores for tests: one in memory that passes the contract suite, and a wrapper that makes any store fail by plan.

Neither knows threads nor real time, so simulations on virtual time are repeatable from their seed.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from enum import StrEnum
from itertools import islice, takewhile
from random import Random

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct

from windlass.adapters.store.commits import Committed, check_commit, encode_key, expectation_failed, range_bounds
from windlass.adapters.store.leases import Leases
from windlass.adapters.store.watching import WatchHub
from windlass.core.errors import WindlassError
from windlass.ports.store import (
    Change,
    Compacted,
    Delete,
    Deposed,
    Expect,
    Item,
    Limits,
    Put,
    Refused,
    Snapshot,
    Store,
    Unknown,
    Write,
)


class MemoryStore:
    """`Store` in a dictionary. Every operation lets others run before and after it, as a real one does.

    Leases end on the injected clock, noticed at every operation; a simulation calls `end_due_leases` when its clock moves.
    The limits are etcd's unless given, so that what packs commits is put to the test.
    """

    def __init__(self, *, monotonic: Callable[[], float] = lambda: 0.0, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._items: dict[str, Item] = {}
        # Ordered as strings: UTF-8 keeps the order of code points.
        self._keys: list[str] = []
        self._lease_of: dict[str, int] = {}
        self._log: list[Committed] = []
        self._compacted = 0
        self._lease_count = 0
        self._open_leases: set[int] = set()
        self._leases = Leases(monotonic)
        self._hub = WatchHub(0, self._replay)

    async def range(self, prefix: str, *, start: str = "", limit: int = 0) -> Snapshot:
        await self._turn()
        first, is_after, _ = range_bounds(prefix, start)
        position = (bisect_right if is_after else bisect_left)(self._keys, first.decode())
        keys = takewhile(lambda key: key.startswith(prefix), islice(self._keys, position, None))
        items = tuple(self._items[key] for key in islice(keys, limit or None))
        return Snapshot(revision=self._hub.revision, items=items)

    async def get(self, key: str) -> Item | None:
        await self._turn()
        encode_key(key)
        return self._items.get(key)

    async def check_room(self) -> None:
        return

    async def revision(self) -> int:
        await self._turn()
        return self._hub.revision

    async def commit(self, writes: Sequence[Write], expect: Sequence[Expect] = ()) -> int:
        await self._turn()
        size = check_commit(writes, expect, self.limits)
        self._check_expectations(expect)
        self._check_leases(writes)
        self._apply([write for write in writes if type(write) is Put or write.key in self._items], size)
        revision = self._hub.revision
        await checkpoint()
        return revision

    def watch(self, *, after: int, prefix: str = "") -> AbstractAsyncContextManager[AsyncIterator[Sequence[Change]]]:
        return self._hub.watch(after=after, prefix=prefix)

    async def compact(self, before: int) -> None:
        await self._turn()
        self._compacted = max(self._compacted, min(before, self._hub.revision))
        del self._log[: self._position_in_log(self._compacted - 1)]

    async def grant(self, ttl_seconds: int) -> int:
        await self._turn()
        if ttl_seconds < 1:
            raise Refused(f"a lease lasts at least a second, not {ttl_seconds}", code="store-malformed")
        self._lease_count += 1
        self._open_leases.add(self._lease_count)
        self._leases.add(self._lease_count, ttl_seconds)
        return self._lease_count

    async def keep_alive(self, lease: int) -> bool:
        await self._turn()
        return self._leases.keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        await self._turn()
        self._end(lease)

    def end_due_leases(self) -> None:
        """What a real store's timer does."""
        for lease in self._leases.due():
            self._end(lease)

    async def _turn(self) -> None:
        await checkpoint()
        self.end_due_leases()

    def _end(self, lease: int) -> None:
        self._leases.forget(lease)
        self._open_leases.discard(lease)
        keys = sorted(key for key, holder in self._lease_of.items() if holder == lease)
        self._apply([Delete(key) for key in keys], sum(len(key) for key in keys))

    def _apply(self, writes: Sequence[Write], size: int) -> None:
        if not writes:
            return
        revision = self._hub.revision + 1
        changes = tuple(
            self._put(write, revision) if type(write) is Put else self._delete(write.key, revision) for write in writes
        )
        commit = Committed(revision, changes, size)
        self._log.append(commit)
        self._hub.publish((commit,))

    def _put(self, put: Put, revision: int) -> Change:
        before = self._items.get(put.key)
        if before is None:
            insort(self._keys, put.key)
        created = before.created if before else revision
        self._items[put.key] = Item(key=put.key, value=put.value, created=created, modified=revision)
        self._lease_of.pop(put.key, None)
        if put.lease:
            self._lease_of[put.key] = put.lease
        return Change(revision=revision, key=put.key, value=put.value)

    def _delete(self, key: str, revision: int) -> Change:
        del self._items[key]
        del self._keys[bisect_left(self._keys, key)]
        self._lease_of.pop(key, None)
        return Change(revision=revision, key=key, value=None)

    def _check_expectations(self, expect: Sequence[Expect]) -> None:
        for expectation in expect:
            item = self._items.get(expectation.key)
            created, modified = (item.created, item.modified) if item else (0, 0)
            if expectation_failed(expectation, created, modified):
                raise Deposed(f"{expectation.key!r} is not as expected: created at {created}, modified at {modified}")

    def _check_leases(self, writes: Sequence[Write]) -> None:
        for write in writes:
            if type(write) is Put and write.lease and write.lease not in self._open_leases:
                raise Refused(f"lease {write.lease} is gone", code="store-lease-gone")

    async def _replay(self, after: int) -> Sequence[Committed]:
        await checkpoint()
        if after + 1 < self._compacted:
            raise Compacted(f"changes below revision {self._compacted} are gone, asked for {after + 1}")
        return tuple(self._log[self._position_in_log(after) :])

    def _position_in_log(self, revision: int) -> int:
        """Where the commits above `revision` begin."""
        return bisect_right(self._log, revision, key=lambda commit: commit.revision)


class Mishap(StrEnum):
    """What may befall a commit on its way to the store and back."""

    NONE = "none"
    REFUSED = "refused"
    LOST = "lost"
    """Never executed; the caller only learns Unknown."""
    UNANSWERED = "unanswered"
    """Executed, with whatever result; the caller only learns Unknown."""
    LATE = "late"
    """Unknown now, and executed only after some later operations: a request still on its way."""


class Fate(Struct, frozen=True, kw_only=True):
    """One commit's lot. The delay comes first and goes with any mishap."""

    mishap: Mishap = Mishap.NONE
    delay_seconds: float = 0.0
    late_by_operations: int = 2


CALM = Fate()


def seeded_plan(
    seed: int, mishaps: Mapping[Mishap, float], *, delayed: float = 0.0, delay_seconds_max: float = 1.0
) -> Iterator[Fate]:
    """Fates for ever, each mishap with its probability; `delayed` is the probability of a delay, whatever else comes."""
    chance = Random(seed)  # noqa: S311 - repeatable, not secret
    kinds = (*mishaps, Mishap.NONE)
    weights = (*mishaps.values(), 1.0 - sum(mishaps.values()))
    while True:
        (mishap,) = chance.choices(kinds, weights)
        delay_seconds = chance.uniform(0, delay_seconds_max) if chance.random() < delayed else 0.0
        yield Fate(mishap=mishap, delay_seconds=delay_seconds, late_by_operations=chance.randint(1, 4))


class FaultyStore:
    """Any store behind a bad line: each commit takes the plan's next fate. A plan that ends leaves calm weather.

    Only commits fail: they are what a caller can be left in doubt about.
    """

    def __init__(
        self, store: Store, plan: Iterable[Fate], *, sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    ) -> None:
        self.limits = store.limits
        self._store = store
        self._plan = iter(plan)
        self._sleep = sleep
        self._on_their_way: list[_Late] = []

    async def commit(self, writes: Sequence[Write], expect: Sequence[Expect] = ()) -> int:
        await self._let_late_ones_arrive()
        fate = next(self._plan, CALM)
        if fate.delay_seconds:
            await self._sleep(fate.delay_seconds)
        match fate.mishap:
            case Mishap.REFUSED:
                raise Refused("refused by plan")
            case Mishap.LOST:
                raise Unknown("lost by plan")
            case Mishap.LATE:
                self._on_their_way.append(_Late(fate.late_by_operations, tuple(writes), tuple(expect)))
                raise Unknown("late by plan")
            case Mishap.UNANSWERED:
                with suppress(WindlassError):
                    await self._store.commit(writes, expect)
                raise Unknown("unanswered by plan")
        return await self._store.commit(writes, expect)

    async def range(self, prefix: str, *, start: str = "", limit: int = 0) -> Snapshot:
        await self._let_late_ones_arrive()
        return await self._store.range(prefix, start=start, limit=limit)

    async def get(self, key: str) -> Item | None:
        await self._let_late_ones_arrive()
        return await self._store.get(key)

    async def revision(self) -> int:
        await self._let_late_ones_arrive()
        return await self._store.revision()

    async def check_room(self) -> None:
        await self._store.check_room()

    def watch(self, *, after: int, prefix: str = "") -> AbstractAsyncContextManager[AsyncIterator[Sequence[Change]]]:
        return self._store.watch(after=after, prefix=prefix)

    async def compact(self, before: int) -> None:
        await self._store.compact(before)

    async def grant(self, ttl_seconds: int) -> int:
        return await self._store.grant(ttl_seconds)

    async def keep_alive(self, lease: int) -> bool:
        return await self._store.keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        await self._store.revoke(lease)

    async def _let_late_ones_arrive(self) -> None:
        for late in self._on_their_way:
            late.operations_left -= 1
        arriving = [late for late in self._on_their_way if late.operations_left <= 0]
        self._on_their_way = [late for late in self._on_their_way if late.operations_left > 0]
        for late in arriving:
            with suppress(WindlassError):
                await self._store.commit(late.writes, late.expect)


class _Late(Struct):
    operations_left: int
    writes: tuple[Write, ...]
    expect: tuple[Expect, ...]
