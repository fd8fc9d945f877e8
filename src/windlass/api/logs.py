"""The output of a job's runs, as it is written: server-sent events, or plain text.

An event's id says where to resume: the byte offset in the attempt's log, with the attempt above it, so that following a job
over its retries loses and doubles nothing. For the first attempt the id is the offset itself.

JSON holds text only: a piece that is not UTF-8, be it binary or half of a character, comes along as base64 too.
"""

from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Annotated, Any, Final, Literal

import anyio
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from windlass.api.context import Context, Here, Reader
from windlass.api.following import followed
from windlass.api.jobs import Ref
from windlass.api.openapi import REFUSALS, event_stream
from windlass.api.sse import MEDIA_TYPE, Emit, EventStream, StreamingAnswer, frame
from windlass.core.errors import Invalid, NotFound
from windlass.core.model.run import Run
from windlass.core.model.views import JobView
from windlass.ports.logs import LogEntry

router = APIRouter(prefix="/api/v1/jobs", tags=["logs"], responses=REFUSALS)

Line = Callable[[LogEntry], Awaitable[None]]

_ATTEMPT_SHIFT: Final = 40
_OFFSET_MASK: Final = (1 << _ATTEMPT_SHIFT) - 1
_ID_DIGITS_MAX: Final = 18
_DATA: Final = (
    "Of a `line`: `at`, `stream`, `text`; `partial` when the line goes on with the next piece; and, when the piece is not "
    "UTF-8, its bytes as `base64`, `text` then being a readable approximation. Of the `end`: the job's `state`, `exitCode`, "
    "`reason` and `message`."
)
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `line` and, at the end, `end`; or plain text, byte for byte.",
        "content": event_stream("line", "end", data=_DATA) | {"text/plain": {"schema": {"type": "string"}}},
    }
}


class LogQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    follow: bool = False
    attempt: int | None = Field(
        default=None, ge=1, le=1000, description="Which run; absent, the newest and those to come."
    )
    stream: Literal["stdout", "stderr"] | None = None
    tail: int | None = Field(default=None, ge=0, le=1_000_000, description="Only the last so many lines.")
    timestamps: bool = Field(default=False, description="Before each line of plain text.")


@router.get("/{ref}/logs", response_class=Response, responses=_ANSWERS)
async def job_logs(
    request: Request,
    here: Here,
    caller: Reader,
    ref: Ref,
    query: Annotated[LogQuery, Query()],
    last_event_id: Annotated[str | None, Header(max_length=_ID_DIGITS_MAX)] = None,
) -> Response:
    view = await here.plane.read_model.find_job(caller.tenant, ref)
    here.seats.check()
    reading = _Reading(here, view, query, last_event_id)
    reading.check()
    if _wants_text(request):
        return StreamingAnswer(here, reading.text, media_type="text/plain; charset=utf-8")
    return EventStream(here, reading.events, for_an_end=query.follow)


class _Reading:
    def __init__(self, context: Context, view: JobView, query: LogQuery, last_event_id: str | None) -> None:
        self._context = context
        self._view = view
        self._query = query
        self._attempt, self._offset = _resume_point(last_event_id)
        if query.attempt is not None:
            if last_event_id is not None and self._attempt != query.attempt:
                raise Invalid("Last-Event-ID is of another attempt", code="last-event-id")
            if query.attempt > view.job.attempt:
                raise NotFound(
                    f"job {view.job.name} has made {view.job.attempt} attempt{'s' * (view.job.attempt != 1)}",
                    code="no-such-attempt",
                )
            self._attempt = query.attempt
        elif last_event_id is None:
            self._attempt = max(view.job.attempt, 1)

    def check(self) -> None:
        """Silence would say that it printed nothing. Whatever ran has a log, an empty one at least."""
        run = _run_of(self._view, self._attempt)
        if run is None or not run.is_over or run.started_at is None or self._context.plane.logbook.is_there(run.id):
            return
        raise NotFound(
            f"the log of {self._view.job.name} is not here",
            code="log-absent",
            hint="logs are no part of a backup: a job that was restored from one has none",
        )

    async def events(self, emit: Emit) -> None:
        async def line(entry: LogEntry) -> None:
            await emit(frame("line", _line_data(entry), id=((self._attempt - 1) << _ATTEMPT_SHIFT) + entry.offset))

        await self._read(line)
        job = self._view.job
        end = {"state": job.state.value, "exitCode": job.exit_code}
        await emit(frame("end", end | {"reason": job.reason or None, "message": job.message or None}))

    async def text(self, emit: Emit) -> None:
        is_line_open = False

        async def line(entry: LogEntry) -> None:
            nonlocal is_line_open
            stamp = f"{entry.at} ".encode() if self._query.timestamps and not is_line_open else b""
            is_line_open = entry.is_partial
            await emit(stamp + entry.text + (b"" if is_line_open else b"\n"))

        await self._read(line)

    async def _read(self, line: Line) -> None:
        if not self._query.follow:
            await self._read_attempt(line)
            return
        async with followed(self._context, self._view) as changes:
            async for view in changes:
                self._view = view
                while self._attempt <= self._view.job.attempt and not self._is_done():
                    await self._read_attempt(line)
                    self._attempt, self._offset = self._attempt + 1, 0
                if self._is_done() or self._view.job.is_over:
                    return

    def _is_done(self) -> bool:
        """One attempt was asked for and has been given."""
        return self._query.attempt is not None and self._attempt > self._query.attempt

    async def _read_attempt(self, line: Line) -> None:
        run = _run_of(self._view, self._attempt)
        if run is None:
            return  # nothing has run yet, or it is so long ago that its record is gone
        with suppress(NotFound):  # it ended before it could write anything
            if self._query.follow and not (run.is_over and self._context.plane.logbook.is_sealed(run.id)):
                await self._read_live(run, line)
            await self._read_to_end(run, line)

    async def _read_live(self, run: Run, line: Line) -> None:
        """As it grows, until its log is sealed, or the run is over and nobody writes to its log, whichever we hear of first: a
        run that was stopped before it was made has no log that anyone would seal."""
        wait = _Wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_end, run, wait)
            reading = self._open(run, follow=True)
            while (entry := await wait.next(reading)) is not None:
                await self._emit(entry, line)
            tasks.cancel_scope.cancel()

    async def _watch_end(self, run: Run, wait: "_Wait") -> None:
        async with followed(self._context, self._view) as changes:
            async for view in changes:
                self._view = view
                known = _run_of(view, run.attempt)
                if known is None or known.is_over or view.job.is_over:
                    await self._context.plane.logbook.closed(run.id)
                    wait.end()
                    return

    async def _read_to_end(self, run: Run, line: Line) -> None:
        async for entry in self._open(run, follow=False):
            await self._emit(entry, line)

    def _open(self, run: Run, *, follow: bool) -> AsyncIterator[LogEntry]:
        tail = self._query.tail if not self._offset else None
        return self._context.plane.logbook.read(run.id, after=self._offset, follow=follow, tail=tail)

    async def _emit(self, entry: LogEntry, line: Line) -> None:
        if self._query.stream in (None, entry.stream):
            await line(entry)
        self._offset = entry.offset


class _Wait:
    """Waiting for the next entry, which the end of the run cuts short. Only the wait is: what was read is emitted, and what
    was not is read again from the file."""

    def __init__(self) -> None:
        self._is_over = False
        self._scope = anyio.CancelScope()

    async def next(self, reading: AsyncIterator[LogEntry]) -> LogEntry | None:
        with anyio.CancelScope() as self._scope:
            return None if self._is_over else await anext(reading, None)
        return None

    def end(self) -> None:
        self._is_over = True
        self._scope.cancel()


def _line_data(entry: LogEntry) -> dict[str, Any]:
    data: dict[str, Any] = {"at": entry.at, "stream": entry.stream}
    try:
        data["text"] = entry.text.decode()
    except UnicodeDecodeError:
        data |= {"text": entry.text.decode("utf-8", "replace"), "base64": b64encode(entry.text).decode()}
    if entry.is_partial:
        data["partial"] = True
    return data


def _run_of(view: JobView, attempt: int) -> Run | None:
    return next((run for run in view.runs if run.attempt == attempt and run.index == 0), None)


def _resume_point(last_event_id: str | None) -> tuple[int, int]:
    if last_event_id is None:
        return 1, 0
    if not (last_event_id.isascii() and last_event_id.isdigit()) or len(last_event_id) > _ID_DIGITS_MAX:
        raise Invalid("Last-Event-ID is not one of ours", code="last-event-id")
    number = int(last_event_id)
    return (number >> _ATTEMPT_SHIFT) + 1, number & _OFFSET_MASK


def _wants_text(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return "text/plain" in accepted and MEDIA_TYPE not in accepted
