"""Costs, bursts, budgets and prices through the front door: what a member sees, what an admin may, and every refusal's numbers."""

from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from tests.api.home import DEADLINE_SECONDS, ApiHome, manifest
from windlass.core.model.ids import TenantId
from windlass.core.model.money import Micros
from windlass.core.model.resources import Resources
from windlass.core.model.tenant import Budget, BurstPolicy, Quota, QuotaPolicy, Tenant
from windlass.wire import money
from windlass.wire.schema import Problem

pytestmark = pytest.mark.anyio

LOCAL = TenantId("local")


async def become(api: ApiHome, tenant: Tenant) -> None:
    brain = api.home.plane.brain
    await brain.decide(lambda now: brain.world.set_tenant(tenant, now=now))


async def dear(api: ApiHome) -> None:
    """A core costs a million units an hour: a run of milliseconds is worth something."""
    prices = {"every": {"coreHour": 10**12, "gigabyteHour": 0}}
    answer = await api.client.put("/api/v1/prices", json=prices, headers=api.bearer(roles=("admin",)))
    assert answer.status_code == 200, answer.text


async def test_one_more_than_the_quota_is_429_with_code_numbers_and_when_to_come_back(api: ApiHome) -> None:
    await become(api, Tenant(id=LOCAL, policy=QuotaPolicy.REJECT, quota=Quota(jobs=2)))
    for _ in range(2):
        await api.submit("true", suspend=True)
    before = await api.trace()
    answer = await api.client.post("/api/v1/jobs", json=manifest("true"))
    problem = answer.json()
    Problem.model_validate(problem)
    assert (answer.status_code, problem["code"]) == (429, "quota-jobs")
    assert problem["limits"] == [{"code": "quota-jobs", "used": 2, "asked": 1, "limit": 2, "unit": "jobs"}]
    assert "2 of 2 jobs used" in problem["detail"]
    assert int(answer.headers["retry-after"]) >= 1
    assert await api.trace() == before


async def test_a_thousand_at_once_against_a_limit_of_ten_leave_exactly_ten(api: ApiHome) -> None:
    await become(api, Tenant(id=LOCAL, policy=QuotaPolicy.REJECT, quota=Quota(jobs=10)))
    answers: list[tuple[int, str]] = []

    async def one() -> None:
        answer = await api.client.post("/api/v1/jobs", json=manifest("sleep 600"))
        answers.append((answer.status_code, answer.json().get("code", "")))

    async with anyio.create_task_group() as tasks:
        for _ in range(1000):
            tasks.start_soon(one)
    assert sorted(set(answers)) == [(201, ""), (429, "quota-jobs")]
    assert answers.count((201, "")) == 10


async def test_a_batch_over_the_quota_is_refused_whole(api: ApiHome) -> None:
    await become(api, Tenant(id=LOCAL, policy=QuotaPolicy.REJECT, quota=Quota(jobs=3)))
    before = await api.trace()
    answer = await api.client.post("/api/v1/jobs/bulk", json={"items": [manifest("true") for _ in range(4)]})
    assert (answer.status_code, answer.json()["code"]) == (429, "quota-jobs")
    assert await api.trace() == before


async def test_a_waiting_job_says_which_limit_of_its_tenant_it_waits_for(api: ApiHome) -> None:
    await become(api, Tenant(id=LOCAL, quota=Quota(jobs=1)))
    running = await api.submit("sleep 600")
    await api.until(running["metadata"]["uid"], "RUNNING")
    held = await api.submit("true")
    with anyio.fail_after(DEADLINE_SECONDS):
        while not (job := await _job(api, held))["status"]["waiting"]:
            await anyio.lowlevel.checkpoint()
    assert job["status"]["waiting"] == ["quota-jobs: 1 of 1 jobs used, 1 more asked for"]
    await api.client.post(f"/api/v1/jobs/{running['metadata']['uid']}/cancel")
    assert (await api.until(held["metadata"]["uid"]))["status"]["state"] == "SUCCEEDED"


async def test_a_finished_run_is_in_the_ledger_once_and_its_job_shows_its_cost(api: ApiHome) -> None:
    await dear(api)
    made = await api.submit("sleep 0.05")
    over = await api.until(made["metadata"]["uid"])
    assert over["status"]["cost"] > 0
    for by in ("tenant", "pool", "day", "job"):
        answer = (await api.client.get("/api/v1/cost", params={"by": by})).json()
        money.CostAnswer.model_validate(answer)
        assert [item["cost"] for item in answer["items"]] == [over["status"]["cost"]], by
        assert answer["total"] == over["status"]["cost"]
        assert answer["items"][0]["runs"] == 1
    [item] = answer["items"]
    assert (item["job"], item["uid"]) == (made["metadata"]["name"], made["metadata"]["uid"])


async def test_what_runs_is_counted_until_now_and_the_end_takes_its_place(api: ApiHome) -> None:
    await dear(api)
    made = await api.submit("sleep 600")
    uid = made["metadata"]["uid"]
    await api.until(uid, "RUNNING")
    with anyio.fail_after(DEADLINE_SECONDS):
        while not (live := (await api.client.get("/api/v1/cost")).json())["total"]:
            await anyio.lowlevel.checkpoint()
    assert live["items"][0]["liveCost"] == live["total"] > 0
    assert (await _job(api, made))["status"]["cost"] >= live["total"]
    await api.client.post(f"/api/v1/jobs/{uid}/cancel")
    over = await api.until(uid)
    ended = (await api.client.get("/api/v1/cost")).json()
    assert (ended["total"], ended["items"][0]["liveCost"]) == (over["status"]["cost"], 0)


async def test_a_deleted_job_was_paid_for_all_the_same(api: ApiHome) -> None:
    await dear(api)
    made = await api.submit("sleep 0.05", name="gone")
    over = await api.until(made["metadata"]["uid"])
    await api.client.delete("/api/v1/jobs/gone")
    answer = (await api.client.get("/api/v1/cost", params={"by": "job"})).json()
    assert [(item["job"], item["cost"]) for item in answer["items"]] == [("gone", over["status"]["cost"])]


async def test_a_stored_volume_is_paid_for_until_it_goes_beside_the_runs_of_its_job(api: ApiHome) -> None:
    prices = {"every": {"coreHour": 0, "gigabyteHour": 0, "storedGigabyteHour": 10**12}}
    await api.client.put("/api/v1/prices", json=prices, headers=api.bearer(roles=("admin",)))
    made = await api.submit("true", name="kept", pvcSize="2G")
    over = await api.until(made["metadata"]["uid"])
    with anyio.fail_after(DEADLINE_SECONDS):
        while not (live := (await api.client.get("/api/v1/cost?by=job")).json())["total"]:
            await anyio.lowlevel.checkpoint()
    [item] = live["items"]
    assert (item["job"], item["runs"], over["status"]["cost"]) == ("kept", 1, 0)
    assert item["cost"] == item["storedCost"] == item["liveCost"] > 0
    await api.client.delete("/api/v1/volumes/artifacts-kept")
    ended = (await api.client.get("/api/v1/cost?by=job")).json()
    [item] = ended["items"]
    assert item["cost"] == item["storedCost"] >= live["total"]
    assert (item["job"], item["runs"], item["liveCost"]) == ("kept", 1, 0)
    assert (await api.client.get("/api/v1/cost?by=day")).json()["total"] == ended["total"]
    report = (await api.client.get("/api/v1/cost-optimization/reports")).json()
    money.SavingsAnswer.model_validate(report)
    assert report["stored"] == ended["total"]


async def test_a_tenant_sees_its_own_money_only(api: ApiHome) -> None:
    await dear(api)
    made = await api.submit("sleep 0.05")
    over = await api.until(made["metadata"]["uid"])
    other = api.bearer(tenant="other")
    assert (await api.client.get("/api/v1/cost", headers=other)).json()["total"] == 0
    for path in ("/api/v1/cost?tenant=local", "/api/v1/tenants/local/burst", "/api/v1/tenants/local/budget"):
        answer = await api.client.get(path, headers=other)
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found"), path
    assert (await api.client.post("/api/v1/tenants/local/burst", headers=other)).status_code == 404
    assert (await api.client.get("/api/v1/cost?all=true", headers=other)).status_code == 403
    assert (await api.client.put("/api/v1/prices", json={}, headers=other)).status_code == 403
    everything = await api.client.get("/api/v1/cost?all=true&by=tenant", headers=api.bearer(roles=("admin",)))
    assert [(item["tenant"], item["cost"]) for item in everything.json()["items"]] == [
        ("local", over["status"]["cost"])
    ]


async def test_what_a_deleted_tenant_spent_is_still_answered_to_admins(api: ApiHome) -> None:
    await dear(api)
    admin, theirs = api.bearer(roles=("admin",)), api.bearer(tenant="other")
    answer = await api.client.post("/api/v1/jobs", json=manifest("sleep 0.05"), headers=theirs)
    job = f"/api/v1/jobs/{answer.json()['metadata']['uid']}"
    with anyio.fail_after(DEADLINE_SECONDS):
        while (over := (await api.client.get(job, headers=theirs)).json())["status"]["state"] != "SUCCEEDED":
            await anyio.lowlevel.checkpoint()
    assert (await api.client.delete(job, headers=theirs)).is_success
    assert (await api.client.delete("/api/v1/tenants/other", headers=admin)).status_code == 202
    kept = await api.client.get("/api/v1/cost?tenant=other", headers=admin)
    assert (kept.status_code, kept.json()["total"]) == (200, over["status"]["cost"])
    assert (await api.client.get("/api/v1/cost-optimization/reports?tenant=other", headers=admin)).status_code == 200
    assert (await api.client.get("/api/v1/cost?tenant=never", headers=admin)).status_code == 404
    assert (await api.client.get("/api/v1/cost?tenant=other")).status_code == 404


async def test_a_session_that_is_asked_for_opens_is_listed_and_ends(api: ApiHome) -> None:
    await become(api, Tenant(id=LOCAL, quota=Quota(jobs=2)))
    opened = await api.client.post("/api/v1/tenants/local/burst")
    assert opened.status_code == 201, opened.text
    money.BurstItem.model_validate(opened.json())
    assert (opened.json()["openedBy"], opened.json()["priceFactor"]) == ("request", 1.5)
    again = await api.client.post("/api/v1/tenants/local/burst")
    assert (again.status_code, again.json()["code"]) == (409, "burst-open")
    made = [await api.submit("sleep 600") for _ in range(3)]
    for one in made:
        await api.until(one["metadata"]["uid"], "RUNNING")
    listed = (await api.client.get("/api/v1/tenants/local/burst")).json()
    money.BurstList.model_validate(listed)
    assert [(item["state"], item["runs"]) for item in listed["items"]] == [("open", 1)]
    ended = await api.client.delete("/api/v1/tenants/local/burst")
    assert ended.json()["state"] == "closed"
    cooling = await api.client.post("/api/v1/tenants/local/burst")
    assert (cooling.status_code, cooling.json()["code"]) == (429, "burst-cooldown")
    assert 1790 <= int(cooling.headers["retry-after"]) <= 1800


async def test_a_session_takes_no_wishes_and_an_unknown_field_opens_none(api: ApiHome) -> None:
    before = await api.trace()
    refused = await api.client.post("/api/v1/tenants/local/burst", json={"x": 1})
    assert (refused.status_code, [fault["field"] for fault in refused.json()["faults"]]) == (400, ["x"])
    assert await api.trace() == before
    assert (await api.client.post("/api/v1/tenants/local/burst", json={})).status_code == 201
    kept = await api.client.request("DELETE", "/api/v1/tenants/local/burst", json={"session": "another"})
    assert (kept.status_code, [fault["field"] for fault in kept.json()["faults"]]) == (400, ["body"])
    assert (await api.client.delete("/api/v1/tenants/local/burst")).status_code == 200


async def test_a_full_quota_opens_a_session_by_policy_and_its_price_is_in_the_ledger(api: ApiHome) -> None:
    await dear(api)
    burst = BurstPolicy(factor=2000)
    await become(api, Tenant(id=LOCAL, policy=QuotaPolicy.BURST, quota=Quota(jobs=1), burst=burst))
    made = [await api.submit("sleep 0.05") for _ in range(2)]
    over = [await api.until(one["metadata"]["uid"]) for one in made]
    [session] = (await api.client.get("/api/v1/tenants/local/burst")).json()["items"]
    assert session["openedBy"] == "policy"
    costs = (await api.client.get("/api/v1/cost")).json()
    assert costs["total"] == sum(job["status"]["cost"] for job in over)
    assert costs["items"][0]["burstCost"] == session["cost"] > 0


async def test_a_budget_shows_what_is_spent_and_what_was_passed(api: ApiHome) -> None:
    await dear(api)
    await become(api, Tenant(id=LOCAL, budget=Budget(per_month=Micros(10))))
    made = await api.submit("sleep 0.05")
    over = await api.until(made["metadata"]["uid"])
    answer = (await api.client.get("/api/v1/tenants/local/budget")).json()
    money.BudgetAnswer.model_validate(answer)
    assert (answer["spent"], answer["perMonth"]) == (over["status"]["cost"], 10)
    assert [one["percent"] for one in answer["passed"]] == [50, 75, 90, 100]


async def test_a_hard_budget_ends_what_runs_and_refuses_what_comes(api: ApiHome) -> None:
    await dear(api)
    await become(api, Tenant(id=LOCAL, budget=Budget(per_month=Micros(10_000_000), is_hard=True)))
    made = await api.submit("sleep 600")
    over = await api.until(made["metadata"]["uid"])
    assert (over["status"]["state"], over["status"]["reason"]) == ("FAILED", "BudgetExceeded")
    assert "artifacts are kept" in over["status"]["message"]
    refused = await api.client.post("/api/v1/jobs", json=manifest("true"))
    assert (refused.status_code, refused.json()["code"]) == (429, "budget-spent")


async def test_a_job_with_a_maximum_is_stopped_at_it_with_a_clear_reason(api: ApiHome) -> None:
    await dear(api)
    made = await api.submit("sleep 600", maxCost=10_000_000)
    over = await api.until(made["metadata"]["uid"])
    assert (over["status"]["state"], over["status"]["reason"]) == ("FAILED", "CostExceeded")
    events = (await api.client.get(f"/api/v1/jobs/{made['metadata']['uid']}/events")).json()["items"]
    assert "CostWarning" in [event["kind"] for event in events]


async def test_unknown_pools_and_prices_that_cannot_be_meant_are_400_and_change_nothing(api: ApiHome) -> None:
    admin = api.bearer(roles=("admin",))
    before = await api.trace()
    unknown = await api.client.put("/api/v1/prices", json={"every": {}, "pools": {"nowhere": {}}}, headers=admin)
    assert (unknown.status_code, unknown.json()["code"]) == (400, "pool-unknown")
    broken = {"every": {"coreHour": -1, "gpuHour": 10**16, "gold": 1}, "tiers": {"free": -1, "royal": 1}}
    answer = await api.client.put("/api/v1/prices", json=broken, headers=admin)
    assert answer.status_code == 400
    fields = {fault["field"] for fault in answer.json()["faults"]}
    assert {"every.coreHour", "every.gpuHour", "every.gold", "tiers.free", "tiers.royal"} <= fields
    wrong_day = await api.client.get("/api/v1/cost?since=2026-02-30")
    assert (wrong_day.status_code, wrong_day.json()["faults"][0]["field"]) == (400, "since")
    assert await api.trace() == before


async def test_prices_are_put_back_to_the_list_only_by_who_says_so(api: ApiHome) -> None:
    await dear(api)
    admin = api.bearer(roles=("admin",))
    for body in ({}, {"tiers": {"free": 50}}):
        refused = await api.client.put("/api/v1/prices", json=body, headers=admin)
        assert (refused.status_code, refused.json()["faults"][0]["field"]) == (400, "every")
        assert (await api.client.get("/api/v1/prices")).json()["every"]["coreHour"] == 10**12
    assert (await api.client.put("/api/v1/prices", json={"every": {}}, headers=admin)).status_code == 200
    assert (await api.client.get("/api/v1/prices")).json()["every"]["coreHour"] == 50_000


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("cost?since=2026-11-15&until=2026-11-14", "since"),
        ("cost?since=2999-01-01", "since"),
        ("cost?all=true&tenant=local", "all"),
        ("cost-optimization/reports?all=true&tenant=local", "all"),
        ("audit?since=2026-11-15T12:00:00Z&until=2026-11-15T12:00:00%2B01:00", "since"),
        ("audit/export?since=2026-11-15T12:00:00Z&until=2026-11-14T12:00:00Z", "since"),
    ],
)
async def test_days_in_reverse_and_all_beside_one_are_refused_by_name(api: ApiHome, query: str, field: str) -> None:
    answer = await api.client.get(f"/api/v1/{query}", headers=api.bearer(roles=("admin",)))
    assert (answer.status_code, [fault["field"] for fault in answer.json()["faults"]]) == (400, [field])


async def test_a_job_for_a_pool_that_is_not_there_is_400_and_told_which_are(api: ApiHome) -> None:
    before = await api.trace()
    answer = await api.client.post("/api/v1/jobs", json=manifest("true", pool="nowhere"))
    assert (answer.status_code, answer.json()["code"]) == (400, "fits-nowhere")
    expected = {"field": "spec.pool", "message": "no node is in pool nowhere; there are: local"}
    assert answer.json()["faults"] == [expected]
    assert "windlass get pools" in answer.json()["hint"]
    assert await api.trace() == before


async def test_a_report_counts_the_runs_it_rests_on_and_claims_nothing_of_those_nobody_measured(api: ApiHome) -> None:
    await dear(api)
    made = await api.submit("sleep 0.05", resources={"cpu": "2", "memory": "1Gi"})
    await api.until(made["metadata"]["uid"])
    report = (await api.client.get("/api/v1/cost-optimization/reports")).json()
    money.SavingsAnswer.model_validate(report)
    assert (report["runs"], report["measured"], report["items"]) == (1, 0, [])


async def test_a_job_larger_than_its_tenants_quota_is_400_with_every_fault(api: ApiHome) -> None:
    small = Quota(resources=Resources(cpu_millis=500, memory_bytes=64 << 20))
    await become(api, replace(Tenant(id=LOCAL), quota=small))
    answer = await api.client.post("/api/v1/jobs", json=manifest("true", resources={"cpu": "1", "memory": "128Mi"}))
    assert (answer.status_code, answer.json()["code"]) == (400, "exceeds-quota")
    assert [fault["field"] for fault in answer.json()["faults"]] == ["spec.resources.cpu", "spec.resources.memory"]


async def _job(api: ApiHome, made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = (await api.client.get(f"/api/v1/jobs/{made['metadata']['uid']}")).json()
    return found


async def test_a_run_that_is_over_at_once_is_in_the_ledger_too(api: ApiHome) -> None:
    """In the millisecond it began, as some of these are."""
    await dear(api)
    made = [(await api.submit("true"))["metadata"]["uid"] for _ in range(50)]
    for uid in made:
        await api.until(uid)
    [item] = (await api.client.get("/api/v1/cost")).json()["items"]
    assert item["runs"] == len(made)
