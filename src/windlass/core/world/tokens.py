"""Tokens on record: noted when one is issued, marked when one is revoked, forgotten when it would hold no longer anyway."""

from msgspec.structs import replace

from windlass.core.errors import Conflict
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.token import IssuedToken, token_key
from windlass.core.world.records import Table
from windlass.core.world.tenants import find_tenant
from windlass.core.world.world import World

FORGET_AFTER_SECONDS = 86_400
"""Past its end: a wall clock that is set back a little must not bring a revoked token back to life."""
TOKENS_MAX = 10_000
"""Of one tenant that are not over."""


def note_token(world: World, token: IssuedToken, *, now: Millis) -> int:
    find_tenant(world, token.tenant)
    if len(tokens_of(world, token.tenant)) >= TOKENS_MAX:
        raise Conflict(
            f"tenant {token.tenant!r} has {TOKENS_MAX} tokens", code="tokens-max", hint="revoke or reuse some"
        )
    with world.decision(now):
        world.put(Table.TOKENS, token_key(token.tenant, token.id), token)
    return world.number


def revoke_token(world: World, token: IssuedToken, *, now: Millis) -> IssuedToken:
    """Refused from now on. One that is not on record is put there by what is known of it. Asking twice is fine."""
    key = token_key(token.tenant, token.id)
    known = world.tables.tokens.get(key, token)
    if known.revoked_at is not None:
        return known
    revoked = replace(known, revoked_at=now)
    with world.decision(now):
        world.put(Table.TOKENS, key, revoked)
    return revoked


def tokens_of(world: World, tenant: TenantId) -> list[IssuedToken]:
    return [token for token in world.tables.tokens.values() if token.tenant == tenant]


def forget_tokens(world: World, *, wall_seconds: float, now: Millis) -> int:
    old = [key for key, token in world.tables.tokens.items() if token.expires_at + FORGET_AFTER_SECONDS <= wall_seconds]
    with world.decision(now):
        for key in old:
            world.drop(Table.TOKENS, key)
    return world.number
