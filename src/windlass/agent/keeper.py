"""One run on this node, from its assignment to its accepted end: prepare, create, start once, follow, report.

Every step may be repeated after a crash: what the runtime and the journal already show is taken over, not done again.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import structlog
from msgspec.structs import replace

from windlass.agent import verdict
from windlass.agent.copying import copy_lines
from windlass.agent.staging import Stager
from windlass.agent.verdict import StopCause
from windlass.core.distribution.reference import registry_of
from windlass.core.errors import Unavailable, WindlassError
from windlass.core.model.assignment import Assignment
from windlass.core.model.facts import Fact, RunEnded, RunProgressed, RunStarted
from windlass.core.model.ids import Millis, RunId
from windlass.core.model.run import ImageWait, Intent, Token
from windlass.core.model.secret import NOTHING_HANDED, Handed
from windlass.ports.clock import Clock
from windlass.ports.failpoints import Failpoints
from windlass.ports.logs import Logs, LogWriter
from windlass.ports.runtime import (
    ENGINE_REFUSED,
    ENGINE_UNAVAILABLE,
    ImageAccess,
    ImageUnavailable,
    LogLine,
    Observed,
    Phase,
    Runtime,
    Stream,
    Used,
)

log = structlog.get_logger()

Report = Callable[[Fact], Awaitable[None]]
Ask = Callable[[RunId, Token], Awaitable[Handed]]
"""For what a start is handed (see `ports.link.Link.hand_over`)."""

_PULL_TRIES = 6
_PULL_PAUSE_MS = 1_000
_ENGINE_PAUSE_MS = 1_000
_REFUSALS_MAX = 5
_NO_ENGINE = "waiting for the container engine, which does not answer"
_DRAIN_SECONDS = 3
"""For how long the word of an end waits for the end of the log, so that a failure can be told with its last lines."""
_SILENCE_SECONDS = 60
_FIRST_LOOK_MS, _LOOK_MS_MAX = 2_000, 16_000
"""Between two looks at what a run uses; what ends before the first is not measured."""
_START_LOOK_MS_MAX = 8_000
"""Between two looks at one that waits for room elsewhere: it may be one of thousands."""
_NO_TIME = "1970-01-01T00:00:00.000000000Z"
_TAIL_LINES, _TAIL_CHARACTERS = 20, 500


class Keeper:
    def __init__(
        self,
        assignment: Assignment,
        *,
        runtime: Runtime,
        stager: Stager,
        logs: Logs,
        clock: Clock,
        failpoints: Failpoints,
        report: Report,
        ask: Ask,
        start_slots: anyio.CapacityLimiter,
    ) -> None:
        self.assignment = assignment
        self._runtime = runtime
        self._stager = stager
        self._logs = logs
        self._clock = clock
        self._failpoints = failpoints
        self._report = report
        self._ask = ask
        self._start_slots = start_slots
        self._stop_asked = anyio.Event()
        self._cause: StopCause | None = None
        self._began_at: Millis | None = None
        """When its start was done, if that was ours to do."""
        self._has_told_start = False
        self._last_said = ""
        self.has_told_end = False
        """Nothing is left to do but to copy the rest of its log: whoever removes the run waits for that."""
        self._used: Used | None = None
        self._looked_at_ms = 1
        """How long it had run when that was seen."""
        self.dismissal = anyio.CancelScope()
        """Cancelled when the run is no longer this node's to keep."""
        self.has_left = anyio.Event()
        """Nothing more will be done for this run by this keeper."""
        self.update(assignment)

    def update(self, assignment: Assignment) -> None:
        self.assignment = assignment
        if assignment.intent is Intent.STOP:
            self._stop_asked.set()

    async def live(self) -> None:
        async with self._logs.writer(self.assignment.run) as writer:
            end = await self._bring_up() or await self._follow(writer)
            await writer.seal()
        if not self.has_told_end:
            await self._tell_end(end)

    # — until it runs —

    async def _bring_up(self) -> RunEnded | None:
        """Started (now or before the crash): None. Else how it ended without running."""
        if self._stager.journal.was_started(self.assignment.run):
            seen = await self._observe()
            if seen.phase in (Phase.RUNNING, Phase.EXITED):
                return None
            if seen.phase is Phase.ABSENT:
                return verdict.vanished(self.assignment)
            if seen.phase is Phase.CREATED and seen.error:
                return verdict.refused(self.assignment, seen)
        # Else nothing of ours let it start, and a look would tell nothing: `create` and `start` leave alone what is there.
        await self._failpoints.reach("agent.after_ack_before_create")
        return await self._until_stopped(self._prepare_and_start)

    async def _until_stopped(self, work: Callable[[], Awaitable[None]]) -> RunEnded | None:
        """A cancel does not wait for a pull; but what was started meanwhile is followed to its end."""
        refusal: WindlassError | None = None
        async with anyio.create_task_group() as tasks:

            async def stop_early() -> None:
                await self._stop_asked.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop_early)
            try:
                await work()
            except WindlassError as why:
                refusal = why
            tasks.cancel_scope.cancel()
        if refusal is not None:
            log.info("run.refused", run=self.assignment.run, error=refusal.message)
            return verdict.never_started(self.assignment, refusal)
        if not self._stop_asked.is_set():
            return None
        seen = await self._observe()
        return None if seen.phase in (Phase.RUNNING, Phase.EXITED) else verdict.stopped_before_start(self.assignment)

    async def _prepare_and_start(self) -> None:
        assignment = self.assignment
        handed = await self._handed()
        await self._pull(handed)
        async with self._start_slots:  # more at once would only multiply each one's latency
            await self._patiently(lambda: self._stager.stage(assignment, self._progress))
            await self._create(handed)
            await self._failpoints.reach("agent.after_create_before_start")
            with anyio.CancelScope(shield=True):  # between the note and the act, a cancel must not leave a doubt
                await self._stager.journal.note_starting(assignment.run, now=self._clock.now())
                await self._patiently(lambda: self._runtime.start(assignment.run, handed=handed))
                self._began_at = self._clock.now()
        await self._failpoints.reach("agent.after_start_before_report")

    async def _create(self, handed: Handed) -> None:
        """The container, while the volume goes on record: both are there before anything starts."""
        refusal: WindlassError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._stager.announce, self.assignment)
            try:
                await self._patiently(lambda: self._runtime.create(self.assignment, handed=handed))
            except WindlassError as why:  # kept out of the task group, which would wrap it
                refusal = why
        if refusal is not None:
            raise refusal

    async def _handed(self) -> Handed:
        """Its secrets and its login, for this start only: they are on no disk of ours, so an agent that comes later asks too."""
        assignment = self.assignment
        spec = assignment.spec
        if not (spec.secret_env or spec.secret_files or assignment.has_login):
            return NOTHING_HANDED
        while True:
            try:
                return await self._ask(assignment.run, assignment.token)
            except Unavailable as why:
                log.warning("secrets.unavailable", run=assignment.run, error=why.message)
                await self._pause(_ENGINE_PAUSE_MS)

    async def _access(self, handed: Handed) -> ImageAccess:
        """That a registry wanted a login is written down before the pull: what it gave must not outlive the knowledge."""
        journal, registry = self._stager.journal, registry_of(self.assignment.spec.image)
        if handed.credentials is not None:
            await journal.note_guarded(registry)
        return ImageAccess(
            tenant=self.assignment.tenant,
            credentials=handed.credentials,
            is_guarded=self.assignment.is_guarded or journal.is_guarded(registry),
        )

    async def _pull(self, handed: Handed) -> None:
        image, access = self.assignment.spec.image, await self._access(handed)
        for attempt in range(1, _PULL_TRIES + 1):
            try:
                async for line in self._runtime.ensure_image(image, access=access):
                    await self._progress(line, ImageWait(failures=attempt - 1))
                return
            except ImageUnavailable as why:
                if not why.is_transient or attempt == _PULL_TRIES:
                    raise
                pause = _PULL_PAUSE_MS << (attempt - 1)
                wait = ImageWait(failures=attempt, again_at=Millis(self._clock.now() + pause))
                await self._progress(f"pulling {image}: {why}; trying again in {pause // 1000} s", wait)
                await self._pause(pause)
            except Unavailable as why:
                await self._tell_waiting(why)
                await self._pause(_ENGINE_PAUSE_MS)

    async def _tell_waiting(self, why: Unavailable) -> None:
        """Of a run that is being brought up: that nothing happens, and why, is to be seen with its job."""
        said = _NO_ENGINE if why.code == ENGINE_UNAVAILABLE else f"waiting: {why.message}"
        if said != self._last_said and not self._has_told_start:
            await self._progress(said)

    async def _progress(self, text: str, image_wait: ImageWait | None = None) -> None:
        run, token = self.assignment.run, self.assignment.token
        self._last_said = text
        await self._report(RunProgressed(run=run, token=token, progress=text[:200], image_wait=image_wait))

    # — while it runs —

    async def _follow(self, writer: LogWriter) -> RunEnded:
        if self._runtime.traits.starts_at_once:
            await self._tell_started()
        copied = anyio.Event()
        async with anyio.create_task_group() as copying:
            copying.start_soon(self._copy_log, writer, copied)
            async with anyio.create_task_group() as stoppers:
                stoppers.start_soon(self._stop_when_asked)
                stoppers.start_soon(self._stop_at_deadline)
                stoppers.start_soon(self._look_at_usage)
                if not self._runtime.traits.starts_at_once:
                    stoppers.start_soon(self._tell_when_it_runs)
                seen = self._measured(await self._runtime.wait(self.assignment.run))
                stoppers.cancel_scope.cancel()
            if seen.phase is Phase.EXITED and not self._has_told_start:
                await self._tell_started()
            with anyio.move_on_after(_DRAIN_SECONDS):
                await copied.wait()
            if not copied.is_set():  # its place is free now, and its cost is known: neither waits for a long log
                await self._tell_end(verdict.ended(self.assignment, seen, self._cause, ""))
            await self._drain(writer, copied)
            copying.cancel_scope.cancel()
        is_well = seen.exit_code == 0 and self._cause is None  # one that is stopped may end with 0 all the same
        tail = "" if is_well else await writer.tail(lines=_TAIL_LINES, characters=_TAIL_CHARACTERS)
        return verdict.ended(self.assignment, seen, self._cause, tail)

    async def _tell_end(self, end: RunEnded) -> None:
        await self._failpoints.reach("agent.after_exit_before_report")
        self.has_told_end = True
        await self._report(end)

    async def _tell_started(self) -> None:
        await self._report(RunStarted(run=self.assignment.run, token=self.assignment.token))
        self._has_told_start = True

    async def _tell_when_it_runs(self) -> None:
        """Until then, what it waits for: room, an image. Where a start takes its time."""
        told, pause = "", _ENGINE_PAUSE_MS
        while True:
            seen = await self._observe()
            if seen.phase is Phase.RUNNING:
                await self._tell_started()
                return await self._stop_after(self._clock.now())
            if seen.phase is not Phase.CREATED:
                return None
            if seen.waits_for not in ("", told):
                told = seen.waits_for
                await self._progress(told)
            await self._pause(pause)
            pause = min(2 * pause, _START_LOOK_MS_MAX)

    async def _drain(self, writer: LogWriter, copied: anyio.Event) -> None:
        """All that it wrote, however long that takes; given up, and said so in the log, only when nothing comes any more."""
        while not copied.is_set():
            before = writer.position
            with anyio.move_on_after(_SILENCE_SECONDS):
                await copied.wait()
            if not copied.is_set() and writer.position == before:
                log.error("log.cut", run=self.assignment.run)
                lost = b"[windlass: the runtime stopped giving this log; the rest is lost]"
                await writer.append([LogLine(at=before.last_at or _NO_TIME, stream=Stream.STDERR, text=lost)])
                break

    def _started_at(self) -> Millis:
        """By our own clock, as noted before the start; a run that another agent's journal started counts from now."""
        noted = self._stager.journal.started_at(self.assignment.run)
        return noted if noted is not None else self._clock.now()

    def _running_since(self) -> Millis:
        """An engine takes a part of a second to start it, which is not the run's: neither of its timeout nor of its cost."""
        return self._began_at if self._began_at is not None else self._started_at()

    def _measured(self, seen: Observed) -> Observed:
        """The engine's record of how long it ran is a difference of wall times: a clock that jumped must not be charged.

        What ran took a millisecond at least: 0 says that nothing was measured, and such a run is in no ledger."""
        if seen.phase is Phase.CREATED:  # it never ran
            return replace(seen, ran_ms=Millis(0))
        now = self._clock.now()
        most, ours = max(1, now - self._started_at()), max(1, now - self._running_since())
        measured = replace(seen, ran_ms=Millis(min(seen.ran_ms, most) if seen.ran_ms > 0 else ours))
        if self._used is None or seen.cpu_used_ms is not None:
            return measured
        # It went on for a while after the last look: as busy as before it, on average.
        cpu = self._used.cpu_used_ms * max(measured.ran_ms, self._looked_at_ms) // self._looked_at_ms
        return replace(measured, cpu_used_ms=cpu, memory_peak_bytes=self._used.memory_peak_bytes)

    async def _look_at_usage(self) -> None:
        """From time to time: an engine forgets what a container used when it ends. The last look is what is reported."""
        pause = _FIRST_LOOK_MS
        while True:
            await self._pause(pause)
            with suppress(Unavailable):
                used = await self._runtime.usage(self.assignment.run)
                if used is None:
                    return
                peak = max(used.memory_peak_bytes, self._used.memory_peak_bytes if self._used is not None else 0)
                self._used = replace(used, memory_peak_bytes=peak)
                self._looked_at_ms = max(1, self._clock.now() - self._started_at())
            pause = min(2 * pause, _LOOK_MS_MAX)

    async def _stop_when_asked(self) -> None:
        await self._stop_asked.wait()
        self._cause = self._cause or StopCause.CANCEL
        await self._patiently(lambda: self._runtime.stop(self.assignment.run, grace_ms=self.assignment.grace_ms))

    async def _stop_at_deadline(self) -> None:
        """Where a start takes its time, from when it was seen to run: `_tell_when_it_runs`."""
        if self._runtime.traits.starts_at_once:
            await self._stop_after(self._running_since())

    async def _stop_after(self, started_at: Millis) -> None:
        if self.assignment.timeout_ms is None:
            return
        await self._clock.sleep_until(Millis(started_at + self.assignment.timeout_ms))
        self._cause = self._cause or StopCause.DEADLINE
        await self._patiently(lambda: self._runtime.stop(self.assignment.run, grace_ms=self.assignment.grace_ms))

    async def _copy_log(self, writer: LogWriter, copied: anyio.Event) -> None:
        """From the runtime into our file, from where the file ends; an engine that goes away is asked again."""
        while True:
            try:
                await copy_lines(self._runtime.logs(self.assignment.run, after=writer.position), writer)
                return copied.set()
            except Unavailable:
                await self._pause(_ENGINE_PAUSE_MS)

    # — patience —

    async def _observe(self) -> Observed:
        """An engine that does not answer says nothing about the run: ask until it does."""
        while True:
            try:
                return await self._runtime.observe(self.assignment.run)
            except Unavailable:
                await self._pause(_ENGINE_PAUSE_MS)

    async def _patiently(self, act: Callable[[], Awaitable[None]]) -> None:
        """An engine that is away is waited for; one that answers and refuses is asked a few times more, then believed."""
        refusals = 0
        while True:
            try:
                return await act()
            except Unavailable as why:
                log.warning("runtime.unavailable", run=self.assignment.run, error=why.message)
                refusals += why.code == ENGINE_REFUSED
                if refusals >= _REFUSALS_MAX:
                    raise WindlassError(why.message, code=why.code, hint=why.hint) from why
                await self._tell_waiting(why)
                await self._pause(_ENGINE_PAUSE_MS)

    async def _pause(self, span_ms: int) -> None:
        await self._clock.sleep_until(Millis(self._clock.now() + span_ms))
