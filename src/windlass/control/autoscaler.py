"""Grows and shrinks dynamic pools: has the World judge them, and makes its provisioners do what is on record.

Store first: a worker is durable before its provisioner hears of it, and is forgotten only when nothing of it is left. One act per
worker at a time, repeated until it is done, so a slow, failing or doubling provider changes nothing but the time it takes. What a
provisioner has and the World does not know is a leak, and is ended.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup
from cronsim import CronSim

from windlass.control.brain import Brain
from windlass.control.waiting import woken_or_due
from windlass.core.errors import Unavailable, WindlassError
from windlass.core.model.ids import Millis, NodeId, PoolId
from windlass.core.model.pool import Pool, Schedule, Worker, WorkerState
from windlass.core.scaling import ScalingStep
from windlass.core.world.entry import Entry
from windlass.core.world.growth import give_up, scale
from windlass.core.world.records import Table
from windlass.core.world.workers import bury, is_busy, note_problem
from windlass.ports.provisioner import Provisioner, WorkerOrder

log = structlog.get_logger()

_LOOK_MS: Final = 1_000
"""While a pool has workers or is waited for."""
_REST_MS: Final = 30_000
_BREATH_MS: Final = 100
"""Between two looks, however many facts come in."""
_ACT_SECONDS: Final = 120
_RETRY_MS: Final = 500
_RETRY_MAX_MS: Final = 30_000
_AGAIN_MS: Final = 30_000
"""After an `ask` that was heard, until it is asked again for a worker that has not come."""
_LEAKS_MS: Final = 30_000
_Act = tuple[NodeId, WorkerState]
"""What its record asks for: `ask` or `end`."""
_WAKING: Final = frozenset({Table.POOLS, Table.WORKERS, Table.RUNS, Table.JOBS, Table.NODES})


class Autoscaler:
    def __init__(self, brain: Brain, provisioners: Mapping[str, Provisioner]) -> None:
        self._brain = brain
        self._provisioners = provisioners
        self._wake = anyio.Event()
        self._acting: set[NodeId] = set()
        self._not_before: dict[_Act, Millis] = {}
        self._failures: dict[_Act, int] = {}
        self._told: dict[PoolId, ScalingStep] = {}
        """The last of each pool's history: what is not told again."""
        self._leaks_at = Millis(0)
        self._rests = False
        brain.looked = self._wake_when_waited_for

    def _wake_when_waited_for(self) -> None:
        """A limit that was raised, or has run out, lets jobs on to the pools, and that is no commit of theirs."""
        if self._rests and self._has_work():
            self._wake.set()

    def committed(self, entries: Sequence[Entry], revision: int) -> None:
        if self._brain.world.tables.fleet.pools and any(entry.table in _WAKING for entry in entries):
            self._wake.set()

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                self._wake = anyio.Event()
                try:
                    await self._round(tasks)
                except Unavailable as why:
                    log.warning("autoscaler.postponed", error=why.message)
                now = self._brain.clock.now()
                self._rests = not self._has_work()
                until = Millis(now + (_REST_MS if self._rests else _LOOK_MS))
                await self._brain.clock.sleep_until(Millis(now + _BREATH_MS))
                await woken_or_due(self._wake, self._brain.clock, until)

    async def _round(self, tasks: TaskGroup) -> None:
        for pool in [one for one in self._brain.world.tables.fleet.pools.values() if one.is_dynamic]:
            await self._look_at(pool)
        workers = list(self._brain.world.tables.fleet.workers.values())
        await self._brain.committer.durable(self._brain.world.number)  # what is acted on is on disk
        for worker in workers:
            self._tend(worker, tasks)
        now = self._brain.clock.now()
        if self._provisioners and now >= self._leaks_at:
            self._leaks_at = Millis(now + _LEAKS_MS)
            for provisioner in self._provisioners.values():
                tasks.start_soon(self._end_leaks, provisioner)

    def _has_work(self) -> bool:
        tables = self._brain.world.tables
        has_growing = any(pool.is_dynamic for pool in tables.fleet.pools.values())
        return bool(tables.fleet.workers) or (has_growing and tables.queue.has_parked)

    async def _look_at(self, pool: Pool) -> None:
        clock, world = self._brain.clock, self._brain.world
        scheduled = 0
        if pool.scaling is not None:
            scheduled = in_force(pool.scaling.schedules, datetime.fromtimestamp(clock.wall(clock.now()), UTC))

        def verb(now: Millis) -> ScalingStep | None:
            if pool.id not in world.tables.fleet.pools:
                return None
            give_up(world, pool.id, now=now)
            return scale(world, pool.id, now=now, scheduled=scheduled, before=self._last_told(pool))

        step, _ = await self._brain.decide(verb)
        if step is not None:
            self._told[pool.id] = step
            log.info("pool.scaled", pool=pool.id, by=step.verdict.by, rule=step.verdict.rule, held=step.verdict.held)

    def _last_told(self, pool: Pool) -> ScalingStep | None:
        """Of this pool, and not of one that had its name before."""
        last = self._told.get(pool.id)
        return last if last is not None and last.at >= pool.created_at else None

    # — acts —

    def _tend(self, worker: Worker, tasks: TaskGroup) -> None:
        now = self._brain.clock.now()
        is_asked, is_ending = worker.state is WorkerState.ASKED, worker.state is WorkerState.ENDING
        if worker.id in self._acting or self._not_before.get((worker.id, worker.state), now) > now:
            return
        if is_asked or (is_ending and not is_busy(self._brain.world, worker.id)):
            self._acting.add(worker.id)
            tasks.start_soon(self._act, worker)

    async def _act(self, worker: Worker) -> None:
        """Asks or ends as the record says; then the record says what became of it."""
        pool = self._brain.world.tables.fleet.pools.get(worker.pool)
        provisioner = self._provisioners.get(pool.provisioner) if pool is not None else None
        try:
            if pool is None or provisioner is None or pool.scaling is None:
                raise Unavailable(f"there is nobody here who could make or end worker {worker.id}")
            await self._brain.failpoints.reach("scale.after_commit_before_act")
            if worker.state is WorkerState.ASKED:
                await self._within(partial(provisioner.ask, _order(worker, pool)))
                self._not_before[worker.id, worker.state] = Millis(self._brain.clock.now() + _AGAIN_MS)
            else:
                await self._within(partial(provisioner.end, worker.id))
                await self._brain.failpoints.reach("scale.after_end_before_forget")
                await self._bury(worker.id)
            self._failures.pop((worker.id, worker.state), None)
        except WindlassError as why:
            await self._failed(worker, why.message)
        finally:
            self._acting.discard(worker.id)
            self._wake.set()

    async def _within(self, act: Callable[[], Awaitable[None]]) -> None:
        try:
            with anyio.fail_after(_ACT_SECONDS):
                await act()
        except TimeoutError:
            raise Unavailable(f"the provisioner did not answer within {_ACT_SECONDS} s") from None

    async def _bury(self, worker: NodeId) -> None:
        gone = False
        while not gone:
            gone, _ = await self._brain.decide(lambda now: bury(self._brain.world, worker, now=now))
        for state in WorkerState:
            self._not_before.pop((worker, state), None)
            self._failures.pop((worker, state), None)

    async def _failed(self, worker: Worker, problem: str) -> None:
        """Not at once again, and less and less often."""
        act = worker.id, worker.state
        failures = self._failures[act] = self._failures.get(act, 0) + 1
        pause = min(_RETRY_MS << min(failures - 1, 10), _RETRY_MAX_MS)
        self._not_before[act] = Millis(self._brain.clock.now() + pause)
        log.warning("worker.refused", worker=worker.id, error=problem, failures=failures)
        try:
            await self._brain.decide(lambda now: note_problem(self._brain.world, worker.id, problem, now=now))
        except Unavailable as why:
            log.warning("autoscaler.postponed", error=why.message)

    async def _end_leaks(self, provisioner: Provisioner) -> None:
        """A worker is on record before it is made: what is there and not on record, nobody will ever use."""
        try:
            for worker in await provisioner.list():
                if worker not in self._brain.world.tables.fleet.workers and worker not in self._acting:
                    log.warning("worker.leaked", worker=worker)
                    await self._within(partial(provisioner.end, worker))
        except WindlassError as why:
            log.warning("autoscaler.postponed", error=why.message)


def in_force(schedules: Sequence[Schedule], wall: datetime) -> int:
    """The minimum by the schedule whose time came last; of several at one moment the largest. Times are UTC."""
    last = [(next(CronSim(one.cron, wall, reverse=True)), one.workers) for one in schedules]
    return max(last)[1] if last else 0


def _order(worker: Worker, pool: Pool) -> WorkerOrder:
    assert pool.scaling is not None
    return WorkerOrder(worker=worker.id, pool=pool.id, capacity=pool.scaling.worker, runtimes=pool.runtimes)
