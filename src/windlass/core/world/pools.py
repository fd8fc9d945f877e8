"""What an admin does with a pool: create it, change it, take it away. Its price goes into the one list of prices."""

from collections.abc import Iterator

from msgspec.structs import replace

from windlass.core.errors import Conflict, Fault, Invalid, NotFound
from windlass.core.model.amounts import cores, size
from windlass.core.model.bounds import pool_faults
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.money import PriceBook
from windlass.core.model.pool import Pool
from windlass.core.model.resources import Resources
from windlass.core.world.ground import SLICE
from windlass.core.world.records import PRICES_KEY, Table
from windlass.core.world.workers import fit_ground
from windlass.core.world.world import World

_EMPTY_FIRST = (
    "windlass pools pause {pool}, then windlass pools scale {pool} 0; it can go when its last worker has gone"
)
_HAS_NODES = "it stays for as long as it has nodes; `windlass nodes cordon NODE` keeps new runs off one"
_NAMED_MAX = 10
"""Tenants named in one refusal."""


def create_pool(world: World, pool: Pool, prices: PriceBook | None, *, now: Millis) -> Pool:
    """Conflict when there is one of that name; Invalid with every fault when it cannot be meant or has no room here."""
    if pool.id in world.tables.fleet.pools:
        raise Conflict(
            f"there is a pool {pool.id!r} already", code="pool-exists", hint="change it, or choose another name"
        )
    return _set(world, replace(pool, created_at=now), prices, now)


def change_pool(world: World, pool: Pool, prices: PriceBook | None, *, now: Millis) -> Pool:
    """All of it but its kind and when it was created. Workers that are there keep the size they have."""
    known = find_pool(world, pool.id)
    if known.kind is not pool.kind or known.provisioner != pool.provisioner:
        raise Conflict(
            f"pool {pool.id!r} is {known.kind}: that cannot be changed",
            code="pool-kind",
            hint="make another pool, and delete this one when it is empty",
        )
    if known.scaling is not None and pool.scaling is not None and known.scaling.worker != pool.scaling.worker:
        _check_empty(world, pool.id, "other workers can be described only while it has none")
    return _set(world, replace(pool, created_at=known.created_at), prices, now)


def delete_pool(world: World, pool: PoolId, *, now: Millis) -> list[TenantId]:
    """Refused while it has nodes or workers, or a tenant may use no other. The tenants whose quotas named it, and no longer do:
    whoever makes another pool of that name says anew who may use it.

    Its history stays for as long as history is kept, and is not shown as a namesake's.
    """
    known = find_pool(world, pool)
    _check_empty(world, pool, _EMPTY_FIRST.format(pool=pool) if known.is_dynamic else _HAS_NODES)
    _check_unnamed(world, pool)
    with world.decision(now):
        named = _unname(world, pool)
        _set_prices(world, pool, None)
        if pool in world.tables.fleet.growths:
            world.drop(Table.GROWTHS, pool)
        world.drop(Table.POOLS, pool)
        fit_ground(world, now)
    return named


def find_pool(world: World, pool: PoolId) -> Pool:
    found = world.tables.fleet.pools.get(pool)
    if found is None:
        known = ", ".join(sorted(world.tables.fleet.pools)) or "none yet"
        raise NotFound(f"no pool {pool!r}", hint=f"there are: {known}")
    return found


def pool_ids(world: World) -> frozenset[PoolId]:
    """Those on record, and those that only nodes name."""
    return frozenset(world.tables.fleet.pools) | {node.pool for node in world.tables.nodes.values()}


def _set(world: World, pool: Pool, prices: PriceBook | None, now: Millis) -> Pool:
    faults = [*pool_faults(pool), *_tenant_faults(world, pool), *_room_faults(world, pool)]
    if faults:
        raise Invalid(
            f"pool {pool.id!r} has {len(faults)} fault{'s' * (len(faults) != 1)}", code="pool-invalid", faults=faults
        )
    with world.decision(now):
        if world.tables.fleet.pools.get(pool.id) != pool:
            world.put(Table.POOLS, pool.id, pool)
        _set_prices(world, pool.id, prices)
        fit_ground(world, now)
    return pool


def _tenant_faults(world: World, pool: Pool) -> Iterator[Fault]:
    """A name that is misspelt would close the pool to everybody. One that it names already may stay when its tenant goes."""
    known = world.tables.fleet.pools.get(pool.id)
    named = known.tenants if known is not None else ()
    unknown = [one for one in pool.tenants if one not in world.tables.tenants and one not in named]
    for one in unknown[:_NAMED_MAX]:
        yield Fault("spec.tenants", f"there is no tenant {one!r}; `windlass tenants list` shows those there are")


def _set_prices(world: World, pool: PoolId, prices: PriceBook | None) -> None:
    known = world.tables.prices
    if known.pools.get(pool) == prices:
        return
    others = {name: book for name, book in known.pools.items() if name != pool}
    pools = others if prices is None else {**others, pool: prices}
    world.put(Table.PRICES, PRICES_KEY, replace(known, pools=pools))


def _check_empty(world: World, pool: PoolId, hint: str) -> None:
    workers = len(world.tables.fleet.workers_of(pool))
    nodes = sum(node.pool == pool and node.id not in world.tables.fleet.workers for node in world.tables.nodes.values())
    if workers or nodes:
        parts = [
            f"{count} {noun}{'s' * (count != 1)}" for count, noun in ((workers, "worker"), (nodes, "node")) if count
        ]
        raise Conflict(f"pool {pool!r} has {' and '.join(parts)}", code="pool-busy", hint=hint)


def _check_unnamed(world: World, pool: PoolId) -> None:
    """A quota that names none is one that lets its tenant use any: it is not for a deletion to open them."""
    stay = pool_ids(world) - {pool}
    named = sorted(one for one, allowed in world.tables.allowed.items() if pool in allowed and stay.isdisjoint(allowed))
    if not named:
        return
    who = f"tenant{'s' * (len(named) != 1)} {', '.join(named[:_NAMED_MAX])}{' …' * (len(named) > _NAMED_MAX)}"
    each, name = ("", named[0]) if len(named) == 1 else ("for each, ", "NAME")
    raise Conflict(
        f"{who} may use no pool but {pool!r}",
        code="pool-in-quota",
        hint=f"{each}windlass tenants quota {name} --pool any, or --pool with one that stays",
    )


def _unname(world: World, pool: PoolId) -> list[TenantId]:
    """Part of a decision. At least one other stays in each: see `_check_unnamed`."""
    named = sorted(one for one, allowed in world.tables.allowed.items() if pool in allowed)
    for one in named:
        tenant = world.tenant(one)
        pools = tuple(other for other in tenant.quota.pools if other != pool)
        world.set_tenant(replace(tenant, quota=replace(tenant.quota, pools=pools)), now=world.tables.now)
    return named


# — slices are cut from one machine: together they never come to more than it has —


def _room_faults(world: World, pool: Pool) -> Iterator[Fault]:
    if pool.provisioner != SLICE:
        return
    fleet = world.tables.fleet
    if fleet.ground is None:
        yield Fault("spec.provisioner", "there is no machine here that slices could be cut from")
        return
    others = fleet.reserved(SLICE, besides=pool.id)
    left = fleet.ground.capacity - others - pool.reach
    for what, over in _below_nothing(left):
        taken = _amount(what, others)
        yield Fault(
            "spec.scaling.max",
            f"its workers may come to {_amount(what, pool.reach)}; of the machine's {_amount(what, fleet.ground.capacity)}, "
            f"{taken} {'is' if taken.startswith('1 ') else 'are'} other pools': {_amount(what, over)} too many",
        )
    slot = world.tables.places.slot(fleet.ground.node)
    if slot is None or any(_below_nothing(left)):
        return
    held = slot.node.capacity - slot.free
    for what, over in _below_nothing(left - held):
        yield Fault(
            "spec.scaling.max",
            f"node {fleet.ground.node} would keep {_amount(what, left)}, and runs there hold {_amount(what, held)} now: "
            f"{_amount(what, over)} too many",
        )


def _below_nothing(room: Resources) -> Iterator[tuple[str, Resources]]:
    short = Resources(
        cpu_millis=max(0, -room.cpu_millis), memory_bytes=max(0, -room.memory_bytes), gpus=max(0, -room.gpus)
    )
    if short.cpu_millis:
        yield "cpu", short
    if short.memory_bytes:
        yield "memory", short
    if short.gpus:
        yield "gpu", short


def _amount(what: str, of: Resources) -> str:
    match what:
        case "cpu":
            return cores(of.cpu_millis)
        case "memory":
            return size(of.memory_bytes)
        case _:
            return f"{of.gpus} GPU{'s' * (of.gpus != 1)}"
