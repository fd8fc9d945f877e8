"""What an admin does with a tenant: create it, change it, take it away. The laptop's own is made by `World.set_tenant`."""

from msgspec.structs import replace

from windlass.core.errors import Conflict, Invalid
from windlass.core.model.bounds import tenant_faults
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.tenant import Tenant
from windlass.core.world.finish import doom
from windlass.core.world.pools import pool_ids
from windlass.core.world.records import Gone, Table
from windlass.core.world.secrets import remove_all_of
from windlass.core.world.spending import check_budget, renew_marks
from windlass.core.world.world import World


def create_tenant(world: World, tenant: Tenant, *, now: Millis) -> Tenant:
    """Conflict when there is one of that name; Invalid with every fault when its numbers cannot be meant."""
    if tenant.id in world.tables.tenants:
        raise Conflict(
            f"there is a tenant {tenant.id!r} already", code="tenant-exists", hint="change it, or choose another name"
        )
    if tenant.id in world.tables.gone:
        raise Conflict(
            f"there was a tenant {tenant.id!r}, and its name is not given again",
            code="tenant-gone",
            hint="choose another name: old tokens and the history would become this one's",
        )
    made = replace(tenant, created_at=now)
    _check(world, made)
    world.set_tenant(made, now=now)
    return made


def change_tenant(world: World, tenant: Tenant, *, now: Millis) -> Tenant:
    """All of it but when it was created. A new weight counts from the next placing, a new quota from the next decision."""
    known = find_tenant(world, tenant.id)
    changed = replace(tenant, created_at=known.created_at)
    _check(world, changed)
    with world.decision(now):
        world.set_tenant(changed, now=now)
        if changed.budget != known.budget:
            renew_marks(world, tenant.id, now)
            check_budget(world, tenant.id, now)
    return changed


def delete_tenant(world: World, tenant: TenantId, *, now: Millis) -> int:
    """Refused while it has live jobs. Account, totals, names, keys, tokens and volumes go; its history, with its costs, stays."""
    find_tenant(world, tenant)
    tables = world.tables
    live = tables.usage[tenant].jobs if tenant in tables.usage else 0
    if live:
        raise Conflict(
            f"tenant {tenant!r} has {live} live job{'s' * (live != 1)}",
            code="tenant-busy",
            hint="cancel them, or wait for their end",
        )
    with world.decision(now):
        for volume in [one for one in tables.volumes.values() if one.tenant == tenant]:
            doom(world, volume, now)
        for key in [one for one in tables.names if one.startswith(f"{tenant}/")]:
            world.drop(Table.NAMES, key)
        for key in [one for one in tables.keys if one.startswith(f"{tenant}/")]:
            world.drop(Table.KEYS, key)
            world.drop(Table.ANSWERS, key)
        for key in list(tables.bursts.get(tenant, ())):
            world.drop(Table.BURSTS, key)
        for key in [one for one in tables.totals if one.startswith(f"{tenant}/")]:
            world.drop(Table.TOTALS, key)
        if tenant in tables.marks:
            world.drop(Table.BUDGETS, tenant)
        for key in [one for one in tables.tokens if one.startswith(f"{tenant}/")]:
            world.drop(Table.TOKENS, key)
        if tenant in tables.ledger.accounts():
            world.drop(Table.ACCOUNTS, tenant)
        remove_all_of(world, tenant)
        world.drop(Table.TENANTS, tenant)
        world.put(Table.GONE, tenant, Gone(at=now))
    return world.number


def find_tenant(world: World, tenant: TenantId) -> Tenant:
    return world.tenant(tenant)


def _check(world: World, tenant: Tenant) -> None:
    pools = set(pool_ids(world))
    known = world.tables.tenants.get(tenant.id)
    if known is not None:
        pools |= set(known.quota.pools)  # a pool that has lost its last node may stay named
    faults = tenant_faults(tenant, pools=pools)
    if faults:
        raise Invalid(
            f"tenant {tenant.id!r} has {len(faults)} fault{'s' * (len(faults) != 1)}",
            code="tenant-invalid",
            faults=faults,
        )
