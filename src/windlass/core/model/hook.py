"""A webhook: whom to tell that a job is over, and how that went. Owed in the store until it is heard or given up."""

from enum import StrEnum

from msgspec import Struct

from windlass.core.model.ids import JobId, Millis, TenantId


class HookState(StrEnum):
    OWED = "owed"
    FAILING = "failing"
    """Tried, and to be tried again."""
    HEARD = "heard"
    GIVEN_UP = "given-up"


class Hook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    job: JobId
    url: str
    not_before: Millis
    tries: int = 0
    tenant: TenantId = TenantId("")
    """Whose slots its delivery takes. Empty in records of older versions."""
    state: HookState = HookState.OWED
    problem: str = ""
    """What went wrong the last time."""
    tried_at: Millis | None = None
