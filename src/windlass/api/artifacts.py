"""Files of a job: uploads into a suspended one, downloads out of its volume. Streamed both ways, the work done in threads."""

import base64
import binascii
import re
from collections.abc import AsyncIterator
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

import anyio.to_thread
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from windlass.api.answers import answer
from windlass.api.bodies import media_type, stream_body
from windlass.api.context import Context, Here, Reader, Writer
from windlass.api.jobs import Ref, find
from windlass.api.openapi import REFUSALS
from windlass.api.problems import Unsupported
from windlass.api.sse import Emit, StreamingAnswer
from windlass.core.errors import Conflict, Fault, Invalid
from windlass.core.model.job import Input
from windlass.core.model.views import JobView
from windlass.ports.blobs import Blob, BlobWriter
from windlass.wire import schema
from windlass.wire.archives import ArchiveFilter, ArchiveLimits
from windlass.wire.names import read_artifact_path
from windlass.wire.tarheader import Entry, Kind, TarReader

router = APIRouter(prefix="/api/v1/jobs", tags=["artifacts"], responses=REFUSALS)

_ARCHIVE_TYPES: Final = frozenset({"application/x-tar", "application/gzip", "application/x-gzip"})
_CHUNK: Final = 1 << 20
_ARCHIVE_OVERHEAD: Final = 512 << 20
"""Headers and padding of the canonical archive, beyond the bytes of its files."""
_DIGEST: Final = re.compile(r"sha-256=:([A-Za-z0-9+/=]{43,44}):", re.ASCII)
_BYTES: Final[dict[str, Any]] = {"schema": {"type": "string", "format": "binary"}}
_DOWNLOAD: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A tar stream, or the bytes of one file.",
        "content": {"application/x-tar": _BYTES, "application/octet-stream": _BYTES},
    }
}
_UPLOAD_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {"application/x-tar": _BYTES, "application/gzip": _BYTES, "application/octet-stream": _BYTES},
    }
}


class UploadQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str = Field(
        default="", max_length=1024, description="Below /artifacts: the file, or where the archive unpacks."
    )
    unpack: bool = Field(default=False, description="The body is a tar archive, possibly gzipped.")


class DownloadQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str = Field(default="", max_length=1024, description="Below /artifacts; empty is all of it.")
    format: Literal["tar", "file"] = "tar"


@router.put("/{ref}/artifacts", response_model=schema.Upload, openapi_extra=_UPLOAD_BODY)
async def upload(
    request: Request,
    here: Here,
    caller: Writer,
    ref: Ref,
    query: Annotated[UploadQuery, Query()],
    content_digest: Annotated[str | None, Header(max_length=500)] = None,
) -> Response:
    """Into a suspended job's volume; the run it is released to will find it there, checked."""
    expected = _expected_digest(content_digest)
    path = _path(query.path)
    _check_form(request, query, path)
    view = await find(here, caller.tenant, request, ref)
    if not view.job.is_suspended or view.job.is_over:
        raise Conflict(
            f"job {view.job.name} is not suspended", code="not-suspended", hint="submit it with suspend: true"
        )
    with here.seats.taken():
        blob, entries = await _receive(here, request, expected, is_archive=query.unpack)
    item = Input(digest=blob.digest, size=blob.size, path=path, is_archive=query.unpack)
    revision = await here.plane.intake.add_input(caller.tenant, view.job.id, item)
    return answer({"digest": blob.digest, "size": blob.size, "entries": entries}, revision=revision)


@router.get("/{ref}/artifacts", response_class=Response, responses=_DOWNLOAD)
async def download(here: Here, caller: Reader, ref: Ref, query: Annotated[DownloadQuery, Query()]) -> Response:
    view = await here.plane.read_model.find_job(caller.tenant, ref)
    path = _path(query.path)
    here.seats.check()
    if query.format == "tar":
        name = f"{view.job.name}.tar"
        return _attachment(here, partial(_send_archive, here, view, path), "application/x-tar", name)
    if not path:
        raise Invalid("a single file needs a path", faults=[Fault("path", "is required with format=file")])
    return _attachment(here, partial(_send_file, here, view, path), "application/octet-stream", "artifact")


def _attachment(here: Context, source: Any, kind: str, name: str) -> Response:
    """To be saved, never shown: what a job wrote must not run as a page of ours."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Security-Policy": "sandbox"}
    return StreamingAnswer(here, source, media_type=kind, headers=headers)


async def _receive(here: Context, request: Request, expected: str | None, *, is_archive: bool) -> tuple[Blob, int]:
    """The body in a blob, sealed only when all of it came and is what it should be."""
    files_max = here.limits.upload_bytes_max
    size_max = files_max + _ARCHIVE_OVERHEAD if is_archive else files_max
    chunks = _gathered(stream_body(request, bytes_max=size_max))
    async with here.plane.blobs.create(size_max=size_max) as writer:
        received = _Received(writer, ArchiveFilter(ArchiveLimits(bytes_max=files_max)) if is_archive else None)
        async for chunk in chunks:
            await received.take(chunk)
        await received.finish(expected)
        return await writer.seal(), received.entries


class _Received:
    """Hashes the body as sent, and writes it as is or as the canonical archive it stands for."""

    def __init__(self, writer: BlobWriter, archive: ArchiveFilter | None) -> None:
        self._writer = writer
        self._archive = archive
        self._hash = sha256()

    @property
    def entries(self) -> int:
        return self._archive.entries if self._archive is not None else 1

    async def take(self, chunk: bytes) -> None:
        await anyio.to_thread.run_sync(self._hash.update, chunk)
        if self._archive is None:
            await self._writer.write(chunk)
            return
        pieces = self._archive.feed(chunk)
        while (piece := await anyio.to_thread.run_sync(next, pieces, None)) is not None:
            await self._writer.write(piece)

    async def finish(self, expected: str | None) -> None:
        if expected is not None and self._hash.hexdigest() != expected:
            raise Invalid("the body is not what its Content-Digest says", code="digest-mismatch", hint="send it again")
        if self._archive is not None:
            await self._writer.write(self._archive.finish())


async def _gathered(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pieces of about a MiB: a trip to a thread for each packet would cost more than the work."""
    held = bytearray()
    async for chunk in chunks:
        held += chunk
        if len(held) >= _CHUNK:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


async def _send_archive(here: Context, view: JobView, path: str, emit: Emit) -> None:
    async for chunk in here.plane.artifacts.download(view, path):
        await emit(chunk)


async def _send_file(here: Context, view: JobView, path: str, emit: Emit) -> None:
    """The bytes of the one file out of the tar stream the runtime gives for it."""
    reader = TarReader()
    left: int | None = None
    async for chunk in here.plane.artifacts.download(view, path):
        for item in reader.feed(chunk):
            if isinstance(item, Entry):
                if left is not None or item.kind is not Kind.FILE:
                    raise Invalid(f"{path} is not a single file", code="not-a-file", hint="ask for format=tar")
                left = item.size
                continue
            assert left is not None
            data, left = item[:left], left - min(left, len(item))
            await emit(data)
    if left is None:
        raise Invalid(f"{path} is not a single file", code="not-a-file", hint="ask for format=tar")


def _check_form(request: Request, query: UploadQuery, path: str) -> None:
    if query.unpack and media_type(request) not in _ARCHIVE_TYPES:
        raise Unsupported("what is to be unpacked must be a tar archive", hint="Content-Type: application/x-tar")
    if not query.unpack and not path:
        raise Invalid("a single file needs a path", faults=[Fault("path", "is required unless unpack=true")])


def _path(text: str) -> str:
    try:
        return read_artifact_path(text)
    except ValueError as exc:
        raise Invalid("the path cannot be meant", faults=[Fault("path", str(exc))]) from None


def _expected_digest(header: str | None) -> str | None:
    """Hex of the sha-256 in an RFC 9530 Content-Digest; other algorithms are read over."""
    if header is None:
        return None
    members = [member.strip() for member in header.split(",")]
    found = [member for member in members if member.startswith("sha-256=")]
    if not found:
        return None
    match = _DIGEST.fullmatch(found[0])
    try:
        digest = base64.b64decode(match[1], validate=True) if match and len(found) == 1 else b""
    except binascii.Error:
        digest = b""
    if len(digest) != sha256().digest_size:
        raise Invalid("Content-Digest must be sha-256=:<base64>:", code="digest-malformed")
    return digest.hex()
