"""What is asked and answered about tenants and their tokens, beside the manifest itself."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from windlass.core.admission.usage import Usage
from windlass.core.model.bounds import Bound
from windlass.core.model.ids import Millis
from windlass.core.model.token import IssuedToken
from windlass.wire import quantities
from windlass.wire.identity import Role
from windlass.wire.job import Strict
from windlass.wire.render import resources_document, timestamp
from windlass.wire.schema import Shape
from windlass.wire.tenant import TenantSpecDocument
from windlass.wire.written import Written

TTL_MS: Bound = Bound(60_000, quantities.DURATION_MS_MAX)
_TTL_SCHEMA = {
    "anyOf": [
        {"type": "integer", "minimum": 60, "maximum": TTL_MS.most // 1000},
        {"type": "string", "pattern": quantities.DURATION_PATTERN},
    ],
    "examples": [3600, "30d"],
}


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected printable characters")
    return text


class TokenRequest(Strict):
    subject: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)] | None = None
    """Whom it is for, as the audit will show it. Absent: the tenant's name."""
    role: Role = "member"
    ttl: Annotated[
        int,
        Written(
            quantities.read_duration,
            TTL_MS,
            write=lambda millis: f"{quantities.write_seconds(millis)} s",
            schema=_TTL_SCHEMA,
        ),
    ] = 30 * 86_400_000


class TenantName(Shape):
    name: str
    creation_timestamp: str


class Held(Shape):
    cpu: str
    memory: str
    gpu: int


class TenantStatus(Shape):
    weight: float
    """The one that holds: given, or its tier's."""
    jobs: int
    """That are not over."""
    queued: int
    runs: int
    held: Held
    """By its runs."""


class TenantManifest(Shape):
    """A tenant as the server answers it."""

    api_version: Literal["windlass.dev/v1"]
    kind: Literal["Tenant"]
    metadata: TenantName
    spec: TenantSpecDocument
    status: TenantStatus


class TenantList(Shape):
    items: list[TenantManifest]
    next: str | None
    revision: int


class DeletedTenant(Shape):
    name: str


class TokenShape(Shape):
    id: str
    tenant: str
    subject: str
    role: str
    issued_at: str | None
    expires_at: str
    revoked_at: str | None


class TokenList(Shape):
    items: list[TokenShape]


class NewToken(TokenShape):
    token: str
    """Shown this once and kept nowhere."""


def status_document(usage: Usage, *, weight: int) -> dict[str, Any]:
    return {
        "weight": quantities.write_ratio(weight, parts=1000),
        "jobs": usage.jobs,
        "queued": usage.queued,
        "runs": usage.runs,
        "held": resources_document(usage.resources),
    }


def token_document(token: IssuedToken, *, wall: Callable[[Millis], float]) -> dict[str, Any]:
    return {
        "id": token.id,
        "tenant": token.tenant,
        "subject": token.subject,
        "role": token.role,
        "issuedAt": timestamp(token.issued_at) if token.issued_at else None,
        "expiresAt": timestamp(token.expires_at),
        "revokedAt": None if token.revoked_at is None else timestamp(wall(token.revoked_at)),
    }
