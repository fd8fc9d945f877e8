"""Who is calling. Tenant and roles come out of a verified token and out of nothing else."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from joserfc import jwk, jwt
from joserfc.errors import JoseError
from msgspec import Struct
from pydantic import ValidationError

from windlass.core.errors import Denied, Unauthenticated
from windlass.core.model.ids import TenantId
from windlass.wire.identity import (
    ALGORITHM,
    AUDIENCE,
    ISSUER,
    ROLE_ADMIN,
    ROLE_MEMBER,
    ROLES,
    TOKEN_MAX,
    TokenClaims,
)

LEEWAY_SECONDS: Final = 30
"""How far the clocks of issuer and reader may differ."""
_CACHED_MAX: Final = 4096
_MISSING: Final = "send the header Authorization: Bearer <token>"
_WRITERS: Final = frozenset({ROLE_ADMIN, ROLE_MEMBER})


class Identity(Struct, frozen=True, kw_only=True):
    subject: str
    tenant: TenantId
    roles: frozenset[str]
    token_id: str
    expires_at: int
    """Wall seconds."""

    def must_write(self) -> None:
        """Viewers look; members and admins change things."""
        if not self.roles & _WRITERS:
            raise Denied("this token may look, but change nothing", code="read-only", hint="ask for the role member")


class Authenticator:
    """Verifies tokens by our public keys. One verified is remembered by its digest until it expires: checking a signature
    costs as much as the rest of a submit."""

    def __init__(self, public_keys: Sequence[Mapping[str, Any]], *, wall: Callable[[], float] = time.time) -> None:
        self._keys = jwk.KeySet([jwk.OKPKey.import_key(dict(key)) for key in public_keys])
        self._wall = wall
        self._known: OrderedDict[bytes, Identity] = OrderedDict()
        self._claims = jwt.JWTClaimsRegistry(
            now=lambda: int(wall()),
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": ISSUER},
            aud={"essential": True, "value": AUDIENCE},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
        )

    def identify(self, authorization: Sequence[str]) -> Identity:
        """From all Authorization headers of a request; Unauthenticated unless there is exactly one and it holds."""
        token = _bearer(authorization)
        digest = sha256(token.encode("ascii", "replace")).digest()
        identity = self._known.get(digest)
        if identity is None:
            identity = self._verify(token)
            self._remember(digest, identity)
        if identity.expires_at + LEEWAY_SECONDS <= self._wall():
            self._known.pop(digest, None)
            raise Unauthenticated("the token has expired", code="token-expired", hint="get a new one")
        return identity

    def _verify(self, token: str) -> Identity:
        try:
            decoded = jwt.decode(token, self._keys, algorithms=[ALGORITHM])
            self._claims.validate(decoded.claims)
            claims = TokenClaims.model_validate(decoded.claims)
        except (JoseError, ValidationError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
            # One answer for every reason: how a forgery failed is nobody's business.
            raise Unauthenticated("the token does not hold", code="token-invalid", hint="get a new one") from None
        return Identity(
            subject=claims.sub,
            tenant=TenantId(claims.tenant),
            roles=frozenset(claims.roles) & ROLES,
            token_id=claims.jti,
            expires_at=claims.exp,
        )

    def _remember(self, digest: bytes, identity: Identity) -> None:
        self._known[digest] = identity
        if len(self._known) > _CACHED_MAX:
            self._known.popitem(last=False)


def _bearer(authorization: Sequence[str]) -> str:
    if len(authorization) != 1:
        raise Unauthenticated("no token, or more than one", hint=_MISSING)
    scheme, _, token = authorization[0].partition(" ")
    if scheme.lower() != "bearer" or not token or len(token) > TOKEN_MAX:
        raise Unauthenticated("no bearer token", hint=_MISSING)
    return token.strip()
