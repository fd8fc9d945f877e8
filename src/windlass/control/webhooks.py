"""Tells the outside when a job is over: at least once, also across restarts, with the job's id to tell repeats apart.

Each delivery is a task of its own, so that a receiver that is slow holds up nobody but, in the end, its own tenant. What became
of a try is stored: from there the job's events and its status have it.
"""

from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush

import anyio
import structlog
from msgspec import Struct, json

from windlass.control.brain import Brain
from windlass.control.readmodel import ReadModel
from windlass.control.turns import Turns
from windlass.control.waiting import woken_or_due
from windlass.core.errors import Invalid, NotFound, Unavailable, WindlassError
from windlass.core.model.hook import Hook, HookState
from windlass.core.model.ids import JobId, Millis
from windlass.core.model.views import JobView
from windlass.core.world.entry import Entry
from windlass.core.world.hooks import hook_moot, hook_settled
from windlass.core.world.records import Table
from windlass.ports.fetcher import Fetcher, FetchFailed
from windlass.wire.render import job_manifest

log = structlog.get_logger()

_SAFETY_NET_MS = 30_000
_UNSETTLED_PAUSE_MS = 1_000
"""A try whose outcome could not be stored is made again: not at once, for the store may refuse for long."""
_AT_ONCE = 128
_OF_ONE_TENANT = 8
_CAUGHT_UP_SECONDS = 30


class _Outcome(Struct, frozen=True):
    problem: str = ""
    """Empty: it was heard."""
    is_final: bool = False
    """Trying again cannot help."""


class Webhooks:
    def __init__(self, brain: Brain, read_model: ReadModel, fetcher: Fetcher) -> None:
        self.tally: Counter[HookState] = Counter()
        """What became of tries since the start."""
        self._brain = brain
        self._read_model = read_model
        self._fetcher = fetcher
        self._wake = anyio.Event()
        self._due: list[tuple[Millis, JobId]] = []
        """A heap of when each may be tried; what changed since it was put in is passed over."""
        self._turns = Turns(at_once=_AT_ONCE, of_one_tenant=_OF_ONE_TENANT)

    @property
    def owed(self) -> int:
        return len(self._brain.world.tables.hooks)

    def committed(self, entries: Sequence[Entry], revision: int) -> None:
        for entry in entries:
            if entry.table is Table.HOOKS and isinstance(entry.new, Hook):
                self._put_off(entry.new.job, entry.new.not_before)

    async def run(self) -> None:
        for hook in self._brain.world.tables.hooks.values():
            self._put_off(hook.job, hook.not_before)
        async with anyio.create_task_group() as tasks:
            while True:
                self._wake = anyio.Event()
                now = self._brain.clock.now()
                self._call_due(now)
                while (job := self._turns.take()) is not None:
                    tasks.start_soon(self._serve, job)
                soonest = self._due[0][0] if self._due else Millis(now + _SAFETY_NET_MS)
                await woken_or_due(self._wake, self._brain.clock, min(soonest, Millis(now + _SAFETY_NET_MS)))

    def _put_off(self, job: JobId, until: Millis) -> None:
        heappush(self._due, (until, job))
        self._wake.set()

    def _call_due(self, now: Millis) -> None:
        hooks = self._brain.world.tables.hooks
        while self._due and self._due[0][0] <= now:
            _, job = heappop(self._due)
            hook = hooks.get(job)
            if hook is not None and hook.not_before <= now and job not in self._turns:
                self._turns.add(hook.tenant, job)

    async def _serve(self, job: JobId) -> None:
        try:
            hook = self._brain.world.tables.hooks.get(job)
            if hook is not None:
                await self._deliver(hook)
        except WindlassError as error:
            log.warning("webhook.unsettled", job=job, error=error.message)
            self._put_off(job, Millis(self._brain.clock.now() + _UNSETTLED_PAUSE_MS))
        finally:
            self._turns.done(job)
            self._wake.set()

    async def _deliver(self, hook: Hook) -> None:
        world = self._brain.world
        try:
            outcome = await self._tell(hook)
        except NotFound:
            await self._brain.decide(lambda now: hook_moot(world, hook.job, now=now))
            return
        tried, _ = await self._brain.decide(
            lambda now: hook_settled(world, hook.job, problem=outcome.problem, is_final=outcome.is_final, now=now)
        )
        if tried is None:
            return
        self.tally[tried.state] += 1
        if tried.problem:
            log.warning(f"webhook.{tried.state}", job=hook.job, tries=tried.tries, problem=tried.problem)

    async def _tell(self, hook: Hook) -> _Outcome:
        """Heard means a 2xx. NotFound when the job was erased meanwhile."""
        try:
            view = await self._ended(hook.job)
        except Unavailable as error:
            return _Outcome(error.message)
        body = json.encode(job_manifest(view.job, view.spec, view.runs, wall=self._brain.clock.wall))
        headers = {"Content-Type": "application/json", "Windlass-Event": "job.over", "Windlass-Delivery": hook.job}
        try:
            status = await self._fetcher.post(hook.url, body, headers=headers)
        except Invalid as error:
            # An address out of bounds is so by decision, not by chance: trying again only hides it for longer.
            return _Outcome(error.message, is_final=not isinstance(error, FetchFailed))
        except WindlassError as error:
            return _Outcome(error.message)
        return _Outcome() if 200 <= status < 300 else _Outcome(f"the address answered {status}")

    async def _ended(self, job: JobId) -> JobView:
        """The World owes a hook before the end it tells of is on disk, and the read model has that later still."""
        revision = await self._brain.committer.durable(self._brain.world.number)
        if not await self._read_model.caught_up(revision, timeout=_CAUGHT_UP_SECONDS):
            raise Unavailable("the read model is behind", code="read-model-behind")
        return await self._read_model.find_job(None, job)
