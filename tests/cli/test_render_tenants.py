"""The list of tenants, as people read it: what counts against the quota stands beside it, and what waits stands apart."""

from typing import Any

import pytest

from windlass.cli.render import tenants

NOW = 1_000.0
QUEUED = {"jobs": 33, "queued": 13, "runs": 20, "held": {"cpu": "20", "memory": "1Gi", "gpu": 0}}


@pytest.mark.parametrize(("policy", "counted"), [("reject", "33 of 40"), ("queue", "20 of 40"), ("burst", "20 of 40")])
def test_jobs_are_those_that_hold_the_quota_and_those_that_wait_stand_apart(policy: str, counted: str) -> None:
    spec: dict[str, Any] = {"tier": "standard", "weight": 1, "policy": policy, "quota": {"jobs": 40}}
    tenant: Any = {"metadata": {"name": "acme"}, "spec": spec, "status": QUEUED}
    row = dict(zip(tenants.TENANTS.headings, tenants.tenant_rows([tenant], NOW)[0], strict=True))
    assert (row["JOBS"], row["QUEUED"]) == (counted, "13")


def test_lists_inside_a_document_are_lines_and_an_empty_one_says_what_it_means() -> None:
    triggers = [{"measure": "cpu", "up": 80, "target": None}, {"measure": "depth", "up": 50, "target": 5}]
    spec = {"tenants": [], "paused": False, "scaling": {"triggers": triggers, "schedules": []}}
    assert list(tenants.flat(spec)) == [
        ("tenants", "any"),
        ("paused", "no"),
        ("scaling.triggers", "measure cpu, up 80"),
        ("scaling.triggers", "measure depth, up 50, target 5"),
        ("scaling.schedules", "none"),
    ]


def test_money_on_a_tenants_page_is_in_the_units_it_is_typed_in() -> None:
    spec = {"quota": {"costPerDay": 1000, "jobs": 5}, "budget": {"perMonth": 500_000}}
    shown = tenants.tenant_lines({"metadata": {"name": "vision"}, "spec": spec, "status": {}}, 0)  # type: ignore[typeddict-item]
    assert {line.split()[0]: line.split()[1] for line in shown if "." in line.split()[0]} == {
        "quota.costPerDay": "0.001",
        "quota.jobs": "5",
        "budget.perMonth": "0.5",
    }
