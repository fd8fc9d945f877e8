"""Answers: msgspec writes the JSON, whatever the route; the revision goes along so that the client may send it back."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import Message

from windlass.api.context import REVISION_HEADER, Context
from windlass.api.outgoing import WHOLE_ANSWER
from windlass.core.model.job import JobState
from windlass.core.model.views import JobView
from windlass.wire.render import job_manifest

_JSON: Final = (b"content-type", b"application/json")
_REVISION: Final = REVISION_HEADER.encode()


def answer(
    data: Any, *, status: int = 200, revision: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    more = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()]
    return raw_answer(msgspec.json.encode(data), status=status, revision=revision, headers=more)


def raw_answer(
    body: bytes, *, status: int = 200, revision: int | None = None, headers: Sequence[tuple[bytes, bytes]] = ()
) -> Response:
    """A JSON body that is written already; `headers` as ASGI has them."""
    raw = [_JSON, (b"content-length", b"%d" % len(body)), *headers]
    if revision is not None:
        raw.append((_REVISION, b"%d" % revision))
    return RawResponse(body, status, raw)


class RawResponse(Response):
    """A response whose head is at hand: nothing is looked for in it or added to it. One is made for every submit."""

    def __init__(self, body: bytes, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.body = body
        self.status_code = status
        self.raw_headers = headers
        self.background = None

    def whole(self) -> Message:
        """As one message, for a server that takes such."""
        return {"type": WHOLE_ANSWER, "status": self.status_code, "headers": self.raw_headers, "body": self.body}


def manifest_of(context: Context, view: JobView) -> dict[str, Any]:
    plane = context.plane
    waiting = plane.waiting(view.job.id) if view.job.state is JobState.PENDING else ()
    clock = plane.clock
    document = job_manifest(
        view.job,
        view.spec,
        view.runs,
        ran_ms=view.ran_ms,
        waiting=waiting,
        hook=view.hook,
        now=clock.now(),
        wall=clock.wall,
    )
    if view.job.attempt and not view.job.is_over:
        document["status"]["cost"] = plane.treasury.cost_of(view.job)
    return document
