"""Exit codes, one table for all verbs; `docs/guides/cli.md` says the same to people."""

from typing import Final

from windlass.client.problems import UNREACHABLE
from windlass.core.errors import Conflict, Denied, NotFound, OverLimit, TooLarge, Unauthenticated, Unavailable

OK: Final = 0
GENERAL: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
REFUSED: Final = 4
CONFLICT: Final = 5
NO_SERVER: Final = 69
TRY_LATER: Final = 75
TIMED_OUT: Final = 124
NO_EXIT_CODE: Final = 125
INTERRUPTED: Final = 130
READER_GONE: Final = 141

_BY_ERROR: Final[tuple[tuple[type[Exception], int], ...]] = (
    (NotFound, NOT_FOUND),
    (Conflict, CONFLICT),
    (OverLimit, REFUSED),
    (Denied, REFUSED),
    (Unauthenticated, REFUSED),
    (TooLarge, REFUSED),
    (Unavailable, TRY_LATER),
)


_BY_CODE: Final = {UNREACHABLE: NO_SERVER, "exceeds-quota": REFUSED}
"""Codes that say more than their class: a job beyond its tenant's quota is refused by it, though waiting would not help."""


def of_error(error: Exception) -> int:
    if (known := _BY_CODE.get(getattr(error, "code", ""))) is not None:
        return known
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), GENERAL)


def of_job(state: str, exit_code: int | None) -> int:
    """What `run`, `attach` and `create` return for a job that is over."""
    if state == "SUCCEEDED":
        return OK
    if state == "TIMED_OUT":
        return TIMED_OUT
    if state == "CANCELLED":
        return INTERRUPTED
    return exit_code if exit_code else NO_EXIT_CODE
