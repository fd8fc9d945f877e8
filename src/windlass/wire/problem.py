"""A refusal as it travels: RFC 9457, with our stable `code`, the faults by field, and the request's id."""

from typing import Any, Final

from msgspec import to_builtins

from windlass.core.errors import (
    Conflict,
    Denied,
    Invalid,
    NotFound,
    OverLimit,
    TooLarge,
    Unauthenticated,
    Unavailable,
    WindlassError,
)

MEDIA_TYPE: Final = "application/problem+json"
TYPE_BASE: Final = "https://windlass.dev/problems/"

STATUS: Final[dict[type[WindlassError], int]] = {
    Invalid: 400,
    Unauthenticated: 401,
    Denied: 403,
    NotFound: 404,
    Conflict: 409,
    TooLarge: 413,
    OverLimit: 429,
    Unavailable: 503,
}
_TITLES: Final = {
    400: "The request cannot be meant as it stands",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed here",
    406: "Not available in that form",
    408: "Too slow",
    409: "The state of things does not allow it",
    413: "Too large",
    415: "Media type not read here",
    421: "Not a name of this server",
    429: "Over a limit",
    431: "Header too large",
    500: "A fault of ours",
    501: "Not offered by this server",
    503: "Not available at the moment",
}


def status_of(error: WindlassError) -> int:
    """By the nearest class in the tree; an error of no listed class is our fault."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def problem(
    status: int, code: str, detail: str, *, request_id: str, hint: str | None = None, faults: Any = ()
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": f"{TYPE_BASE}{code}",
        "title": _TITLES.get(status, "The request was refused"),
        "status": status,
        "code": code,
        "detail": detail,
        "faults": [{"field": fault.field, "message": fault.message} for fault in faults],
        "request_id": request_id,
    }
    if hint:
        document["hint"] = hint
    return document


def problem_of(error: WindlassError, *, request_id: str) -> dict[str, Any]:
    """An error of no listed class keeps its words to itself: they may name paths or secrets."""
    status = status_of(error)
    if status == 500:
        return internal_problem(request_id)
    document = problem(status, error.code, error.message, request_id=request_id, hint=error.hint, faults=error.faults)
    if isinstance(error, OverLimit) and error.limits:
        document["limits"] = [to_builtins(excess) for excess in error.limits]
    return document


def internal_problem(request_id: str) -> dict[str, Any]:
    return problem(
        500, "internal", "something went wrong on the server; its log has the details", request_id=request_id
    )
