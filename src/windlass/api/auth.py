"""Who is calling. Tenant and roles come out of a verified token and out of nothing else.

A token is ours, signed by the installation's key, or of an OIDC issuer that the settings name (`api.issuers`). Which of them it
claims to be of only chooses whose keys it must hold under.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from joserfc import jwk, jwt
from joserfc.errors import JoseError
from msgspec import Struct
from pydantic import ValidationError

from windlass.api.claims import LEEWAY_SECONDS, claimed_issuer, registry, token_invalid
from windlass.api.issuers import Issuer
from windlass.core.errors import Denied, Unauthenticated
from windlass.core.model.audit import Author
from windlass.core.model.ids import TenantId
from windlass.core.model.token import ROLE_ADMIN, ROLE_MEMBER, ROLES
from windlass.wire.identity import ALGORITHM, AUDIENCE, ISSUER, TOKEN_MAX, TokenClaims

_CACHED_MAX: Final = 4096
_HEARD_MAX: Final = 64
_MISSING: Final = "send the header Authorization: Bearer <token>"
_WRITERS: Final = frozenset({ROLE_ADMIN, ROLE_MEMBER})


class Identity(Struct, frozen=True, kw_only=True):
    subject: str
    tenant: TenantId
    roles: frozenset[str]
    token_id: str
    expires_at: int
    """Wall seconds."""
    author: Author

    @property
    def is_admin(self) -> bool:
        return ROLE_ADMIN in self.roles

    def must_look(self) -> None:
        if not self.roles:
            raise Denied("this token has no role here", code="no-role", hint="ask for the role viewer or member")

    def must_write(self) -> None:
        """Viewers look; members and admins change things."""
        if not self.roles & _WRITERS:
            raise Denied("this token may look, but change nothing", code="read-only", hint="ask for the role member")

    def must_govern(self) -> None:
        if not self.is_admin:
            raise Denied("only admins may do this", code="not-admin", hint="ask an admin of this installation")


def identity_of(*, subject: str, tenant: str, roles: frozenset[str], token_id: str, expires_at: int) -> Identity:
    return Identity(
        subject=subject,
        tenant=TenantId(tenant),
        roles=roles & ROLES,
        token_id=token_id,
        expires_at=expires_at,
        author=Author(subject, tenant, token_id),
    )


class Authenticator:
    """Verifies tokens by public keys. One verified is remembered by its digest until it expires: checking a signature
    costs as much as the rest of a submit. Revocation is not remembered here; whoever asks looks it up."""

    def __init__(
        self,
        public_keys: Sequence[Mapping[str, Any]],
        *,
        issuers: Sequence[Issuer] = (),
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._keys = jwk.KeySet([jwk.OKPKey.import_key(dict(key)) for key in public_keys])
        self._issuers = {issuer.name: issuer for issuer in issuers}
        self._wall = wall
        self._known: OrderedDict[bytes, Identity] = OrderedDict()
        self._heard: dict[str, Identity] = {}
        """The few that speak now, by their very header: a client says the same with every request."""
        self._claims = registry(ISSUER, AUDIENCE, wall)

    def recall(self, authorization: Sequence[str]) -> Identity | None:
        """Of a token verified before; None when it has to be looked at. Raises as `identify` does."""
        identity = self._heard.get(authorization[0]) if len(authorization) == 1 else None
        if identity is None:
            token = _bearer(authorization)
            identity = self._known.get(sha256(token.encode("ascii", "replace")).digest())
            if identity is not None:
                self._note_heard(authorization[0], identity)
        if identity is not None:
            self.check_end(identity)
        return identity

    def check_end(self, identity: Identity) -> None:
        if identity.expires_at + LEEWAY_SECONDS <= self._wall():
            raise Unauthenticated("the token has expired", code="token-expired", hint="get a new one")

    async def identify(self, authorization: Sequence[str]) -> Identity:
        """From all Authorization headers of a request; Unauthenticated unless there is exactly one and it holds.

        Unavailable when it is of an issuer whose keys cannot be had.
        """
        identity = self.recall(authorization)
        if identity is None:
            token = _bearer(authorization)
            identity = await self._verify(token)
            self._remember(sha256(token.encode("ascii", "replace")).digest(), identity)
        return identity

    def seen(self, tenant: str, token_id: str) -> Identity | None:
        """One that was verified and is still remembered: how long a foreign token holds is known from it."""
        found = (one for one in self._known.values() if one.token_id == token_id and one.tenant == tenant)
        return next(found, None)

    async def _verify(self, token: str) -> Identity:
        name = claimed_issuer(token)
        if name == ISSUER:
            return self._verify_own(token)
        issuer = self._issuers.get(name)
        if issuer is None:
            raise token_invalid()
        return identity_of(**await issuer.verify(token))

    def _verify_own(self, token: str) -> Identity:
        try:
            decoded = jwt.decode(token, self._keys, algorithms=[ALGORITHM])
            self._claims.validate(decoded.claims)
            claims = TokenClaims.model_validate(decoded.claims)
        except (JoseError, ValidationError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
            raise token_invalid() from None
        return identity_of(
            subject=claims.sub,
            tenant=claims.tenant,
            roles=frozenset(claims.roles),
            token_id=claims.jti,
            expires_at=claims.exp,
        )

    def _note_heard(self, header: str, identity: Identity) -> None:
        if len(self._heard) >= _HEARD_MAX:
            self._heard.clear()
        self._heard[header] = identity

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
