"""Request bodies, bounded while they arrive, and the documents in them. No route reads a body in any other way."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from windlass.api.problems import TooSlow, Unsupported
from windlass.core.errors import Invalid, TooLarge
from windlass.wire import documents
from windlass.wire.documents import JSON_TYPE, YAML_TYPES, DocumentLimits
from windlass.wire.faults import validate

ModelT = TypeVar("ModelT", bound=BaseModel)

DOCUMENT_SECONDS_MAX: Final = 30
"""From the head of a request to the last byte of its document."""
IDLE_SECONDS_MAX: Final = 60
"""Between two chunks of an upload."""
_THREAD_FROM: Final = 64 * 1024
"""Bytes; parsing more than this would hold up the loop's heartbeats."""
_LENGTH_DIGITS_MAX: Final = 18


async def read_body(request: Request, *, bytes_max: int) -> bytes:
    """All of it, or TooLarge as soon as that is known, or TooSlow."""
    check_length(request, bytes_max)
    chunks = []
    size = 0
    try:
        # asyncio's own timeout: a tenth of what a cancel scope costs, on every submit.
        async with asyncio.timeout(DOCUMENT_SECONDS_MAX):
            async for chunk in request.stream():
                size += len(chunk)
                if size > bytes_max:
                    raise _too_large(bytes_max)
                chunks.append(chunk)
    except TimeoutError:
        raise TooSlow(f"the body did not come within {DOCUMENT_SECONDS_MAX} s") from None
    return b"".join(chunks)


async def read_document(request: Request, *, bytes_max: int, takes_yaml: bool = False) -> tuple[bytes, Any]:
    """The body as sent and the one document in it."""
    kind = media_type(request)
    if kind != JSON_TYPE and not (takes_yaml and kind in YAML_TYPES):
        raise Unsupported(
            "the body's media type is not read here",
            hint="send Content-Type: application/json" + (" or application/yaml" if takes_yaml else ""),
        )
    raw = await read_body(request, bytes_max=bytes_max)
    limits = DocumentLimits(bytes_max=bytes_max)
    if kind == JSON_TYPE and len(raw) < _THREAD_FROM:
        return raw, documents.read_json(raw, limits=limits)
    return raw, await anyio.to_thread.run_sync(lambda: documents.read_one(raw, kind, limits=limits))


async def read_model(request: Request, model: type[ModelT], *, bytes_max: int) -> ModelT:
    _, data = await read_document(request, bytes_max=bytes_max)
    return validate(model, data, what="the request")


async def stream_body(request: Request, *, bytes_max: int) -> AsyncIterator[bytes]:
    """Chunks as they come; TooLarge past the bound, TooSlow when none comes for long."""
    check_length(request, bytes_max)
    size, has_more = 0, True
    while has_more:
        message = await _next_message(request)
        chunk, has_more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > bytes_max:
            raise _too_large(bytes_max)
        if chunk:
            yield chunk


async def _next_message(request: Request) -> Message:
    """A client that went away is no end of its body."""
    try:
        with anyio.fail_after(IDLE_SECONDS_MAX):
            message = await request.receive()
    except TimeoutError:
        raise TooSlow(f"no bytes came for {IDLE_SECONDS_MAX} s") from None
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message


def media_type(request: Request) -> str:
    """Lower case, without parameters; Unsupported when it names a charset other than UTF-8."""
    name, _, parameters = request.headers.get("content-type", "").partition(";")
    for parameter in parameters.split(";"):
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            raise Unsupported("only UTF-8 is read here")
    return name.strip().lower()


def check_length(request: Request, bytes_max: int) -> None:
    text = request.headers.get("content-length")
    if text is None:
        return
    if not (text.isascii() and text.isdigit()):
        raise Invalid("Content-Length is not a number", code="malformed")
    if len(text) > _LENGTH_DIGITS_MAX or int(text) > bytes_max:
        raise _too_large(bytes_max)


def _too_large(bytes_max: int) -> TooLarge:
    return TooLarge(f"the body has more than the {bytes_max} bytes read here")
