"""Every way the API says no, as problem+json. Our errors are mapped by `wire.problem`; the framework's are translated here."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from windlass.api.attempts import attempted
from windlass.api.context import context_of
from windlass.core.errors import Fault, Invalid, OverLimit, Unavailable, WindlassError
from windlass.ports.runtime import ImageUnavailable, StartFailed
from windlass.wire.expected import expected
from windlass.wire.faults import invalid, show
from windlass.wire.problem import MEDIA_TYPE, internal_problem, problem, problem_of, status_of

_CODES: Final = {
    400: ("malformed", "the request cannot be read"),
    404: ("not-found", "there is nothing at this address"),
    405: ("method-not-allowed", "this address does not take that method"),
    406: ("not-acceptable", "not available in a form you accept"),
    413: ("too-large", "the request is too large"),
    415: ("media-type", "this media type is not read here"),
    421: ("host", "this server does not go by that name"),
}


class Unsupported(WindlassError):
    """A body in a form this door does not read."""

    default_code = "media-type"


class Misdirected(WindlassError):
    """The Host header is not a name of this server: a page of another origin, or a stray proxy."""

    default_code = "host"


class TooSlow(WindlassError):
    """The rest of the request did not come in time."""

    default_code = "too-slow"


_STATUS: Final[dict[type[WindlassError], int]] = {
    TooSlow: 408,
    Unsupported: 415,
    Misdirected: 421,
    ImageUnavailable: 409,
    StartFailed: 409,
}


def install(app: FastAPI) -> None:
    app.add_exception_handler(WindlassError, answer_error)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)


def error_response(error: WindlassError, request_id: str) -> Response:
    document = error_document(error, request_id)
    headers = {}
    if isinstance(error, OverLimit | Unavailable):
        headers["Retry-After"] = str(error.retry_after_seconds)
    if document["status"] == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return problem_response(document, headers)


def error_document(error: WindlassError, request_id: str) -> dict[str, Any]:
    status = _STATUS.get(type(error), 0)
    if status:
        return problem(status, error.code, error.message, request_id=request_id, hint=error.hint, faults=error.faults)
    return problem_of(error, request_id=request_id)


def is_internal(error: WindlassError) -> bool:
    """Of no listed class: nobody meant it for whoever asked."""
    return status_of(error) == 500 and type(error) not in _STATUS


def internal_response(request_id: str) -> Response:
    return problem_response(internal_problem(request_id))


def problem_response(document: dict[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(document), document["status"], headers=dict(headers or {}), media_type=MEDIA_TYPE
    )


def request_id_of(connection: HTTPConnection) -> str:
    found: str = getattr(connection.state, "request_id", "")
    return found


async def answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, WindlassError)
    if is_internal(error):
        raise error  # the envelope logs it and answers with nothing but the id
    note_refusal(request, error)
    return error_response(error, request_id_of(request))


def note_refusal(connection: HTTPConnection, error: WindlassError) -> None:
    """Who may not, or not so, leaves a record all the same; that a part of ours is away is no refusal."""
    act = connection.scope["state"].get("act")
    if act is not None and not isinstance(error, Unavailable):
        context_of(connection).plane.audit.refused(act, error.code, **attempted(connection))


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [Fault(_field(item["loc"]), expected(item, unknown="is not a parameter here")) for item in error.errors()]
    return await answer_error(request, invalid("the request", faults))


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    name = _slashed(request)
    if error.status_code == 404 and name is not None:
        fault = Fault("name", f"“{show(name)}” holds a '/', which no name does")
        return error_response(Invalid("the name in this address is not valid", faults=[fault]), request_id_of(request))
    code, detail = _CODES.get(error.status_code, (f"http-{error.status_code}", "the request was refused"))
    document = problem(error.status_code, code, detail, request_id=request_id_of(request))
    return problem_response(document, error.headers)


def _slashed(request: Request) -> str | None:
    """The part of the address that was sent as one name and, for a slash written as %2F in it, is read as two."""
    parts = request.scope.get("raw_path", b"").split(b"/")
    return next((unquote_to_bytes(part).decode(errors="replace") for part in parts if b"%2f" in part.lower()), None)


def _field(loc: tuple[int | str, ...]) -> str:
    """`("query", "limit")` is `limit` to whoever wrote the address; one of several of a name is written like the others."""
    parts = [part for part in loc[1:] if loc[0] != "query" or isinstance(part, str)]
    return ".".join(show(str(part)) for part in parts) or str(loc[0])
