"""A tenant's manifest: read strictly, with every fault at once, and written back as it was read."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import Invalid
from windlass.core.model.bounds import tenant_faults
from windlass.core.model.ids import PoolId, TenantId
from windlass.core.model.tenant import QuotaPolicy, Tenant, Tier, new_tenant
from windlass.wire.tenant import merged, read_tenant, tenant_manifest, tenant_spec

POOLS = {PoolId("local"), PoolId("gpu")}


def document(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "windlass.dev/v1", "kind": "Tenant", "metadata": {"name": "acme"}, "spec": spec}


def read(**spec: Any) -> Tenant:
    return read_tenant(document(**spec), pools=POOLS)


def faults(**spec: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        read(**spec)
    return {fault.field: fault.message for fault in refused.value.faults}


def test_a_tenant_without_more_words_is_the_one_that_the_model_starts_with() -> None:
    assert read() == new_tenant(TenantId("acme"))
    assert read(tier="premium") == new_tenant(TenantId("acme"), tier=Tier.PREMIUM)


def test_every_field_reaches_the_model() -> None:
    made = read(
        tier="enterprise", weight=Decimal("2.5"), policy="burst", sla="4h", defaultTimeout=3600,
        quota={"cpu": "1500m", "memory": "64Gi", "gpu": 2, "jobs": 7, "workers": 3, "queuedMax": 9, "jobsPerMonth": 100,
               "costPerDay": 5_000_000, "pools": ["gpu"]},
        burst={"factor": 2, "span": "30m", "cooldown": 60, "sessionsPerDay": 1, "priceFactor": Decimal("1.25")},
        budget={"perMonth": 10**9, "thresholds": [100, Decimal("87.5")], "hardStop": True},
        rate={"perSecond": 5, "atOnce": 6},
    )  # fmt: skip
    assert made.quota.resources is not None
    assert (made.tier, made.weight, made.policy) == (Tier.ENTERPRISE, 2500, QuotaPolicy.BURST)
    assert (made.quota.resources.cpu_millis, made.quota.resources.memory_bytes, made.quota.resources.gpus) == (
        1500, 64 << 30, 2,
    )  # fmt: skip
    assert (made.burst.factor, made.burst.span_ms, made.burst.cooldown_ms, made.burst.price_factor) == (
        2000, 1_800_000, 60_000, 1250,
    )  # fmt: skip
    assert made.budget is not None
    assert (made.budget.thresholds, made.budget.is_hard) == ((875, 1000), True)
    assert made.rate is not None
    assert (made.rate.per_second, made.rate.at_once) == (5, 6)
    assert (made.sla_ms, made.default_timeout_ms) == (4 * 3_600_000, 3_600_000)
    assert not tenant_faults(made, pools=POOLS)


def test_null_is_no_limit_and_comes_back_as_null() -> None:
    made = read(quota={"cpu": None, "memory": None, "gpu": None, "jobs": None})
    assert made.quota.resources is None
    assert made.quota.jobs is None
    some = read(quota={"cpu": 2, "memory": None, "gpu": None})
    assert tenant_spec(some)["quota"]["cpu"] == "2"
    assert tenant_spec(some)["quota"]["memory"] is None


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a negative quota": ({"quota": {"cpu": -1}}, "spec.quota.cpu"),
    "negative jobs": ({"quota": {"jobs": -1}}, "spec.quota.jobs"),
    "a huge number": ({"quota": {"jobs": 10**30}}, "spec.quota.jobs"),
    "huge memory": ({"quota": {"memory": 1 << 70}}, "spec.quota.memory"),
    "a fraction of a job": ({"quota": {"jobs": Decimal("1.5")}}, "spec.quota.jobs"),
    "a truth for a number": ({"quota": {"gpu": True}}, "spec.quota.gpu"),
    "NaN": ({"weight": Decimal("NaN")}, "spec.weight"),
    "infinity": ({"burst": {"factor": Decimal("Infinity")}}, "spec.burst.factor"),
    "a weight below a half": ({"weight": Decimal("0.499")}, "spec.weight"),
    "a weight above ten": ({"weight": Decimal("10.001")}, "spec.weight"),
    "no weight at all": ({"weight": 0}, "spec.weight"),
    "a negative weight": ({"weight": -1}, "spec.weight"),
    "a weight in words": ({"weight": "2"}, "spec.weight"),
    "a weight too fine": ({"weight": Decimal("1.0005")}, "spec.weight"),
    "a pool that is not there": ({"quota": {"pools": ["nowhere"]}}, "spec.quota.pools"),
    "a pool that is no name": ({"quota": {"pools": ["../x"]}}, "spec.quota.pools"),
    "an unknown field": ({"quotas": {}}, "spec.quotas"),
    "an unknown tier": ({"tier": "gold"}, "spec.tier"),
    "an unknown policy": ({"policy": "beg"}, "spec.policy"),
    "a rate of nothing": ({"rate": {"perSecond": 0}}, "spec.rate.perSecond"),
    "a burst of less than one": ({"burst": {"factor": Decimal("0.5")}}, "spec.burst.factor"),
    "a threshold above the whole": ({"budget": {"perMonth": 1, "thresholds": [101]}}, "spec.budget.thresholds[0]"),
    "a budget of nothing": ({"budget": {"perMonth": 0}}, "spec.budget.perMonth"),
    "a deadline that is past": ({"sla": 0}, "spec.sla"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_meant_is_named_where_it_stands(case: str) -> None:
    spec, field = BAD[case]
    assert any(name.startswith(field) for name in faults(**spec)), faults(**spec)


def test_a_number_below_zero_is_told_its_bounds() -> None:
    for below in (-1, Decimal("-0.5")):
        assert "expected 0.5 to 10" in faults(weight=below)["spec.weight"]


def test_all_faults_come_at_once() -> None:
    found = faults(
        weight=11,
        policy="beg",
        quota={"cpu": -1, "jobs": 10**30, "pools": ["nowhere", "local"]},
        burst={"span": 0},
        rate={"perSecond": 0},
    )
    assert set(found) == {
        "spec.weight", "spec.policy", "spec.quota.cpu", "spec.quota.jobs", "spec.quota.pools", "spec.burst.span",
        "spec.rate.perSecond",
    }  # fmt: skip
    assert found["spec.weight"] == "expected 0.5 to 10"
    assert "gpu, local" in found["spec.quota.pools"]


@given(
    st.integers(500, 10_000),
    st.none() | st.integers(0, 10**9 - 1),
    st.none() | st.integers(0, 10**7),
    st.integers(1000, 10_000),
    st.none() | st.integers(1, 10**15),
)
def test_what_is_written_out_reads_as_the_same(
    weight: int, cpu: int | None, jobs: int | None, factor: int, budget: int | None
) -> None:
    spec: dict[str, Any] = {
        "weight": Decimal(weight) / 1000,
        "quota": {"cpu": None if cpu is None else f"{cpu}m", "jobs": jobs},
        "burst": {"factor": Decimal(factor) / 1000},
        "budget": None if budget is None else {"perMonth": budget},
    }
    made = read(**spec)
    shown = tenant_manifest(made, status={"x": 1}, created_at=0)
    assert read_tenant(shown, pools=POOLS) == made


def test_a_change_replaces_what_it_names_and_leaves_the_rest() -> None:
    before = {"spec": {"weight": 1, "quota": {"cpu": "4", "jobs": 10}}}
    assert merged(before, {"spec": {"quota": {"jobs": None}}}) == {
        "spec": {"weight": 1, "quota": {"cpu": "4", "jobs": None}}
    }
    assert merged(before, []) == []
