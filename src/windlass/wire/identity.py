"""Who is calling, as a token says it, and whose tokens count. The claims cross processes; what they grant is decided in `api`."""

from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from windlass.wire.names import read_dns_label
from windlass.wire.urls import read_url

ISSUER: Final = "windlass"
AUDIENCE: Final = "windlass"
ALGORITHM: Final = "Ed25519"
TOKEN_MAX: Final = 8192
"""Characters; a longer one is not looked at."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})

Role = Literal["admin", "member", "viewer"]
TenantName = Annotated[str, AfterValidator(read_dns_label)]


class TokenClaims(BaseModel):
    """What a token of ours must say; registered claims are checked before, by the JWT library."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    iss: str
    sub: Annotated[str, Field(min_length=1, max_length=200)]
    tenant: TenantName
    roles: Annotated[list[str], Field(max_length=16)]
    jti: Annotated[str, Field(min_length=1, max_length=200)]
    iat: int
    exp: int


def _safe_url(text: str) -> str:
    """Keys decide who is an admin: they come over TLS, or from this very machine."""
    read_url(text)
    parts = urlsplit(text)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise ValueError("expected an https:// address")
    return text


SafeUrl = Annotated[str, AfterValidator(_safe_url)]
Claim = Annotated[str, Field(min_length=1, max_length=200)]


class OidcIssuer(BaseModel):
    """An issuer of tokens other than ourselves, and how its claims are read here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: SafeUrl
    """Exactly as its tokens have it in `iss`."""
    audience: Claim
    """What `aud` must name: tokens made for other services of that issuer are not for us."""
    jwks: SafeUrl | None = None
    """Where its keys are; absent: what its `/.well-known/openid-configuration` says."""
    algorithms: Annotated[tuple[Literal["RS256", "ES256", "EdDSA"], ...], Field(min_length=1)] = (
        "RS256",
        "ES256",
        "EdDSA",
    )
    tenant_claim: Claim = "tenant"
    """A claim's name; dots lead into objects."""
    tenants: dict[str, TenantName] = Field(default_factory=dict)
    """From the claim's values to tenants. Empty: the claim names the tenant. Not empty: nobody else comes in."""
    role_claim: Claim = "roles"
    """A text of words, or a list of them."""
    roles: dict[str, Role] = Field(default_factory=dict)
    """From the claim's words to roles. Empty: the words `member` and `viewer` are roles; `admin` must be mapped by name."""
