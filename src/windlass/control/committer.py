"""One writer for all decisions: takes them from the World's journal in order, batches them, makes them durable, tells who waits.

While one batch is being synced the next one gathers, so one fsync serves many and nobody tunes a delay. Every commit expects
two things: that the leader key is the one we won, so a deposed leader writes nothing; and that the newest number in the store
is the one we wrote last, so a commit that was given up for lost is shut out by writing the number once more.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heappop, heappush

import anyio
import anyio.lowlevel
import structlog
from msgspec import json

from windlass.core.errors import Unavailable
from windlass.core.model.ids import Millis
from windlass.core.world.audit import deeds_key
from windlass.core.world.entry import Entry
from windlass.core.world.records import NUMBER_KEY, Deeds, Mark, Record, Table, encode, store_key
from windlass.core.world.world import World
from windlass.ports.clock import Clock
from windlass.ports.failpoints import Failpoints
from windlass.ports.store import Delete, Deposed, Expect, Put, Refused, Store, Unknown, Write

log = structlog.get_logger()

Listener = Callable[[Sequence[Entry], int], None]
"""Called with the entries of a batch and its revision as soon as it is durable, in order."""

_TURNS_GATHERED = 6
"""Of the loop, some ten microseconds each when nothing is to be done. What is at the door when a commit begins takes two or three
to have decided; without them a flood is committed in twice as many pieces, and a submit costs a sixth more processor time."""
_MARK_BYTES = 256
"""Room for the number that goes along with every commit."""
_READ_BACK_TRIES = 20
_READ_BACK_PAUSE_MS = 500


class Committer:
    def __init__(
        self,
        world: World,
        store: Store,
        clock: Clock,
        failpoints: Failpoints,
        *,
        fence: Expect,
        revision: int,
        marked_at: int,
    ) -> None:
        """`marked_at` is the revision of the number key as we read it when we began to lead; 0: there was none."""
        self._world = world
        self._store = store
        self._clock = clock
        self._failpoints = failpoints
        self._fence = fence
        self._marked_at = marked_at
        self._settled = world.number
        self._revision = revision
        self._waiting: list[tuple[int, int, asyncio.Future[int]]] = []
        """By number; the second breaks ties. Plain futures: one is made for every answer that waits for the disk."""
        self._waits = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = anyio.Event()
        self._listeners: list[Listener] = []
        self.taken_back: Callable[[], None] = lambda: None
        """Called when decisions were undone: what they settled is to be decided again."""
        self._is_uncertain = False

    @property
    def revision(self) -> int:
        """Of the newest durable decision."""
        return self._revision

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def check_writable(self) -> None:
        """Asked before every decision: while a commit's outcome is unknown, nothing may be decided."""
        if self._is_uncertain:
            raise Unavailable("the store does not answer; nothing can be decided", code="store-unavailable")

    async def durable(self, number: int) -> int:
        """Wait until decision `number` is on disk; answers the revision. Unavailable when it had to be taken back."""
        if number <= self._settled:
            return self._revision
        if self._loop is None:
            self._loop = asyncio.get_running_loop()  # asking costs a system call, and every submit would ask
        durable: asyncio.Future[int] = self._loop.create_future()
        self._waits += 1
        heappush(self._waiting, (number, self._waits, durable))
        self._wake.set()
        return await durable

    def nudge(self) -> None:
        """There may be decisions nobody waits for."""
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            while len(self._world.journal):
                for _ in range(_TURNS_GATHERED):  # who decides meanwhile goes along
                    await anyio.lowlevel.checkpoint()
                await self._commit_one()

    async def _commit_one(self) -> None:
        entries, writes = self._pack()
        number = entries[-1].number
        try:
            revision = await self._write(writes, number)
        except Refused as error:
            self._take_back(error)
        else:
            await self._failpoints.reach("commit.after_write_before_settle")
            self._settle(entries, number, revision)

    def _pack(self) -> tuple[list[Entry], list[Write]]:
        """As many decisions as the store takes at once, by count and by size. One too large alone is the store's to refuse."""
        limits, journal = self._store.limits, self._world.journal
        entries = journal.take(limits.operations - 1)
        writes = _writes(entries)
        while _size(writes) > limits.bytes - _MARK_BYTES and entries[0].number != entries[-1].number:
            entries = journal.retake(len(entries) // 2)
            writes = _writes(entries)
        return entries, writes

    async def _write(self, writes: list[Write], number: int) -> int:
        writes.append(self._mark(number))
        try:
            revision = await self._store.commit(writes, self._expectations())
        except Unknown as error:
            revision = await self._judge(number, error)
        self._marked_at = revision
        return revision

    def _mark(self, number: int) -> Put:
        return Put(NUMBER_KEY, json.encode(Mark(self._world.epoch, number, self._clock.now())))

    def _is_mark_of(self, number: int, mark: Mark) -> bool:
        return (mark.epoch, mark.number) == (self._world.epoch, number)

    def _expectations(self) -> list[Expect]:
        return [self._fence, Expect(key=NUMBER_KEY, modified=self._marked_at)]

    async def _judge(self, number: int, error: Unknown) -> int:
        """Executed or not? Decide nothing until the number key says it."""
        log.warning("commit.uncertain", number=number, error=error.message)
        self._is_uncertain = True
        revision = await self._read_back(number)
        self._is_uncertain = False
        if revision is None:
            raise Refused("the store did not take the commit", code=error.code) from error
        return revision

    async def _read_back(self, number: int) -> int | None:
        """The revision of the uncertain commit; None when it never happened and never will. Unknown ends the leadership."""
        for _ in range(_READ_BACK_TRIES):
            with suppress(
                Unavailable, Deposed
            ):  # Deposed: the commit arrived between our look and our mark; look again
                item = await self._store.get(NUMBER_KEY)
                at = item.modified if item is not None else 0
                if item is not None and self._is_mark_of(number, json.decode(item.value, type=Mark)):
                    return at
                await self._shut_out(at)
                return None
            await self._clock.sleep_until(Millis(self._clock.now() + _READ_BACK_PAUSE_MS))
        raise Unknown("the store has not answered; stepping down")

    async def _shut_out(self, at: int) -> None:
        """A commit that is not there may still be under way: the old number, written again, makes its expectation fail.

        Only then is it true that nothing was changed. `at` is newer than our last mark when an earlier try to do this
        has arrived after all.
        """
        if at == self._marked_at:
            at = await self._store.commit([self._mark(self._settled)], self._expectations())
        self._marked_at = at

    def _settle(self, entries: Sequence[Entry], number: int, revision: int) -> None:
        self._world.journal.settle()
        self._settled, self._revision = number, revision
        for listener in self._listeners:
            listener(entries, revision)
        while self._waiting and self._waiting[0][0] <= number:
            durable = heappop(self._waiting)[2]
            if not durable.done():  # its waiter may have been cancelled
                durable.set_result(revision)

    def _take_back(self, error: Unavailable) -> None:
        """Later decisions relied on these, so all of them go. Their numbers are not used again."""
        log.error("commit.refused", error=error.message, code=error.code)
        self._world.undo_uncommitted()
        self._settled = self._world.number
        for _, _, durable in self._waiting:
            if not durable.done():
                durable.set_exception(Unavailable(error.message, code=error.code, hint=error.hint))
        self._waiting.clear()
        self.taken_back()


def _writes(entries: Sequence[Entry]) -> list[Write]:
    """One write per key: the last word of the batch wins. The audit of the whole batch is one write."""
    last: dict[str, Record | None] = {}
    deeds = []
    for entry in entries:
        last[store_key(entry.table, entry.key)] = entry.new
        if entry.deed is not None:
            deeds.append(entry.deed)
    if deeds:
        last[store_key(Table.OUTBOX, deeds_key(deeds[0].number))] = Deeds(records=tuple(deeds))
    return [Delete(key) if record is None else Put(key, encode(record)) for key, record in last.items()]


def _size(writes: Sequence[Write]) -> int:
    return sum(len(write.key) + (len(write.value) if isinstance(write, Put) else 0) for write in writes)
