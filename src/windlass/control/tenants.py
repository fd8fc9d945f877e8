"""Tenants and their tokens as admins change them: each verb decides, waits for the disk, and only then answers."""

from collections.abc import Callable, Iterable

from windlass.control.brain import Brain
from windlass.core.admission.usage import Usage
from windlass.core.errors import Conflict
from windlass.core.model.ids import LOCAL_TENANT, Millis, PoolId, TenantId
from windlass.core.model.tenant import Tenant
from windlass.core.model.token import IssuedToken, token_key
from windlass.core.world import tenants, tokens
from windlass.core.world.pools import pool_ids

Edit = Callable[[Tenant], Tenant]


class Tenants:
    def __init__(self, brain: Brain) -> None:
        self._brain = brain

    # — tenants —

    def all(self) -> Iterable[Tenant]:
        """In the order of their names."""
        known = self._brain.world.tables.tenants
        return (known[name] for name in sorted(known))

    def find(self, tenant: TenantId) -> Tenant:
        return tenants.find_tenant(self._brain.world, tenant)

    def usage(self, tenant: TenantId) -> Usage:
        return self._brain.world.tables.usage.get(tenant) or Usage()

    def pools(self, tenant: TenantId) -> frozenset[PoolId]:
        """That a quota may name: those there are, and those it names already."""
        tables = self._brain.world.tables
        named = tables.tenants[tenant].quota.pools if tenant in tables.tenants else ()
        return pool_ids(self._brain.world) | frozenset(named)

    async def create(self, tenant: Tenant) -> tuple[Tenant, int]:
        return await self._brain.decide(lambda now: tenants.create_tenant(self._brain.world, tenant, now=now))

    async def change(self, tenant: TenantId, edit: Edit) -> tuple[Tenant, int]:
        """`edit` gets the tenant as it is and gives it as it shall be; nothing comes between the two."""

        def verb(now: Millis) -> Tenant:
            world = self._brain.world
            return tenants.change_tenant(world, edit(tenants.find_tenant(world, tenant)), now=now)

        return await self._brain.decide(verb)

    async def delete(self, tenant: TenantId) -> int:
        if tenant == LOCAL_TENANT:
            raise Conflict(
                f"tenant {tenant!r} is this installation's own and stays",
                code="tenant-own",
                hint="delete its jobs instead",
            )
        _, revision = await self._brain.decide(lambda now: tenants.delete_tenant(self._brain.world, tenant, now=now))
        return revision

    # — their tokens —

    def tokens(self, tenant: TenantId) -> list[IssuedToken]:
        """Oldest first: their ids are UUIDv7."""
        return sorted(tokens.tokens_of(self._brain.world, tenant), key=lambda token: token.id)

    def token(self, tenant: TenantId, token: str) -> IssuedToken | None:
        return self._brain.world.tables.tokens.get(token_key(tenant, token))

    async def note_token(self, token: IssuedToken) -> int:
        """On record before it is in anybody's hands."""
        _, revision = await self._brain.decide(lambda now: tokens.note_token(self._brain.world, token, now=now))
        return revision

    async def revoke(self, token: IssuedToken) -> tuple[IssuedToken, int]:
        return await self._brain.decide(lambda now: tokens.revoke_token(self._brain.world, token, now=now))
