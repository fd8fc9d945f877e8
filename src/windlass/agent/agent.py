"""The agent: keeps this node's runs equal to the set it was told, and says what became of them until it is heard."""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import structlog
from anyio.abc import TaskGroup

from windlass.agent.copying import drain
from windlass.agent.journal import Journal
from windlass.agent.keeper import Keeper
from windlass.agent.staging import Stager
from windlass.core.errors import Unavailable, WindlassError
from windlass.core.model.assignment import Assignment, Assignments
from windlass.core.model.facts import Fact, VolumeGone
from windlass.core.model.ids import Millis, NodeId, RunId, VolumeId
from windlass.core.model.node import Node
from windlass.ports.blobs import Blobs
from windlass.ports.clock import Clock
from windlass.ports.failpoints import Failpoints
from windlass.ports.link import Link
from windlass.ports.logs import Logs
from windlass.ports.runtime import Phase, Runtime

log = structlog.get_logger()

_REPORT_PAUSE_MS = 500
_RETRY_PAUSE_MS = 500
_LONGEST_RETRY_PAUSE_MS = 8_000
"""So that a run goes on within ten seconds when whatever hindered it is over: a full disk, an engine that was away."""
_SWEEP_MS = 60_000
_REST_LOOK_MS = 50


class Agent:
    def __init__(
        self,
        node: Node,
        *,
        link: Link,
        runtime: Runtime,
        blobs: Blobs,
        logs: Logs,
        journal: Journal,
        clock: Clock,
        failpoints: Failpoints,
        starts_max: int,
        home: NodeId | None = None,
        owns: Callable[[RunId], bool] = lambda run: True,
    ) -> None:
        """`starts_max`: containers being made at once, apart from those that run. Several nodes may share one runtime: `home` is
        the one whose volumes they all use, `owns` says which of the runs found there are this one's to look after."""
        self._node = node
        self._link = link
        self._runtime = runtime
        self._logs = logs
        self._journal = journal
        self._clock = clock
        self._failpoints = failpoints
        self._start_slots = anyio.CapacityLimiter(starts_max)
        self._stager = Stager(runtime, blobs, journal, home or node.id, self._report)
        self._owns = owns
        self._is_home = home in (None, node.id)
        self._keepers: dict[RunId, Keeper] = {}
        self._newest = (0, 0)
        """Epoch and number of the newest set obeyed: an older one that was under way longer changes nothing."""
        self._wanted: frozenset[RunId] = frozenset()
        self._kept: frozenset[RunId] = frozenset()
        self._dropping: set[VolumeId] = set()
        self._leaving: set[RunId] = set()
        """No longer wanted, and somebody is at it."""
        self._draining = anyio.Lock()
        self._is_sweeping = False

    @property
    def node(self) -> NodeId:
        return self._node.id

    async def at_rest(self) -> None:
        """Returns when nothing runs here, and of what has ended nothing is left to copy or to remove."""
        while self._keepers or self._leaving:
            await self._pause(_REST_LOOK_MS)

    async def run(self) -> None:
        join = partial(self._link.join, self._node, epoch_seen=self._journal.epoch)
        await self._patiently(join, what="join", key=self._node.id)
        async with anyio.create_task_group() as tasks, self._link.assignments() as sets:
            async for told in sets:
                await self._make_true(told, tasks)

    async def _make_true(self, told: Assignments, tasks: TaskGroup) -> None:
        if told.epoch < self._journal.epoch or (told.epoch, told.number) < self._newest:
            log.warning("assignments.stale", epoch=told.epoch, number=told.number, obeyed=self._newest)
            return
        self._newest = told.epoch, told.number
        await self._journal.note_epoch(told.epoch)
        known = self._keepers.keys() | self._kept
        self._wanted = frozenset(assignment.run for assignment in told.runs)
        self._kept = frozenset(told.kept)
        for assignment in told.runs:
            self._keep(assignment, tasks)
        for run in sorted(known - self._wanted):
            tasks.start_soon(self._let_go, run, self._keepers.pop(run, None))
        for volume in told.doomed_volumes:
            if volume not in self._dropping:
                self._dropping.add(volume)
                tasks.start_soon(self._drop_volume, volume)
        if not self._is_sweeping:
            self._is_sweeping = True
            tasks.start_soon(self._sweep)

    def _keep(self, assignment: Assignment, tasks: TaskGroup) -> None:
        known = self._keepers.get(assignment.run)
        if known is not None:
            known.update(assignment)
            return
        keeper = self._keepers[assignment.run] = Keeper(
            assignment,
            runtime=self._runtime,
            stager=self._stager,
            logs=self._logs,
            clock=self._clock,
            failpoints=self._failpoints,
            report=self._report,
            ask=self._link.hand_over,
            start_slots=self._start_slots,
        )
        tasks.start_soon(self._live, keeper)

    async def _live(self, keeper: Keeper) -> None:
        """A fault of ours in one run must not end the others: it is logged, and the run taken up again from what is there."""
        pause = _RETRY_PAUSE_MS
        with keeper.dismissal:
            while True:
                try:
                    await keeper.live()
                    break
                except Exception:
                    log.exception("keeper.failed", run=keeper.assignment.run)
                await self._pause(pause)
                pause = min(pause * 2, _LONGEST_RETRY_PAUSE_MS)
        keeper.has_left.set()

    async def _let_go(self, run: RunId, keeper: Keeper | None) -> None:
        """Its end was accepted, so whatever its keeper still meant to do must not happen: it might be a start. But one that
        has told the end itself may still be copying the log."""
        self._leaving.add(run)
        if keeper is None:
            await self._patiently(lambda: self._drain(run), what="drain", key=run)
        else:
            if not keeper.has_told_end:
                keeper.dismissal.cancel()
            await keeper.has_left.wait()
        if run not in self._kept:
            await self._remove_run(run)
        elif keeper is not None:
            await self._patiently(lambda: self._runtime.stop(run, grace_ms=Millis(0)), what="stop", key=run)
        self._leaving.discard(run)

    async def _drain(self, run: RunId) -> None:
        """Of one whose end was told before its log was copied, by a server that was killed then."""
        async with self._draining:
            if not self._logs.is_sealed(run) and (await self._runtime.observe(run)).phase is Phase.EXITED:
                await drain(run, self._runtime, self._logs)

    async def _remove_run(self, run: RunId) -> None:
        """Its end was accepted and its time is over; its log stays."""
        await self._patiently(lambda: self._runtime.remove(run), what="remove", key=run)
        await self._journal.forget(run)

    async def _drop_volume(self, volume: VolumeId) -> None:
        await self._failpoints.reach("ttl.after_judge_before_delete")
        await self._patiently(lambda: self._runtime.remove_volume(volume), what="drop volume", key=volume)
        await self._journal.forget(volume)
        await self._report(VolumeGone(volume=volume, node=self._node.id))
        self._dropping.discard(volume)

    async def _sweep(self) -> None:
        """What a crash left behind: runs that carry our labels and are in no set, and logs that were not copied to their end.
        At the start, then as a safety net."""
        while True:
            try:
                for seen in await self._runtime.observe_all():
                    if self._owns(seen.run) and seen.run not in self._wanted and seen.run not in self._leaving:
                        await self._drain(seen.run)
                        if seen.run not in self._kept:
                            log.info("run.stray", run=seen.run, phase=seen.phase)
                            await self._remove_run(seen.run)
                await self._prune_journal()
                if self._is_home:
                    await self._runtime.tidy()
            except Unavailable as why:
                log.warning("runtime.unavailable", error=why.message)
            await self._pause(_SWEEP_MS)

    async def _prune_journal(self) -> None:
        """A note of what went may be lost in a crash; then nobody else would ever forget the run or volume."""
        noted = self._journal.noted()
        there = frozenset(await self._runtime.volumes())
        for key in sorted(noted - there - self._wanted - self._kept):
            await self._journal.forget(key)

    async def _report(self, fact: Fact) -> None:
        """Until it is durable on the other side: only then may the node forget it."""
        while True:
            try:
                return await self._link.report([fact])
            except Unavailable as why:
                log.warning("report.unheard", fact=type(fact).__name__, error=why.message)
                await self._pause(_REPORT_PAUSE_MS)

    async def _patiently(self, act: Callable[[], Awaitable[None]], *, what: str, key: str) -> None:
        """Until the other side has done it, asking less and less often."""
        pause = _RETRY_PAUSE_MS
        while True:
            try:
                return await act()
            except WindlassError as why:
                log.warning("act.refused", what=what, key=key, error=why.message)
            await self._pause(pause)
            pause = min(pause * 2, _SWEEP_MS)

    async def _pause(self, span_ms: int) -> None:
        await self._clock.sleep_until(Millis(self._clock.now() + span_ms))
