"""Who is calling, as a token says it. The claims cross processes; what they grant is decided in `api`."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from windlass.wire.names import read_dns_label

ISSUER: Final = "windlass"
AUDIENCE: Final = "windlass"
ALGORITHM: Final = "Ed25519"
ROLE_ADMIN: Final = "admin"
ROLE_MEMBER: Final = "member"
ROLE_VIEWER: Final = "viewer"
ROLES: Final = frozenset({ROLE_ADMIN, ROLE_MEMBER, ROLE_VIEWER})
TOKEN_MAX: Final = 8192
"""Characters; a longer one is not looked at."""


class TokenClaims(BaseModel):
    """What a token of ours must say; registered claims are checked before, by the JWT library."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    iss: str
    sub: Annotated[str, Field(min_length=1, max_length=200)]
    tenant: Annotated[str, AfterValidator(read_dns_label)]
    roles: Annotated[list[str], Field(max_length=16)]
    jti: Annotated[str, Field(min_length=1, max_length=200)]
    iat: int
    exp: int
