"""Every way Windlass says no: one flat tree, a class per answer a caller can act on, each with a stable `code`.

`api/problems.py` maps them to problem+json once; the CLI prints `message`, then the faults, then `hint`.
"""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct


class Fault(Struct, frozen=True):
    """One thing wrong with one field of an input."""

    field: str
    """Where, as the writer of the document sees it: `spec.resources.cpu`."""
    message: str
    """What was wrong and what was expected."""


class Excess(Struct, frozen=True, kw_only=True):
    """One limit that is reached, in numbers a program can read."""

    code: str
    used: int
    asked: int
    limit: int
    unit: str = ""


class WindlassError(Exception):
    """Something a caller can act on. `code` narrows the class; `hint` says what to do next."""

    default_code: ClassVar[str] = "internal"

    def __init__(
        self, message: str, *, code: str | None = None, hint: str | None = None, faults: Sequence[Fault] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.hint = hint
        self.faults = tuple(faults)


class Invalid(WindlassError):
    """The input cannot be meant as it stands."""

    default_code = "invalid"


class Unauthenticated(WindlassError):
    """No identity, or one that does not hold."""

    default_code = "unauthenticated"


class Denied(WindlassError):
    """Identity known, action never allowed to it."""

    default_code = "denied"


class NotFound(WindlassError):
    """Absent, or another tenant's: the two must look alike."""

    default_code = "not-found"


class Conflict(WindlassError):
    """The world has moved on: a name is taken, a token is stale, a state does not allow it."""

    default_code = "conflict"


class TooLarge(WindlassError):
    """More bytes, entries or characters than this door takes."""

    default_code = "too-large"


class OverLimit(WindlassError):
    """A quota, rate or budget is used up; later it may not be."""

    default_code = "over-limit"

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: int = 1,
        code: str | None = None,
        hint: str | None = None,
        faults: Sequence[Fault] = (),
        limits: Sequence[Excess] = (),
    ) -> None:
        super().__init__(message, code=code, hint=hint, faults=faults)
        self.retry_after_seconds = retry_after_seconds
        self.limits = tuple(limits)


class Unavailable(WindlassError):
    """A part we depend on does not answer or refuses writes. Nothing was changed."""

    default_code = "unavailable"

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: int = 2,
        code: str | None = None,
        hint: str | None = None,
        faults: Sequence[Fault] = (),
    ) -> None:
        super().__init__(message, code=code, hint=hint, faults=faults)
        self.retry_after_seconds = retry_after_seconds
