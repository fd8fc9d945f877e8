"""A token this server signed, or one it was told to refuse. The token itself is never kept."""

from typing import Final

from msgspec import Struct

from windlass.core.model.ids import Millis, TenantId

ROLE_ADMIN: Final = "admin"
"""Of the installation: tenants, tokens, audit."""
ROLE_MEMBER: Final = "member"
ROLE_VIEWER: Final = "viewer"
ROLES: Final = frozenset({ROLE_ADMIN, ROLE_MEMBER, ROLE_VIEWER})


class IssuedToken(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    """Its `jti`."""
    tenant: TenantId
    expires_at: int
    """Wall seconds, as in the token: other clocks read it."""
    subject: str = ""
    role: str = ""
    """Empty, as the subject is: signed by somebody else, and known here only because it is refused."""
    issued_at: int = 0
    revoked_at: Millis | None = None


def token_key(tenant: str, token: str) -> str:
    """Ids are their issuer's choice: only within a tenant do they name one token."""
    return f"{tenant}/{token}"
