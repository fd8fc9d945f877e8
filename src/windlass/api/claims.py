"""What every verifier of tokens asks of the claims, and the one answer to those that do not hold."""

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from joserfc import jwt
from msgspec import Struct

from windlass.core.errors import Unauthenticated

LEEWAY_SECONDS: Final = 30
"""How far the clocks of issuer and reader may differ."""

T = TypeVar("T")


class Head(Struct):
    """Of a token, before anything of it is believed. Keys that a token brings along or points at are not read at all."""

    alg: str
    kid: str | None = None


class _Claimed(Struct):
    iss: str


def registry(issuer: str, audience: str, wall: Callable[[], float]) -> jwt.JWTClaimsRegistry:
    return jwt.JWTClaimsRegistry(
        now=lambda: int(wall()),
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": audience},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
    )


def head_of(token: str) -> Head:
    return _part(token, 0, Head)


def claimed_issuer(token: str) -> str:
    return _part(token, 1, _Claimed).iss


def token_invalid() -> Unauthenticated:
    """One answer for every reason: how a forgery failed is nobody's business."""
    return Unauthenticated("the token does not hold", code="token-invalid", hint="get a new one")


def _part(token: str, place: int, kind: type[T]) -> T:
    parts = token.split(".")
    if len(parts) != 3:
        raise token_invalid()
    try:
        return msgspec.json.decode(urlsafe_b64decode(parts[place] + "=="), type=kind)
    except (msgspec.MsgspecError, binascii.Error, ValueError, RecursionError):
        raise token_invalid() from None


def at_path(claims: dict[str, Any], name: str) -> Any:
    """A claim by its name, or by a path of names with dots between; None when it is not there."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(part)
    return found
