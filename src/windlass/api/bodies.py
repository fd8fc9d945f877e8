"""Request bodies, bounded while they arrive, and the documents in them. No route reads a body in any other way."""

import asyncio
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from windlass.api.attempts import BODY
from windlass.api.problems import TooSlow, Unsupported
from windlass.core.errors import Fault, Invalid, TooLarge
from windlass.wire import documents
from windlass.wire.documents import JSON_TYPE, YAML_TYPES, DocumentLimits
from windlass.wire.faults import invalid, validate

ModelT = TypeVar("ModelT", bound=BaseModel)

DOCUMENT_SECONDS_MAX: Final = 30
"""From the head of a request to the last byte of its document."""
IDLE_SECONDS_MAX: Final = 60
"""Between two chunks of an upload."""
THREAD_FROM: Final = 64 * 1024
"""Bytes; parsing more than this would hold up the loop's heartbeats."""
WHOLE: Final = "whole_body"
"""Key in a request's state: all of its body, where the server had that before anyone asked; nothing to wait for."""
_LENGTH_DIGITS_MAX: Final = 18


async def read_body(request: Request, *, bytes_max: int) -> bytes:
    """All of it, or TooLarge as soon as that is known, or TooSlow."""
    state = request.scope.setdefault("state", {})
    raw: bytes | None = state.get(WHOLE)
    if raw is not None:
        if len(raw) > bytes_max:
            raise _too_large(bytes_max)
    else:
        check_length(request, bytes_max)
        try:
            async with asyncio.timeout(DOCUMENT_SECONDS_MAX):
                raw = await _read_all(request, bytes_max)
        except TimeoutError:
            raise TooSlow(f"the body did not come within {DOCUMENT_SECONDS_MAX} s") from None
    state[BODY] = raw
    return raw


async def read_document(request: Request, *, bytes_max: int, takes_yaml: bool = False) -> tuple[bytes, Any]:
    """The body as sent and the one document in it."""
    kind = document_type(request, takes_yaml=takes_yaml)
    raw = await read_body(request, bytes_max=bytes_max)
    limits = DocumentLimits(bytes_max=bytes_max)
    if kind == JSON_TYPE and len(raw) < THREAD_FROM:
        return raw, documents.read_json(raw, limits=limits)
    return raw, await anyio.to_thread.run_sync(lambda: documents.read_one(raw, kind, limits=limits))


async def read_model(request: Request, model: type[ModelT], *, bytes_max: int) -> ModelT:
    _, data = await read_document(request, bytes_max=bytes_max)
    return validate(model, data, what="the request")


def refuse_body(request: Request) -> None:
    """Of a request that has nothing to say: what somebody wrote there would be passed over in silence."""
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        raise invalid("the request", [Fault("body", "is not expected here")])


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


def document_type(request: Request, *, takes_yaml: bool = False) -> str:
    """JSON's or one of YAML's; Unsupported for any other."""
    kind = media_type(request)
    if kind != JSON_TYPE and not (takes_yaml and kind in YAML_TYPES):
        raise Unsupported(
            "the body's media type is not read here",
            hint="send Content-Type: application/json" + (" or application/yaml" if takes_yaml else ""),
        )
    return kind


def media_type(request: Request) -> str:
    """Lower case, without parameters; Unsupported when it names a charset other than UTF-8."""
    return _media_type(request.headers.get("content-type", ""))


def check_length(request: Request, bytes_max: int) -> None:
    text = request.headers.get("content-length")
    if text is None:
        return
    if not (text.isascii() and text.isdigit()):
        raise Invalid("Content-Length is not a number", code="malformed")
    if len(text) > _LENGTH_DIGITS_MAX or int(text) > bytes_max:
        raise _too_large(bytes_max)


async def _read_all(request: Request, bytes_max: int) -> bytes:
    chunks = []
    size, has_more = 0, True
    while has_more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, has_more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > bytes_max:
            raise _too_large(bytes_max)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


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


@lru_cache(maxsize=64)
def _media_type(header: str) -> str:
    name, _, parameters = header.partition(";")
    for parameter in parameters.split(";"):
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            raise Unsupported("only UTF-8 is read here")
    return name.strip().lower()


def _too_large(bytes_max: int) -> TooLarge:
    return TooLarge(f"the body has more than the {bytes_max} bytes read here")
