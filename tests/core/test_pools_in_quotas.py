"""The pools that tenants' quotas name, when such a pool goes."""

import pytest
from msgspec.structs import replace

from tests.core.pool_home import GROW, START, a_growing_world, a_pool
from windlass.core.errors import Conflict, Invalid
from windlass.core.model.ids import LOCAL_TENANT, PoolId, TenantId
from windlass.core.model.tenant import Quota
from windlass.core.world.pools import change_pool, create_pool, delete_pool
from windlass.core.world.submit import submit
from windlass.core.world.tenants import change_tenant
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_submission

ACME, BETA = TenantId("acme"), TenantId("beta")
LOCAL = PoolId("local")


def may_use(world: World, tenant: TenantId, *pools: PoolId) -> None:
    change_tenant(world, replace(world.tenant(tenant), quota=Quota(pools=pools)), now=START)


def lost(world: World, tenant: TenantId) -> None:
    """As a record of before has it, when such a pool could be deleted."""
    world.set_tenant(replace(world.tenant(tenant), quota=Quota(pools=(PoolId("once"),))), now=START)


def asks_for(world: World, tenant: TenantId, *pools: PoolId) -> None:
    asked = replace(a_submission(cpu=1000, memory=GIB), pools=pools)
    submit(world, tenant, asked, job=a_job_id(), now=START)


def refusal(world: World, tenant: TenantId, *pools: PoolId) -> Invalid:
    with pytest.raises(Invalid) as refused:
        asks_for(world, tenant, *pools)
    return refused.value


def test_the_only_pool_of_a_tenants_quota_is_not_deleted_before_the_quota_names_another() -> None:
    world = a_growing_world(ACME)
    may_use(world, ACME, GROW)
    with pytest.raises(Conflict) as refused:
        delete_pool(world, GROW, now=START)
    assert (refused.value.code, refused.value.message) == ("pool-in-quota", "tenant acme may use no pool but 'grow'")
    assert refused.value.hint == "windlass tenants quota acme --pool any, or --pool with one that stays"
    may_use(world, ACME)
    delete_pool(world, GROW, now=START)
    asks_for(world, ACME)


def test_every_tenant_that_would_be_left_without_a_pool_is_named() -> None:
    world = a_growing_world(ACME, BETA)
    for tenant in (ACME, BETA):
        may_use(world, tenant, GROW)
    with pytest.raises(Conflict, match="tenants acme, beta may use no pool but 'grow'") as refused:
        delete_pool(world, GROW, now=START)
    assert str(refused.value.hint).startswith("for each, windlass tenants quota NAME --pool any,")


def test_a_pool_goes_when_the_quota_names_another_that_stays() -> None:
    world = a_growing_world(ACME)
    may_use(world, ACME, GROW, LOCAL)
    delete_pool(world, GROW, now=START)
    asks_for(world, ACME)


def test_a_pool_that_goes_leaves_every_quota_so_that_no_namesake_is_let_in() -> None:
    world = a_growing_world(ACME, BETA)
    may_use(world, ACME, GROW, LOCAL)
    before = world.number
    assert delete_pool(world, GROW, now=START) == [ACME]
    assert world.number == before + 1, "one decision"
    assert world.tenant(ACME).quota.pools == (LOCAL,)
    create_pool(world, a_pool(), None, now=START)
    assert refusal(world, ACME, GROW).faults[0].message == "its tenant may use pool local, not pool grow"
    asks_for(world, BETA, GROW)


def test_a_job_of_a_tenant_whose_pools_are_gone_is_refused_with_the_command_that_helps() -> None:
    world = a_growing_world(ACME)
    lost(world, ACME)
    for pools in ((), (LOCAL,)):
        refused = refusal(world, ACME, *pools)
        assert [fault.message for fault in refused.faults] == [
            "its tenant may use only pool once, which is not there any more"
        ]
        assert refused.hint == "an admin's `windlass tenants quota acme --pool any` lets it use those there are"


def test_a_pool_that_is_closed_to_the_tenant_is_as_one_that_is_gone() -> None:
    world = a_growing_world(ACME)
    may_use(world, ACME, GROW)
    change_pool(world, a_pool(tenants=(LOCAL_TENANT,)), None, now=START)
    assert "which is not there any more" in refusal(world, ACME).faults[0].message


def test_a_pool_that_is_there_and_has_no_workers_is_not_said_to_be_gone() -> None:
    world = a_growing_world(ACME)
    may_use(world, ACME, GROW)
    change_pool(world, a_pool(workers_max=0), None, now=START)
    refused = refusal(world, ACME)
    assert refused.faults[0].message == "its tenant may use pool grow, not any other"
