"""Tokens of OIDC issuers: verified by the keys the issuer publishes, read as the settings say.

Only signatures by a key pair count (RS256, ES256, EdDSA), each only with a key of its own kind; there is no shared secret here to
confuse a public key with. Keys come from where the settings lead and from nowhere that a token names.
"""

import re
import time
import warnings
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning

from windlass.api.claims import at_path, head_of, registry, token_invalid
from windlass.api.jwks import IssuerKeys, Key
from windlass.core.model.token import ROLE_MEMBER, ROLE_VIEWER
from windlass.ports.fetcher import Fetcher
from windlass.wire.identity import OidcIssuer
from windlass.wire.names import is_dns_label

_BY_ITSELF: Final = {ROLE_MEMBER: ROLE_MEMBER, ROLE_VIEWER: ROLE_VIEWER}
_TOKEN_ID: Final = re.compile(r"[A-Za-z0-9._~-]{1,128}", re.ASCII)
_SUBJECT_MAX: Final = 200
_WORDS_MAX: Final = 1000


class Issuer:
    def __init__(
        self,
        settings: OidcIssuer,
        fetcher: Fetcher,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = settings.issuer
        self._settings = settings
        self._keys = IssuerKeys(settings, fetcher, monotonic=monotonic)
        self._claims = registry(settings.issuer, settings.audience, wall)

    async def verify(self, token: str) -> dict[str, Any]:
        """The fields of an Identity. Unauthenticated when it does not hold, Unavailable when no key can be had."""
        head = head_of(token)
        key = await self._keys.find(head.kid, head.alg)
        claims = _decoded(token, key, head.alg)
        try:
            self._claims.validate(claims)
        except (JoseError, ValueError, TypeError):
            raise token_invalid() from None
        return {
            "subject": self._subject(claims),
            "tenant": self._tenant(claims),
            "roles": self._roles(claims),
            "token_id": _token_id(claims, token),
            "expires_at": _whole(claims["exp"]),
        }

    def _subject(self, claims: dict[str, Any]) -> str:
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= _SUBJECT_MAX:
            raise token_invalid()
        return subject

    def _tenant(self, claims: dict[str, Any]) -> str:
        found = at_path(claims, self._settings.tenant_claim)
        if not isinstance(found, str):
            raise token_invalid()
        tenant = self._settings.tenants.get(found) if self._settings.tenants else found
        if tenant is None or not is_dns_label(tenant):
            raise token_invalid()
        return tenant

    def _roles(self, claims: dict[str, Any]) -> frozenset[str]:
        """Words that mean nothing here are read over: groups of other services stand beside ours."""
        found = at_path(claims, self._settings.role_claim)
        words = found.split() if isinstance(found, str) else found
        if not isinstance(words, list) or len(words) > _WORDS_MAX:
            return frozenset()
        mapping = self._settings.roles or _BY_ITSELF
        return frozenset(mapping[word] for word in words if isinstance(word, str) and word in mapping)


def _decoded(token: str, key: Key, algorithm: str) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # EdDSA is an old name, and the one that issuers still use
            return jwt.decode(token, key, algorithms=[algorithm]).claims
    except (JoseError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise token_invalid() from None


def _token_id(claims: dict[str, Any], token: str) -> str:
    """Its `jti` where that is fit for an address; else a digest, so that any token can be named and revoked."""
    given = claims.get("jti")
    if isinstance(given, str) and _TOKEN_ID.fullmatch(given):
        return given
    return f"sha256-{sha256(token.encode()).hexdigest()[:32]}"


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise token_invalid()
    return int(value)
