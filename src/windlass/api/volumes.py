"""Volumes: list, drop, clean up, and copy a file into one before its job exists."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.responses import Response

from windlass.api.answers import answer
from windlass.api.bodies import read_model
from windlass.api.context import Here, Reader, Writer
from windlass.api.openapi import REFUSALS, json_body
from windlass.core.errors import Fault, Invalid
from windlass.core.model.job import Input
from windlass.wire import schema
from windlass.wire.job import Strict, Url
from windlass.wire.names import ARTIFACTS, DNS_LABEL, PATH_BYTES_MAX, read_artifact_file
from windlass.wire.render import volume_document

router = APIRouter(prefix="/api/v1/volumes", tags=["volumes"], responses=REFUSALS)


class CopyFileRequest(Strict):
    url: Url
    target_path: str = Field(default=f"{ARTIFACTS}/input.jpg", min_length=1, max_length=PATH_BYTES_MAX)


class CleanupRequest(Strict):
    verbose: bool = False


@router.get("", response_model=schema.VolumeList)
async def list_volumes(here: Here, caller: Reader) -> Response:
    views = await here.plane.read_model.volumes(caller.tenant)
    return answer({"items": [volume_document(view, wall=here.plane.clock.wall) for view in views]})


@router.post("/cleanup", response_model=schema.Cleanup, openapi_extra=json_body(CleanupRequest, is_required=False))
async def cleanup(request: Request, here: Here, caller: Writer) -> Response:
    """Drops every volume whose TTL has passed. `verbose` also lists those that stay, and why."""
    wants_all = False
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        wants_all = (await read_model(request, CleanupRequest, bytes_max=here.limits.manifest_bytes_max)).verbose
    report = await here.plane.intake.cleanup_volumes(caller.tenant)
    shown = [item for item in report.items if wants_all or item.action == "deleted"]
    items = [{"name": item.name, "action": item.action, "why": item.why} for item in shown]
    return answer({"deleted": report.deleted, "skipped": report.skipped, "items": items})


@router.post(
    "/{job}/copy-file", status_code=201, response_model=schema.CopiedFile, openapi_extra=json_body(CopyFileRequest)
)
async def copy_file(
    request: Request, here: Here, caller: Writer, job: Annotated[str, Path(max_length=63), DNS_LABEL]
) -> Response:
    """Fetched by the server, only from addresses that anyone on the internet could reach."""
    asked = await read_model(request, CopyFileRequest, bytes_max=here.limits.manifest_bytes_max)
    path = _target(asked.target_path)
    with here.seats.taken():
        async with (
            here.fetcher.get(asked.url, bytes_max=here.limits.fetch_bytes_max) as fetched,
            here.plane.blobs.create(size_max=here.limits.fetch_bytes_max) as writer,
        ):
            async for chunk in fetched.chunks():
                await writer.write(chunk)
            blob = await writer.seal()
    item = Input(digest=blob.digest, size=blob.size, path=path)
    volume, revision = await here.plane.intake.copy_file(caller.tenant, job, item)
    document = {"volume": volume.name, "path": f"{ARTIFACTS}/{path}", "size": blob.size, "digest": blob.digest}
    return answer(document, status=201, revision=revision)


@router.delete("/{name}", status_code=202, response_model=schema.DroppedVolume)
async def drop_volume(here: Here, caller: Writer, name: Annotated[str, Path(min_length=1, max_length=100)]) -> Response:
    revision = await here.plane.intake.drop_volume(caller.tenant, name)
    return answer({"name": name}, status=202, revision=revision)


def _target(text: str) -> str:
    try:
        return read_artifact_file(text)
    except ValueError as exc:
        raise Invalid("the target cannot be meant", faults=[Fault("targetPath", str(exc))]) from None
