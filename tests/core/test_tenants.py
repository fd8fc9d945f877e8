"""Tenants as an admin makes, changes and removes them, and the numbers they may have."""

import msgspec
import pytest
from msgspec.structs import replace

from windlass.core.errors import Conflict, Denied, Invalid, NotFound
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.money import Micros
from windlass.core.model.resources import Resources
from windlass.core.model.tenant import Budget, BurstPolicy, Quota, QuotaPolicy, RateLimit, Tenant, Tier, new_tenant
from windlass.core.world.place import place
from windlass.core.world.policy import Policy
from windlass.core.world.requests import cancel
from windlass.core.world.submit import submit
from windlass.core.world.tenants import change_tenant, create_tenant, delete_tenant
from windlass.core.world.world import World
from windlass.testing.builders import GIB, a_job_id, a_submission, a_world

NOW = Millis(2_000_000)
ACME = TenantId("acme")


def with_acme() -> World:
    world = a_world()
    create_tenant(world, new_tenant(ACME), now=NOW)
    return world


def test_a_new_tenant_has_four_cores_eight_gib_and_ten_jobs_and_is_refused_beyond() -> None:
    made = create_tenant(a_world(), new_tenant(ACME, tier=Tier.PREMIUM), now=NOW)
    assert made.quota.resources == Resources(cpu_millis=4000, memory_bytes=8 * GIB)
    assert (made.quota.jobs, made.policy, made.weight, made.created_at) == (10, QuotaPolicy.REJECT, 3000, NOW)


def test_a_record_from_before_weights_followed_tiers_keeps_the_weight_it_had() -> None:
    old = msgspec.json.decode(b'{"id":"acme","tier":"premium"}', type=Tenant)
    assert (old.weight, old.is_tier_weight) == (1000, False)
    kept = msgspec.json.decode(msgspec.json.encode(new_tenant(ACME, tier=Tier.PREMIUM)), type=Tenant)
    assert (kept.weight, kept.is_tier_weight) == (3000, True)


def test_where_only_one_tenant_may_run_things_another_is_told_so_and_leaves_nothing() -> None:
    world = a_world(tenants=(TenantId("local"), ACME), policy=Policy(only_tenant=TenantId("local")))
    before = world.number
    with pytest.raises(Denied) as refused:
        submit(world, ACME, a_submission(), job=a_job_id(), now=NOW)
    assert (refused.value.code, world.number) == ("single-tenant", before)
    submit(world, TenantId("local"), a_submission(), job=a_job_id(), now=NOW)


def test_the_name_of_a_deleted_tenant_is_not_given_again() -> None:
    world = with_acme()
    delete_tenant(world, ACME, now=NOW)
    with pytest.raises(Conflict) as refused:
        create_tenant(world, new_tenant(ACME), now=NOW)
    assert refused.value.code == "tenant-gone"


def test_a_name_is_given_once() -> None:
    with pytest.raises(Conflict, match="acme") as refused:
        create_tenant(with_acme(), new_tenant(ACME), now=NOW)
    assert refused.value.code == "tenant-exists"


def test_every_number_out_of_bounds_is_named_and_nothing_is_changed() -> None:
    world = with_acme()
    before = world.tables.tenants[ACME], world.number
    broken = replace(
        before[0],
        weight=499,
        quota=Quota(
            resources=Resources(cpu_millis=-1, memory_bytes=1 << 61, gpus=-1),
            jobs=-1,
            workers=-1,
            queued_max=-1,
            jobs_per_month=-1,
            cost_per_day=Micros(-1),
            pools=(PoolId("nowhere"),),
        ),
        burst=BurstPolicy(factor=999, span_ms=Millis(0), cooldown_ms=Millis(-1), sessions_per_day=-1, price_factor=0),
        budget=Budget(per_month=Micros(0), thresholds=(0, 1001)),
        rate=RateLimit(per_second=0, at_once=0),
        sla_ms=Millis(0),
    )
    with pytest.raises(Invalid) as refused:
        change_tenant(world, broken, now=NOW)
    named = {fault.field.removeprefix("spec.") for fault in refused.value.faults}
    quota = {"cpu", "memory", "gpu", "jobs", "workers", "queuedMax", "jobsPerMonth", "costPerDay", "pools"}
    burst = {"factor", "span", "cooldown", "sessionsPerDay", "priceFactor"}
    rest = {"weight", "budget.perMonth", "budget.thresholds", "rate.perSecond", "rate.atOnce", "sla"}
    assert named == {f"quota.{one}" for one in quota} | {f"burst.{one}" for one in burst} | rest
    assert (world.tables.tenants[ACME], world.number) == before


@pytest.mark.parametrize("weight", [500, 1000, 10_000])
def test_weights_from_half_a_share_to_ten_are_taken(weight: int) -> None:
    world = with_acme()
    change_tenant(world, replace(world.tables.tenants[ACME], weight=weight), now=NOW)
    assert world.tables.tenants[ACME].weight == weight


def test_a_tenant_with_live_jobs_stays_and_goes_with_its_account_names_and_keys_after_them() -> None:
    world = with_acme()
    kept = submit(world, ACME, a_submission(name="kept"), job=a_job_id(), now=NOW)[0]
    place(world, now=NOW)
    with pytest.raises(Conflict) as refused:
        delete_tenant(world, ACME, now=NOW)
    assert refused.value.code == "tenant-busy"
    cancelled = submit(world, ACME, a_submission(name="other"), job=a_job_id(), now=NOW)[0]
    cancel(world, ACME, cancelled.id, now=NOW)
    assert world.tables.jobs.keys() == {kept.id}


def test_nothing_of_a_deleted_tenant_is_left_in_the_world() -> None:
    world = with_acme()
    job = submit(world, ACME, a_submission(name="only"), job=a_job_id(), now=NOW)[0]
    cancel(world, ACME, job.id, now=NOW)
    delete_tenant(world, ACME, now=NOW)
    assert ACME not in world.tables.tenants
    assert ACME not in world.tables.ledger.accounts()
    assert not world.tables.names
    with pytest.raises(NotFound):
        delete_tenant(world, ACME, now=NOW)


def test_a_job_has_its_own_timeout_or_its_tenants_default_or_the_servers() -> None:
    world = a_world(tenants=(ACME,), policy=Policy(default_timeout_ms=Millis(3_000)))

    def made(timeout_ms: int | None) -> Millis | None:
        return submit(world, ACME, a_submission(timeout_ms=timeout_ms), job=a_job_id(), now=NOW)[0].timeout_ms

    assert (made(1_000), made(None)) == (1_000, 3_000)
    world.set_tenant(Tenant(id=ACME, default_timeout_ms=Millis(2_000)), now=NOW)
    assert (made(1_000), made(None)) == (1_000, 2_000)
