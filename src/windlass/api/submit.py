"""The hot doors: one job, or up to a thousand. Plain Starlette routes, with the same wire models as everything else."""

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.answers import answer, raw_answer
from windlass.api.bodies import media_type, read_body, read_document
from windlass.api.context import Context, context_of, writer_of
from windlass.api.problems import Unsupported
from windlass.core.errors import Invalid
from windlass.core.model.job import Job, JobSpec
from windlass.core.model.submission import Idempotency, Submission
from windlass.wire.bulk import read_bulk
from windlass.wire.documents import JSON_TYPE, DocumentLimits, read_json
from windlass.wire.job import read_manifest
from windlass.wire.render import job_manifest

IDEMPOTENCY_HEADER: Final = "idempotency-key"
_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}", re.ASCII)


async def submit_job(request: Request) -> Response:
    context, caller = context_of(request), writer_of(request)
    raw, data = await read_document(request, bytes_max=context.limits.manifest_bytes_max, takes_yaml=True)
    submission = read_manifest(data, runtime=context.plane.runtime_kind, preset_image=context.preset_image)
    render = _Rendering(context)
    accepted = await context.plane.intake.submit(
        caller.tenant, submission, idempotency=_idempotency(request, raw), render=render
    )
    is_new = accepted.answer is None
    body = accepted.answer if accepted.answer is not None else render.body(accepted.job, accepted.spec)
    context.metrics.accepted(int(is_new))
    return raw_answer(body, status=201, revision=accepted.revision, headers={"Location": job_address(accepted.job)})


async def submit_bulk(request: Request) -> Response:
    """All or nothing. Takes no idempotency key: a batch is retried by its names, which are unique."""
    context, caller = context_of(request), writer_of(request)
    if IDEMPOTENCY_HEADER in request.headers:
        raise Invalid(
            "a batch takes no Idempotency-Key", code="idempotency-unsupported", hint="name the jobs: names are unique"
        )
    if media_type(request) != JSON_TYPE:
        raise Unsupported("the body's media type is not read here", hint="send Content-Type: application/json")
    raw = await read_body(request, bytes_max=context.limits.bulk_bytes_max)
    submissions = await anyio.to_thread.run_sync(_bulk_reader(context, raw))
    jobs, revision = await context.plane.intake.submit_many(caller.tenant, submissions)
    context.metrics.accepted(len(jobs))
    return answer({"items": [{"name": job.name, "uid": job.id} for job in jobs]}, status=201, revision=revision)


def job_address(job: Job) -> str:
    return f"/api/v1/jobs/{job.id}"


class _Rendering:
    """The answer's bytes, made once: what is stored under an idempotency key is what is sent."""

    def __init__(self, context: Context) -> None:
        self._wall = context.plane.clock.wall
        self._made: bytes | None = None

    def __call__(self, job: Job, spec: JobSpec) -> bytes:
        self._made = msgspec.json.encode(job_manifest(job, spec, wall=self._wall))
        return self._made

    def body(self, job: Job, spec: JobSpec) -> bytes:
        return self._made if self._made is not None else self(job, spec)


def _idempotency(request: Request, raw: bytes) -> Idempotency | None:
    keys = request.headers.getlist(IDEMPOTENCY_HEADER)
    if not keys:
        return None
    if len(keys) > 1 or not _KEY.fullmatch(keys[0]):
        raise Invalid("Idempotency-Key must be one text of 1 to 200 visible ASCII characters", code="idempotency-key")
    return Idempotency(key=keys[0], fingerprint=sha256(raw).hexdigest())


def _bulk_reader(context: Context, raw: bytes) -> Callable[[], list[Submission]]:
    limits = context.limits
    runtime, preset_image = context.plane.runtime_kind, context.preset_image

    def read() -> list[Submission]:
        data = read_json(raw, limits=DocumentLimits(bytes_max=limits.bulk_bytes_max))
        return read_bulk(data, items_max=limits.bulk_items_max, runtime=runtime, preset_image=preset_image)

    return read
