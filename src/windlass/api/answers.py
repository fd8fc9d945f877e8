"""Answers: msgspec writes the JSON, whatever the route; the revision goes along so that the client may send it back."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.responses import Response

from windlass.api.context import REVISION_HEADER, Context
from windlass.core.model.job import JobState
from windlass.core.model.views import JobView
from windlass.wire.render import job_manifest

JSON: Final = "application/json"


def answer(
    data: Any, *, status: int = 200, revision: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    return raw_answer(msgspec.json.encode(data), status=status, revision=revision, headers=headers)


def raw_answer(
    body: bytes, *, status: int = 200, revision: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    response = Response(body, status, headers=dict(headers or {}), media_type=JSON)
    if revision is not None:
        response.headers[REVISION_HEADER] = str(revision)
    return response


def manifest_of(context: Context, view: JobView) -> dict[str, Any]:
    plane = context.plane
    waiting = plane.waiting(view.job.id) if view.job.state is JobState.PENDING else ()
    return job_manifest(view.job, view.spec, view.runs, waiting=waiting, wall=plane.clock.wall)
