"""problem+json back into the errors it was made from, so that a caller catches `NotFound` here as it would on the server."""

from typing import Any

import msgspec
from msgspec import Struct

from windlass.core.errors import (
    Conflict,
    Denied,
    Excess,
    Fault,
    Invalid,
    NotFound,
    OverLimit,
    TooLarge,
    Unauthenticated,
    Unavailable,
    WindlassError,
)

UNREACHABLE = "unreachable"
"""The code of an Unavailable that nobody answered for: there may be no server at all."""


class Problem(Struct, frozen=True, kw_only=True):
    """The body of a refusal. Unknown members are ignored, absent ones have harmless defaults."""

    status: int = 500
    title: str = ""
    code: str = "internal"
    detail: str = ""
    hint: str | None = None
    faults: tuple[Fault, ...] = ()
    limits: tuple[Excess, ...] = ()
    request_id: str = ""


class RefusedRequest(Exception):
    """The cause of every error raised for an answer: keeps what the error tree has no room for."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"HTTP {problem.status} {problem.code}")
        self.problem = problem


BY_STATUS: dict[int, type[WindlassError]] = {
    400: Invalid,
    401: Unauthenticated,
    403: Denied,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    415: Invalid,
    422: Invalid,
    429: OverLimit,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def read_problem(status: int, body: bytes) -> Problem:
    """Also for bodies that are no problem at all: a proxy's HTML page must not become a traceback."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except msgspec.MsgspecError:
        return Problem(status=status, code=f"http-{status}", detail=f"the server answered HTTP {status}")
    return msgspec.structs.replace(problem, status=status)


def to_error(problem: Problem, *, retry_after: str | None = None) -> WindlassError:
    """Ready to be raised; `request_id(error)` finds the id again."""
    kind = BY_STATUS.get(problem.status, WindlassError)
    extra: dict[str, Any] = {}
    if retry_after and retry_after.isdigit() and issubclass(kind, OverLimit | Unavailable):
        extra["retry_after_seconds"] = int(retry_after)
    if issubclass(kind, OverLimit):
        extra["limits"] = problem.limits
    error = kind(
        problem.detail or problem.title or f"the server answered HTTP {problem.status}",
        code=problem.code,
        hint=problem.hint,
        faults=problem.faults,
        **extra,
    )
    error.__cause__ = RefusedRequest(problem)
    return error


def request_id(error: BaseException) -> str:
    cause = error.__cause__
    return cause.problem.request_id if isinstance(cause, RefusedRequest) else ""
