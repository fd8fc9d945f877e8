"""What happened: to one job as a list or a stream, and to all jobs of a tenant as they change."""

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from windlass.api.answers import answer, manifest_of
from windlass.api.auth import Identity
from windlass.api.context import Context, Here, Reader
from windlass.api.following import followed
from windlass.api.jobs import REF_MAX, Ref
from windlass.api.openapi import REFUSALS, event_stream
from windlass.api.sse import Emit, EventStream, frame
from windlass.core.errors import Invalid
from windlass.core.model.ids import TenantId
from windlass.core.model.views import Event, EventQuery, JobView
from windlass.wire import schema
from windlass.wire.render import event_document

router = APIRouter(prefix="/api/v1", tags=["events"], responses=REFUSALS)

_REVISION_MAX: Final = 10**18
_LIST_OR_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "A list, or events.", "content": event_stream("event")}
}
_ONLY_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "Events `job` and `reset`.", "content": event_stream("job", "reset")}
}
LastEventId = Annotated[str | None, Header(max_length=18)]


class FollowQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    follow: bool = False
    after: int = Field(default=0, ge=0, le=_REVISION_MAX, description="Only what came after this revision.")


class RecordQuery(FollowQuery):
    job: str = Field(
        default="", min_length=1, max_length=REF_MAX, description="Of one job only: name, uid, or the beginning of one."
    )
    last: int | None = Field(default=None, ge=1, le=1000, description="The newest so many.")
    everyone: bool = Field(
        default=False, description="For admins: of every tenant, the others' jobs without their names and messages."
    )


class ChangesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    follow: bool = Field(default=True, description="Changes are always followed; a list is /jobs.")
    after: int | None = Field(default=None, ge=0, le=_REVISION_MAX, description="The revision of the list you have.")


@router.get("/jobs/{ref}/events", response_model=schema.EventList, responses=_LIST_OR_STREAM)
async def job_events(
    here: Here, caller: Reader, ref: Ref, query: Annotated[FollowQuery, Query()], last_event_id: LastEventId = None
) -> Response:
    view = await here.plane.read_model.find_job(caller.tenant, ref)
    after = _resume_from(last_event_id, query.after)
    if query.follow:
        here.seats.check()
        return EventStream(here, partial(_follow_job, here, view, after), for_an_end=True)
    events = await here.plane.read_model.events(_of_job(view, after))
    return answer({"items": [event_document(event, wall=here.plane.clock.wall) for event in events]})


@router.get("/events/recorded", response_model=schema.EventPage, responses=_LIST_OR_STREAM)
async def recorded(
    here: Here, caller: Reader, query: Annotated[RecordQuery, Query()], last_event_id: LastEventId = None
) -> Response:
    """What happened to the tenant's jobs, in the order of commits; for an admin, also to the nodes.

    A page ends with the revision to ask for as `after`, unless it is the last one; with `last`, the newest so many come instead.
    """
    asked = await _asked(here, caller, query, last_event_id)
    if query.follow:
        here.seats.check()
        return EventStream(here, partial(_follow_record, here, caller.tenant, asked))
    if query.last is not None:
        asked = replace(asked, limit=query.last, is_newest=True)
    revision = here.plane.read_model.revision
    events = await here.plane.read_model.events(asked)
    more = await here.plane.read_model.events(replace(asked, after=events[-1].revision, limit=1)) if events else ()
    items = [event_document(_as_seen(event, caller.tenant), wall=here.plane.clock.wall) for event in events]
    return answer({"items": items, "next": events[-1].revision if more else None, "revision": revision})


@router.get("/events", response_class=Response, responses=_ONLY_STREAM)
async def changes(
    here: Here, caller: Reader, query: Annotated[ChangesQuery, Query()], last_event_id: LastEventId = None
) -> Response:
    """Every change of a job of the tenant, as its manifest. An event `reset` means that changes were missed: list again."""
    if not query.follow:
        raise Invalid("changes are always followed", code="follow", hint="for a list, ask /api/v1/jobs")
    here.seats.check()
    after = _resume_from(last_event_id, query.after)
    return EventStream(here, partial(_follow_tenant, here, caller.tenant, after))


async def _follow_job(here: Context, view: JobView, after: int, emit: Emit) -> None:
    """Ends with the job."""
    async with followed(here, view) as states:
        async for state in states:
            events = await here.plane.read_model.events(_of_job(view, after))
            after = await _emit_events(here, events, after, emit)
            if state.job.is_over:
                return


async def _asked(here: Context, caller: Identity, query: RecordQuery, last_event_id: str | None) -> EventQuery:
    if query.everyone:
        caller.must_govern()
    nodes = ("",) if caller.is_admin else ()
    subject = (await here.plane.read_model.find_job(caller.tenant, query.job)).job.id if query.job else ""
    return EventQuery(
        tenants=None if query.everyone else (caller.tenant, *nodes),
        subject=subject,
        after=_resume_from(last_event_id, query.after),
    )


def _as_seen(event: Event, by: TenantId) -> Event:
    """Of another tenant's job, what replaying it takes: what it asked for, where it was and when, and no word of its owner's."""
    return event if event.tenant in ("", by) else replace(event, name="", message="")


async def _follow_record(here: Context, by: TenantId, query: EventQuery, emit: Emit) -> None:
    """Whatever comes after `query.after`, without an end."""
    read_model = here.plane.read_model
    while True:
        seen = read_model.revision
        events = [_as_seen(event, by) for event in await read_model.events(query)]
        query = replace(query, after=await _emit_events(here, events, query.after, emit))
        if not events:
            await read_model.beyond(seen)


async def _emit_events(here: Context, events: Sequence[Event], after: int, emit: Emit) -> int:
    """One commit may tell of several events: only the last of them is a place to resume after."""
    for event, following in zip_longest(events, events[1:]):
        is_last = following is None or following.revision != event.revision
        document = event_document(event, wall=here.plane.clock.wall)
        await emit(frame("event", document, id=event.revision if is_last else None))
        after = event.revision
    return after


async def _follow_tenant(here: Context, tenant: TenantId, after: int | None, emit: Emit) -> None:
    read_model = here.plane.read_model
    async with read_model.follow(tenant=tenant, after=after) as states:
        # Past changes are not kept: a reader that is behind must list again, and is told so.
        if after is not None and after < read_model.revision:
            await emit(frame("reset", {"revision": read_model.revision}))
        async for view in states:
            await emit(frame("job", manifest_of(here, view), id=view.revision))
    await emit(frame("reset", {"revision": read_model.revision}))


def _of_job(view: JobView, after: int) -> EventQuery:
    return EventQuery(tenants=(view.job.tenant,), subject=view.job.id, after=after)


def _resume_from(last_event_id: str | None, after: int | None) -> Any:
    if last_event_id is None:
        return after
    if not (last_event_id.isascii() and last_event_id.isdigit()):
        raise Invalid("Last-Event-ID is not one of ours", code="last-event-id")
    return int(last_event_id)
