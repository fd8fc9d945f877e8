"""The hot doors: one job, or up to a thousand. Plain Starlette routes, with the same wire models as everything else."""

import re
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Final

import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.answers import raw_answer
from windlass.api.bodies import THREAD_FROM, document_type, read_body
from windlass.api.context import Context, context_of, writer_of
from windlass.core.errors import Invalid
from windlass.core.model.job import Job, JobSpec
from windlass.core.model.submission import Idempotency, Submission
from windlass.wire.accepted import AcceptedAnswers
from windlass.wire.documents import JSON_TYPE, DocumentLimits

IDEMPOTENCY_HEADER: Final = "idempotency-key"
_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}", re.ASCII)


async def submit_job(request: Request) -> Response:
    context, caller = context_of(request), await writer_of(request)
    raw, submission = await _read_manifest(request, context)
    render = _Rendering(context.accepted)
    accepted = await context.plane.intake.submit(
        caller.tenant, submission, idempotency=_idempotency(request, raw), render=render
    )
    is_new = accepted.answer is None
    body = accepted.answer if accepted.answer is not None else render.body(accepted.job, accepted.spec)
    context.metrics.accepted(int(is_new))
    location = (b"location", job_address(accepted.job).encode())
    return raw_answer(body, status=201, revision=accepted.revision, headers=(location,))


async def submit_bulk(request: Request) -> Response:
    """All or nothing."""
    context, caller = context_of(request), await writer_of(request)
    document_type(request)
    limits = context.limits
    raw = await read_body(request, bytes_max=limits.bulk_bytes_max)
    read = partial(
        context.manifests.read_batch,
        raw,
        items_max=limits.bulk_items_max,
        limits=DocumentLimits(bytes_max=limits.bulk_bytes_max),
    )
    submissions = await anyio.to_thread.run_sync(read)
    accepted = await context.plane.intake.submit_many(
        caller.tenant, submissions, render=_names, idempotency=_idempotency(request, raw)
    )
    context.metrics.accepted(len(accepted.jobs))
    return raw_answer(accepted.answer, status=201, revision=accepted.revision)


def _names(jobs: Sequence[Job]) -> bytes:
    return msgspec.json.encode({"items": [{"name": job.name, "uid": job.id} for job in jobs]})


def job_address(job: Job) -> str:
    return f"/api/v1/jobs/{job.id}"


async def _read_manifest(request: Request, context: Context) -> tuple[bytes, Submission]:
    """The body as sent and what it asks for. What is large, and what is YAML, is read in a thread."""
    kind = document_type(request, takes_yaml=True)
    bytes_max = context.limits.manifest_bytes_max
    raw = await read_body(request, bytes_max=bytes_max)
    limits = DocumentLimits(bytes_max=bytes_max)
    if kind == JSON_TYPE and len(raw) < THREAD_FROM:
        return raw, context.manifests.read_json(raw, limits=limits)
    read = partial(context.manifests.read_document, raw, kind, limits=limits)
    return raw, await anyio.to_thread.run_sync(read)


class _Rendering:
    """The answer's bytes, made once: what is stored under an idempotency key is what is sent."""

    def __init__(self, answers: AcceptedAnswers) -> None:
        self._answers = answers
        self._made: bytes | None = None

    def __call__(self, job: Job, spec: JobSpec) -> bytes:
        self._made = self._answers.write(job, spec)
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
