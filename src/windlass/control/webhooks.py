"""Tells the outside when a job is over: at least once, also across restarts, with the job's id to tell repeats apart."""

from collections.abc import Sequence

import anyio
import structlog
from msgspec import json

from windlass.control.brain import Brain
from windlass.control.readmodel import ReadModel
from windlass.control.waiting import woken_or_due
from windlass.core.errors import NotFound, Unavailable, WindlassError
from windlass.core.model.ids import JobId, Millis
from windlass.core.model.views import JobView
from windlass.core.world.hooks import due_hooks, hook_settled, next_hook_at
from windlass.core.world.journal import Entry
from windlass.core.world.records import Hook, Table
from windlass.ports.fetcher import Fetcher
from windlass.wire.render import job_manifest

log = structlog.get_logger()

_SAFETY_NET_MS = 30_000
_AT_ONCE = 16
_CAUGHT_UP_SECONDS = 30


class Webhooks:
    def __init__(self, brain: Brain, read_model: ReadModel, fetcher: Fetcher) -> None:
        self._brain = brain
        self._read_model = read_model
        self._fetcher = fetcher
        self._wake = anyio.Event()

    def committed(self, entries: Sequence[Entry], revision: int) -> None:
        if any(entry.table is Table.HOOKS and entry.new is not None for entry in entries):
            self._wake.set()

    async def run(self) -> None:
        while True:
            self._wake = anyio.Event()
            await self._deliver_due()
            now = self._brain.clock.now()
            soonest = next_hook_at(self._brain.world)
            until = Millis(min(soonest if soonest is not None else now + _SAFETY_NET_MS, now + _SAFETY_NET_MS))
            await woken_or_due(self._wake, self._brain.clock, until)

    async def _deliver_due(self) -> None:
        limiter = anyio.CapacityLimiter(_AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for hook in due_hooks(self._brain.world, now=self._brain.clock.now()):
                tasks.start_soon(self._deliver, hook, limiter)

    async def _deliver(self, hook: Hook, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            was_heard = await self._post(hook)
        try:
            kept, _ = await self._brain.decide(
                lambda now: hook_settled(self._brain.world, hook.job, was_heard=was_heard, now=now)
            )
        except WindlassError as error:
            log.warning("webhook.unsettled", job=hook.job, error=error.message)
            return
        if not kept:
            log.error("webhook.given_up", job=hook.job, tries=hook.tries + 1)

    async def _post(self, hook: Hook) -> bool:
        """Heard means a 2xx. A job erased meanwhile has nothing left to tell."""
        try:
            view = await self._ended(hook.job)
        except NotFound:
            return True
        except Unavailable as error:
            log.warning("webhook.postponed", job=hook.job, tries=hook.tries + 1, error=error.message)
            return False
        body = json.encode(job_manifest(view.job, view.spec, view.runs, wall=self._brain.clock.wall))
        headers = {"Content-Type": "application/json", "Windlass-Event": "job.over", "Windlass-Delivery": hook.job}
        try:
            status = await self._fetcher.post(hook.url, body, headers=headers)
        except WindlassError as error:
            log.warning("webhook.failed", job=hook.job, tries=hook.tries + 1, error=error.message)
            return False
        if not 200 <= status < 300:
            log.warning("webhook.refused", job=hook.job, tries=hook.tries + 1, status=status)
            return False
        return True

    async def _ended(self, job: JobId) -> JobView:
        """The World owes a hook before the end it tells of is on disk, and the read model has that later still."""
        revision = await self._brain.committer.durable(self._brain.world.number)
        if not await self._read_model.caught_up(revision, timeout=_CAUGHT_UP_SECONDS):
            raise Unavailable("the read model is behind", code="read-model-behind")
        return await self._read_model.find_job(None, job)
