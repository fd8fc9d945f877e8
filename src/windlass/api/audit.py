"""The audit, for admins: by pages, or as a stream of JSON lines."""

import re
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Query, Request
from msgspec.structs import replace
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass.api.answers import answer
from windlass.api.context import Admin, Context, Here, refresh
from windlass.api.openapi import REFUSALS
from windlass.api.sse import ENDLESS, Emit, StreamingAnswer
from windlass.core.errors import Fault, Invalid, Unavailable
from windlass.core.model.audit import AuditQuery
from windlass.core.model.ids import Millis
from windlass.ports.clock import Clock
from windlass.wire.audit import AuditList, deed_document
from windlass.wire.expected import Form

router = APIRouter(prefix="/api/v1/audit", tags=["audit"], responses=REFUSALS)

LINES: Final = "application/x-ndjson"
_PAGE: Final = 500
_LOOK_AGAIN_SECONDS: Final = 15.0
_WHOLE_SECONDS: Final = 30.0
_TEXT_MAX: Final = 200
_TEXTS: Final = {"tenant", "subject", "verb", "kind", "name", "uid", "request", "token"}
"""Asked for as they are written."""
_EXPORT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "A record a line, oldest first.", "content": {LINES: {"schema": {"type": "string"}}}}
}

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _read_moment(value: object) -> datetime:
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        raise ValueError("expected a moment such as 2026-01-31T12:00:00Z")
    return datetime.fromisoformat(value.upper().replace(" ", "T"))


Text = Annotated[str, Field(max_length=_TEXT_MAX)]
Moment = Annotated[
    datetime, BeforeValidator(_read_moment), WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 40})
]


class Filters(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tenant: Text = Field(default="", description="What it did, and what was done to its things.")
    subject: Text = ""
    verb: Text = ""
    kind: Text = ""
    name: Text = ""
    uid: Text = ""
    request: Text = ""
    token: Text = ""
    outcome: Literal["done", "refused"] | None = None
    since: Moment | None = Field(default=None, description="RFC 3339, with its offset.")
    until: Moment | None = None


class AuditListQuery(Filters):
    order: Literal["newest", "oldest"] = "newest"
    limit: int = Field(default=100, ge=1, le=1000)
    cursor: Annotated[str, Form("^[0-9]*$", "expected what `next` of the page before said")] = Field(
        default="", max_length=18
    )


class ExportQuery(Filters):
    follow: bool = Field(default=False, description="Go on with records as they come.")
    after: int = Field(default=0, ge=0, le=10**18, description="The number of the last record you have.")


@router.get("", response_model=AuditList)
async def list_audit(
    request: Request, here: Here, caller: Admin, query: Annotated[AuditListQuery, Query()]
) -> Response:
    await refresh(request)
    asked = replace(
        _asked(here.plane.clock, query),
        newest_first=query.order == "newest",
        limit=query.limit,
        after=int(query.cursor or 0),
    )
    page = await here.plane.read_model.audit(asked)
    items = [deed_document(deed, wall=here.plane.clock.wall) for deed in page.items]
    more = str(page.items[-1].number) if page.has_more else None
    return answer({"items": items, "next": more, "revision": page.revision}, revision=page.revision)


@router.get("/export", response_class=Response, responses=_EXPORT)
async def export_audit(here: Here, caller: Admin, query: Annotated[ExportQuery, Query()]) -> Response:
    """Whole, or not at all: what was done before it was asked for is in it."""
    if not await here.plane.read_model.caught_up(timeout=_WHOLE_SECONDS):
        raise Unavailable("the read model is behind", code="read-model-behind")
    here.seats.check()
    asked = replace(_asked(here.plane.clock, query), newest_first=False, limit=_PAGE, after=query.after)
    return _Lines(here, partial(_send, here, asked, query.follow), is_endless=query.follow)


class _Lines(StreamingAnswer):
    def __init__(self, here: Context, source: Callable[[Emit], Any], *, is_endless: bool) -> None:
        super().__init__(here, source, media_type=LINES)
        self._is_endless = is_endless

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"][ENDLESS] = self._is_endless
        await super().__call__(scope, receive, send)


async def _send(here: Context, asked: AuditQuery, follow: bool, emit: Emit) -> None:
    read_model, wall = here.plane.read_model, here.plane.clock.wall
    while True:
        revision = read_model.revision
        page = await read_model.audit(asked)
        for deed in page.items:
            await emit(msgspec.json.encode(deed_document(deed, wall=wall)) + b"\n")
        if page.items:
            asked = replace(asked, after=page.items[-1].number)
        if not page.has_more and not follow:
            return
        if not page.has_more:
            await read_model.caught_up(revision + 1, timeout=_LOOK_AGAIN_SECONDS)


def _asked(clock: Clock, query: Filters) -> AuditQuery:
    if query.since is not None and query.until is not None and query.since > query.until:
        message = "is after `until`; expected the first moment, then the last"
        raise Invalid("the request has one fault", faults=[Fault("since", message)])
    return AuditQuery(
        **query.model_dump(include=_TEXTS),
        is_refused=None if query.outcome is None else query.outcome == "refused",
        since=_service(clock, query.since, "since"),
        until=_service(clock, query.until, "until"),
    )


def _service(clock: Clock, at: datetime | None, name: str) -> Millis | None:
    """A moment of the wall clock in service time, by what lies between the two now."""
    if at is None:
        return None
    try:
        millis = int(at.timestamp() * 1000)
    except (OverflowError, ValueError):
        raise Invalid(f"{name} is not a moment that can be meant") from None
    now = clock.now()
    return Millis(millis - int(clock.wall(now) * 1000) + now)
