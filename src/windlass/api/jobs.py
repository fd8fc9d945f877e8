"""Jobs: list, get, apply, cancel, release, delete. Submitting has its own module because it is hot."""

from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from windlass.api.answers import answer, manifest_of
from windlass.api.bodies import read_document
from windlass.api.context import Context, Here, Reader, Writer, refresh
from windlass.api.openapi import REFUSALS, manifest_body
from windlass.api.submit import job_address
from windlass.core.errors import Conflict, Fault, Invalid, NotFound, Unavailable
from windlass.core.model.ids import TenantId
from windlass.core.model.job import TERMINAL, Job, JobKind, JobSpec, JobState
from windlass.core.model.submission import Submission
from windlass.core.model.views import JobQuery, JobView
from windlass.wire import schema
from windlass.wire.expected import Form
from windlass.wire.faults import invalid
from windlass.wire.names import DNS_LABEL_EXPECTED, is_dns_label, read_labels
from windlass.wire.render import asked_for, spec_document

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"], responses=REFUSALS)

REF_MAX = 63
Ref = Annotated[str, Path(min_length=1, max_length=REF_MAX, description="Name, uid, or the first 8 or more of a uid.")]
Shown = Literal[
    "PENDING", "SUSPENDED", "SCHEDULED", "STARTING", "RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED"
]
"""What lists show: a PENDING job that is held back is SUSPENDED there. PENDING has both."""

_SERVER_SET = frozenset({"spec.timeoutSeconds", "spec.onLostNode", "spec.sla"})
"""Fields the server fills when the document leaves them out."""
_MOVING = frozenset({"suspend"})
"""What changes in a job's life and so is no difference between documents."""


class ListQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    state: list[Shown] = Field(
        default_factory=list, max_length=9, description="SUSPENDED: PENDING, and held back until it is released."
    )
    kind: Literal["Job", "EphemeralAccelerationJob"] | None = None
    label: list[Annotated[str, Form("^[^=]+=[^=]*$", "expected a label as key=value")]] = Field(
        default_factory=list, max_length=16, description="key=value"
    )
    name: str = Field(default="", max_length=63, description="What the name begins with.")
    limit: int = Field(default=100, ge=1, le=1000)
    cursor: str = Field(default="", max_length=500)
    order: Literal["newest", "oldest"] = "newest"
    active: bool = Field(default=False, description="Only jobs that are not over.")


class DeleteQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    volume: bool = Field(default=False, description="Its volume too, at once; otherwise that keeps its TTL.")


@router.get("", response_model=schema.JobList)
async def list_jobs(here: Here, caller: Reader, query: Annotated[ListQuery, Query()]) -> Response:
    page = await here.plane.read_model.jobs(_job_query(caller.tenant, query))
    items = [manifest_of(here, view) for view in page.items]
    return answer({"items": items, "next": page.next_cursor, "revision": page.revision}, revision=page.revision)


@router.get("/{ref}", response_model=schema.JobManifest)
async def get_job(here: Here, caller: Reader, ref: Ref) -> Response:
    view = await here.plane.read_model.find_job(caller.tenant, ref)
    return answer(manifest_of(here, view))


@router.put(
    "/{name}",
    response_model=schema.JobManifest,
    responses={201: {"model": schema.JobManifest, "description": "Created"}},
    openapi_extra=manifest_body(),
)
async def apply_job(
    request: Request,
    here: Here,
    caller: Writer,
    name: Annotated[str, Path(max_length=REF_MAX)],
) -> Response:
    """Make it so: created when absent, left alone when it is already as written, refused when it differs."""
    # The manifest first: who wrote a bad name there is told so, with everything else that is wrong.
    _, data = await read_document(request, bytes_max=here.limits.manifest_bytes_max, takes_yaml=True)
    submission = here.manifests.judge(data)
    if not is_dns_label(name):
        raise Invalid("not a job's name", faults=[Fault("name", DNS_LABEL_EXPECTED)])
    if submission.name not in ("", name):
        raise invalid("the manifest", [Fault("metadata.name", f"is not the {name} of the address")])
    await refresh(request)
    return await _apply(here, caller.tenant, replace(submission, name=name))


@router.post("/{ref}/cancel", status_code=202, response_model=schema.JobManifest)
async def cancel_job(here: Here, caller: Writer, request: Request, ref: Ref) -> Response:
    view = await find(here, caller.tenant, request, ref)
    revision = await here.plane.intake.cancel(caller.tenant, view.job.id)
    return await _after(here, view, revision, status=202)


@router.post("/{ref}/release", response_model=schema.JobManifest)
async def release_job(here: Here, caller: Writer, request: Request, ref: Ref) -> Response:
    view = await find(here, caller.tenant, request, ref)
    revision = await here.plane.intake.release(caller.tenant, view.job.id)
    return await _after(here, view, revision, status=200)


@router.delete("/{ref}", status_code=202, response_model=schema.Deleted)
async def delete_job(
    here: Here, caller: Writer, request: Request, ref: Ref, query: Annotated[DeleteQuery, Query()]
) -> Response:
    """Cancelled first when it is alive; then it goes, and its volume with it, when it has ended."""
    view = await find(here, caller.tenant, request, ref)
    intake, job = here.plane.intake, view.job
    revision = await intake.delete(caller.tenant, job.id, with_volume=query.volume)
    body = {"name": job.name, "uid": job.id, "isGone": not intake.is_alive(job.id)}
    return answer(body, status=202, revision=revision)


async def find(here: Context, tenant: TenantId, request: Request, ref: str) -> JobView:
    await refresh(request)
    return await here.plane.read_model.find_job(tenant, ref)


async def _after(here: Context, view: JobView, revision: int, *, status: int) -> Response:
    """The job as it is once the read model has what was just committed."""
    await here.plane.read_model.caught_up(revision)
    with suppress(NotFound, Unavailable):  # deleted by somebody else in between: what we knew is the best there is
        view = await here.plane.read_model.find_job(view.job.tenant, view.job.id)
    return answer(manifest_of(here, view), status=status, revision=revision)


async def _apply(here: Context, tenant: TenantId, submission: Submission) -> Response:
    found = await find_named(here, tenant, submission.name)
    if found is None:
        try:
            accepted = await here.plane.intake.submit(tenant, submission)
        except Conflict as exc:
            found = await find_named(here, tenant, submission.name) if exc.code == "name-taken" else None
            if found is None:
                raise
        else:
            here.metrics.accepted()
            view = JobView(job=accepted.job, spec=accepted.spec, revision=accepted.revision)
            headers = {"Location": job_address(accepted.job)}
            return answer(manifest_of(here, view), status=201, revision=accepted.revision, headers=headers)
    check_same(found.job, found.spec, submission)
    return answer(manifest_of(here, found))


async def find_named(here: Context, tenant: TenantId, name: str) -> JobView | None:
    try:
        view = await here.plane.read_model.find_job(tenant, name)
    except NotFound:
        return None
    return view if view.job.name == name else None  # a name may also read as the beginning of a uid


def check_same(job: Job, spec: JobSpec, wanted: Submission) -> None:
    """Conflict where the job of that name is not what is asked for now."""
    have, want = _comparable(asked_for(job, spec)), _comparable(wanted)
    differing = [
        name
        for name in sorted(have.keys() | want.keys())
        if have.get(name) != want.get(name) and not (name in _SERVER_SET and name not in want)
    ]
    if differing:
        raise Conflict(
            f"job {job.name} exists with another spec, and a job's spec does not change",
            code="spec-immutable",
            hint=f"delete it first, or choose another name: windlass delete {job.name}",
            faults=[Fault(name, "differs from the job that exists") for name in differing],
        )


def _comparable(asked: Submission) -> dict[str, Any]:
    spec = {f"spec.{name}": value for name, value in spec_document(asked).items() if name not in _MOVING}
    return {"kind": asked.kind, "metadata.labels": dict(asked.labels), **spec}


def _job_query(tenant: TenantId, query: ListQuery) -> JobQuery:
    states = tuple(JobState(state) for state in query.state if state != "SUSPENDED")
    with_suspended = "SUSPENDED" in query.state
    if query.active:
        states = tuple(state for state in (states if query.state else JobState) if state not in TERMINAL)
    if query.active and not states and not with_suspended:
        raise Invalid("no state is both active and among those asked for", faults=[Fault("state", "is over")])
    return JobQuery(
        tenant=tenant,
        states=states,
        with_suspended=with_suspended,
        kind=JobKind(query.kind) if query.kind else None,
        labels=_labels(query.label),
        name_prefix=query.name,
        newest_first=query.order == "newest",
        limit=query.limit,
        cursor=query.cursor,
    )


def _labels(pairs: list[str]) -> dict[str, str]:
    labels = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        labels[key] = value
    try:
        return read_labels(labels)
    except ValueError as exc:
        raise Invalid("a label filter is key=value", faults=[Fault("label", str(exc))]) from None
