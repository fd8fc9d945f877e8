"""The leader's World and its committer, as the loops hold them: decide, wait until it is durable, wake whoever should look.

Rebuilt from the store at the start of each leadership. All verbs run on one event loop, so a decision is never interleaved.
"""

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.lowlevel
import structlog
from msgspec import json

from windlass.control.acting import acting
from windlass.control.committer import Committer
from windlass.control.waiting import woken_or_due
from windlass.core.model.ids import Millis
from windlass.core.world.audit import sign
from windlass.core.world.expiry import expire
from windlass.core.world.place import place
from windlass.core.world.policy import Policy
from windlass.core.world.records import KEPT, NUMBER_KEY, Mark, decode, table_prefix
from windlass.core.world.requests import take_down
from windlass.core.world.world import World
from windlass.ports.clock import Clock
from windlass.ports.failpoints import Failpoints
from windlass.ports.store import Store

log = structlog.get_logger()

T = TypeVar("T")
_PLACEMENTS_A_ROUND = 256
_SAFETY_NET_MS = 30_000
_REFUSED_PAUSE_MS = 1_000
_LOOK_MS = 100
_BEFORE_ALL = Millis(0)


class Brain:
    def __init__(self, world: World, committer: Committer, clock: Clock, failpoints: Failpoints) -> None:
        self.world = world
        self.committer = committer
        self.clock = clock
        self.failpoints = failpoints
        self._wake = anyio.Event()
        self._not_before = Millis(0)
        self._is_ending = False
        self.looked: Callable[[], None] = lambda: None
        """Called after each look for places: who found none has left no record of it."""
        committer.taken_back = self._decide_again

    async def decide(self, verb: Callable[[Millis], T], *, failpoint: str = "") -> tuple[T, int]:
        """Apply a decision and wait for the disk: its result and the revision that holds it. Only then may anyone hear of it.

        `failpoint` names the place between the two. Made for somebody who asked at a door, it carries who that was.
        """
        self.committer.check_writable()
        now, size = self.clock.now(), len(self.world.journal)
        result = verb(now)
        act = acting.get()
        if act is not None and len(self.world.journal) > size:
            sign(self.world, act, since=size, now=now)
        number = self.world.number
        if failpoint:
            await self.failpoints.reach(failpoint)
        self._wake.set()
        return result, await self.committer.durable(number)

    async def take_down(self) -> None:
        """End all that runs, begin nothing more; returns when every end is on record."""
        self._is_ending = True
        await self.decide(lambda now: take_down(self.world, now=now))
        while self.is_running:
            await woken_or_due(self._wake, self.clock, Millis(self.clock.now() + _LOOK_MS))
        await self.committer.durable(self.world.number)

    @property
    def is_running(self) -> bool:
        return any(not run.is_over for run in self.world.tables.runs.values())

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Expire what is due, place what fits, sleep until a fact or the next due moment."""
        while True:
            await self.clock.sleep_until(self._not_before)
            now = self.clock.now()
            if await self._step(now):
                await anyio.lowlevel.checkpoint()
            else:
                await self._sleep(now)

    def _decide_again(self) -> None:
        """What a refused commit took back; not at once, for the store may refuse for long."""
        self._not_before = Millis(self.clock.now() + _REFUSED_PAUSE_MS)
        self._wake.set()

    async def _step(self, now: Millis) -> bool:
        """True when there is more to do at once."""
        self._wake = anyio.Event()
        before = self.world.number
        expire(self.world, now=now)
        placed = place(self.world, now=now, limit=_PLACEMENTS_A_ROUND) if not self._is_ending else ()
        self.looked()
        if placed:
            await self.failpoints.reach("sched.after_pick")
        if self.world.number != before:
            self.committer.nudge()
        due = self.world.next_due()
        return len(placed) == _PLACEMENTS_A_ROUND or (due is not None and due <= now)

    async def _sleep(self, now: Millis) -> None:
        due = self.world.next_due()
        latest = Millis(now + _SAFETY_NET_MS)
        until = latest if due is None else min(due, latest)
        await woken_or_due(self._wake, self.clock, until)


async def rebuild(store: Store, *, epoch: int, policy: Policy, now: Millis = _BEFORE_ALL) -> tuple[World, int, int]:
    """The World as the store has it, the revision of its newest decision, and that of its number.

    The store's own revision may be higher: taking the lead is a commit too, but not one that a read model ever hears of.
    """
    world = World(epoch=epoch, policy=policy)
    world.tables.now = now  # whose backoff is over and whose deadline is near is known before the first decision
    if now != _BEFORE_ALL:
        world.tables.standings.begin(now)
    for table in KEPT:
        prefix = table_prefix(table)
        snapshot = await store.range(prefix)
        for item in snapshot.items:
            world.load(table, item.key[len(prefix) :], decode(table, item.value))
    mark = await store.get(NUMBER_KEY)
    if mark is not None:
        world.number = json.decode(mark.value, type=Mark).number
    marked_at = mark.modified if mark is not None else 0
    log.info("world.rebuilt", jobs=len(world.tables.jobs), runs=len(world.tables.runs), revision=marked_at)
    return world, marked_at, marked_at
