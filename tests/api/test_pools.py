"""Pools over the API: strictly validated, an admin's to change, seen by whom they are open to; nodes held back."""

from typing import Any

import anyio
import pytest

from tests.api.home import DEADLINE_SECONDS, ApiHome, manifest
from tests.core.pool_home import node_of
from windlass.core.model.ids import Millis, NodeId, PoolId
from windlass.core.model.node import NodeState
from windlass.core.world.workers import drain, join_node
from windlass.testing.provisioner import MemoryProvisioner
from windlass.wire.pooling import DeletedPool, PoolManifest, PoolMetrics, ScalingHistory

pytestmark = pytest.mark.anyio

POOLS = "/api/v1/pools"
STATES = ("idle", "busy", "coming", "ending")


def document(name: str = "grow", **spec: Any) -> dict[str, Any]:
    scaling = {"max": 2, "worker": {"cpu": "100m", "memory": "64Mi"}}
    said = {"kind": "dynamic", "scaling": scaling, **spec}
    return {"apiVersion": "windlass.dev/v1", "kind": "Pool", "metadata": {"name": name}, "spec": said}


@pytest.fixture
def admin(api: ApiHome) -> dict[str, str]:
    return api.bearer(roles=("admin",))


async def test_a_pool_is_created_shown_and_deleted(api: ApiHome, admin: dict[str, str]) -> None:
    made = await api.client.post(POOLS, json=document(prices={"coreHour": 7}), headers=admin)
    assert (made.status_code, made.headers["location"]) == (201, f"{POOLS}/grow")
    PoolManifest.model_validate_json(made.content)
    assert made.json()["spec"]["prices"]["coreHour"] == 7
    again = await api.client.post(POOLS, json=document(), headers=admin)
    assert (again.status_code, again.json()["code"]) == (409, "pool-exists")
    gone = await api.client.delete(f"{POOLS}/grow", headers=admin)
    assert gone.status_code == 202
    assert (await api.client.get(f"{POOLS}/grow")).status_code == 404


async def test_a_manifest_that_was_read_can_be_applied_and_changes_nothing(api: ApiHome, admin: dict[str, str]) -> None:
    spec = document()["spec"]["scaling"] | {"schedules": [{"cron": "0 8 * * 1-5", "workers": 1}], "max": 1}
    await api.client.put(f"{POOLS}/grow", json=document(scaling=spec, paused=True), headers=admin)
    read = (await api.client.get(f"{POOLS}/grow", headers=admin)).json()
    before = api.home.plane.brain.world.number
    again = await api.client.put(f"{POOLS}/grow", json=read, headers=admin)
    assert (again.status_code, again.json()["spec"]) == (200, read["spec"])
    assert api.home.plane.brain.world.number == before


async def test_a_pools_metrics_tell_its_size_its_load_and_what_held_it_back(
    api: ApiHome, admin: dict[str, str]
) -> None:
    brain, read_model, world = api.home.plane.brain, api.home.plane.read_model, api.home.plane.brain.world
    scaling = {"max": 2, "worker": {"cpu": "1", "memory": "64Mi"}, "triggers": []}
    await api.client.post(POOLS, json=document(paused=True, scaling=scaling), headers=admin)
    for workers in (2, 2):
        await api.client.post(f"{POOLS}/grow/scale", json={"workers": workers}, headers=admin)
    first, second = sorted(world.tables.fleet.workers.values(), key=lambda worker: worker.id)
    await brain.decide(lambda now: join_node(world, node_of(first, world), now=now))
    busy = {"cpu": "500m", "memory": "16Mi", "gpu": 0}
    await api.submit("sleep", "99999", name="one", pool="grow", resources=busy)
    await api.until("one", "SCHEDULED")
    await brain.decide(lambda now: drain(world, first.id, now=now))
    await api.client.post(f"{POOLS}/grow/scale", json={"workers": 2}, headers=admin)
    with anyio.fail_after(DEADLINE_SECONDS):
        while not world.tables.fleet.workers[second.id].problem:
            await read_model.beyond(read_model.revision)
    assert await read_model.caught_up(timeout=DEADLINE_SECONDS)
    text = (await api.client.get("/metrics")).text
    told = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("windlass_pool_"))
    workers = {state: told[f'windlass_pool_workers{{pool="grow",state="{state}"}}'] for state in STATES}
    assert workers == {"idle": "0.0", "busy": "0.0", "coming": "1.0", "ending": "1.0"}
    assert told['windlass_pool_workers_max{pool="grow"}'] == "2.0"
    assert told['windlass_pool_scaling_total{direction="up",pool="grow"}'] == "1.0"
    assert told['windlass_pool_held_total{by="maximum",pool="grow"}'] == "1.0"
    assert told['windlass_pool_provisioned_total{outcome="ready",pool="grow"}'] == "1.0"
    assert float(told['windlass_pool_refusals_total{pool="grow"}']) >= 1, "nobody here makes the second one"


async def test_what_a_worker_costs_by_the_hour_is_in_the_one_ledger(api: ApiHome, admin: dict[str, str]) -> None:
    plane, world = api.home.plane, api.home.plane.brain.world
    plane.autoscaler._provisioners = {"slice": MemoryProvisioner()}
    made = document(paused=True, tenants=["local"], prices={"workerHour": 3_600_000_000})
    assert (await api.client.post(POOLS, json=made, headers=admin)).status_code == 201
    await api.client.post(f"{POOLS}/grow/scale", json={"workers": 1}, headers=admin)
    (worker,) = world.tables.fleet.workers.values()
    await plane.brain.decide(lambda now: join_node(world, node_of(worker, world), now=now))
    await plane.clock.sleep_until(Millis(plane.clock.now() + 2))  # it was there for some time
    await plane.brain.decide(lambda now: drain(world, worker.id, now=now))
    with anyio.fail_after(DEADLINE_SECONDS):
        while world.tables.fleet.workers:
            await plane.read_model.beyond(plane.read_model.revision)
    gone_at = await plane.brain.committer.durable(world.number)  # the World lets go of it before that is on disk
    assert await plane.read_model.caught_up(gone_at, timeout=DEADLINE_SECONDS)
    (item,) = (await api.client.get("/api/v1/cost", params={"by": "pool"})).json()["items"]
    spent = sum(one.cost for one in world.tables.totals.values() if one.tenant == "local")
    assert (item["pool"], item["runs"], item["cost"]) == ("grow", 0, spent)
    assert item["cost"] > 0
    assert (await api.client.get("/api/v1/cost", headers=api.bearer(tenant="other"))).json()["total"] == 0


async def test_every_fault_is_named_at_once(api: ApiHome, admin: dict[str, str]) -> None:
    bad = document(
        scaling={
            "max": -1,
            "worker": {"cpu": "a lot"},
            "schedules": [{"cron": "never", "workers": 1}],
            "triggers": [{"measure": "mood", "up": 1, "down": 0}],
            "idle": "0s",
        },
        owner="me",
    )
    refused = await api.client.post(POOLS, json=bad, headers=admin)
    fields = {fault["field"] for fault in refused.json()["faults"]}
    assert refused.status_code == 400
    assert fields >= {
        "spec.owner",
        "spec.scaling.max",
        "spec.scaling.worker.cpu",
        "spec.scaling.worker.memory",
        "spec.scaling.schedules[0].cron",
        "spec.scaling.triggers[0].measure",
        "spec.scaling.idle",
    }


async def test_marks_that_cannot_be_meant_are_refused(api: ApiHome, admin: dict[str, str]) -> None:
    triggers = [{"measure": "cpu", "up": 30, "down": 80}, {"measure": "memory", "up": 500, "down": 1}]
    scaling = document()["spec"]["scaling"] | {"triggers": triggers}
    refused = await api.client.post(POOLS, json=document(scaling=scaling), headers=admin)
    assert (refused.status_code, refused.json()["code"]) == (400, "pool-invalid")
    fields = [fault["field"] for fault in refused.json()["faults"]]
    assert fields == ["spec.scaling.triggers[0].down", "spec.scaling.triggers[1].up"]


async def test_more_slices_than_the_machine_has_are_refused(api: ApiHome, admin: dict[str, str]) -> None:
    scaling = {"max": 1000, "worker": {"cpu": "100", "memory": "64Mi"}}
    refused = await api.client.post(POOLS, json=document(scaling=scaling), headers=admin)
    assert (refused.status_code, refused.json()["code"]) == (400, "pool-invalid")
    assert "cores too many" in refused.json()["faults"][0]["message"]


async def test_only_admins_change_pools_and_nodes(api: ApiHome, admin: dict[str, str]) -> None:
    await api.client.post(POOLS, json=document(), headers=admin)
    node = "/api/v1/nodes/n1"
    answers = [
        await api.client.post(POOLS, json=document("other")),
        await api.client.put(f"{POOLS}/grow", json=document()),
        await api.client.patch(f"{POOLS}/grow", json={"spec": {"paused": True}}),
        await api.client.delete(f"{POOLS}/grow"),
        await api.client.post(f"{POOLS}/grow/scale", json={"workers": 1}),
        *[await api.client.post(f"{node}/{verb}") for verb in ("cordon", "uncordon", "drain")],
    ]
    assert {answer.status_code for answer in answers} == {403}
    assert api.home.plane.brain.world.tables.nodes[NodeId("n1")].state is NodeState.ACTIVE


async def test_a_pool_of_other_tenants_is_as_if_it_were_not_there(api: ApiHome, admin: dict[str, str]) -> None:
    other = {"apiVersion": "windlass.dev/v1", "kind": "Tenant", "metadata": {"name": "acme"}}
    assert (await api.client.post("/api/v1/tenants", json=other, headers=admin)).status_code == 201
    await api.client.post(POOLS, json=document(tenants=["acme"]), headers=admin)
    assert (await api.client.get(f"{POOLS}/grow")).status_code == 404
    assert (await api.client.get(POOLS)).json()["items"] == []
    assert (await api.client.get(f"{POOLS}/grow/scaling/history")).status_code == 404
    assert len((await api.client.get(POOLS, headers=admin)).json()["items"]) == 1


async def test_a_pool_for_tenants_that_are_not_there_is_refused_and_stays_as_it_is(
    api: ApiHome, admin: dict[str, str]
) -> None:
    named = document(tenants=["nobody", "local", "no-one"])
    refused = await api.client.post(POOLS, json=named, headers=admin)
    assert (refused.status_code, refused.json()["code"]) == (400, "pool-invalid")
    faults = [(one["field"], one["message"].partition(";")[0]) for one in refused.json()["faults"]]
    assert faults == [("spec.tenants", "there is no tenant 'no-one'"), ("spec.tenants", "there is no tenant 'nobody'")]
    assert (await api.client.get(f"{POOLS}/grow", headers=admin)).status_code == 404
    await api.client.post(POOLS, json=document(), headers=admin)
    typo = {"spec": {"tenants": ["lokal"]}}
    assert (await api.client.patch(f"{POOLS}/grow", json=typo, headers=admin)).status_code == 400
    assert (await api.client.get(f"{POOLS}/grow")).json()["spec"]["tenants"] == []


async def test_a_tenant_that_went_may_stay_named(api: ApiHome, admin: dict[str, str]) -> None:
    other = {"apiVersion": "windlass.dev/v1", "kind": "Tenant", "metadata": {"name": "acme"}}
    await api.client.post("/api/v1/tenants", json=other, headers=admin)
    await api.client.post(POOLS, json=document(tenants=["acme"]), headers=admin)
    assert (await api.client.delete("/api/v1/tenants/acme", headers=admin)).status_code == 202
    changed = await api.client.patch(f"{POOLS}/grow", json={"spec": {"paused": True}}, headers=admin)
    assert (changed.status_code, changed.json()["spec"]["tenants"]) == (200, ["acme"])


async def test_what_a_pool_could_never_do_is_refused(api: ApiHome, admin: dict[str, str]) -> None:
    still = {"apiVersion": "windlass.dev/v1", "kind": "Pool", "metadata": {"name": "local"}, "spec": {"kind": "static"}}
    assert (await api.client.post(POOLS, json=still, headers=admin)).status_code == 201
    paused = await api.client.patch(f"{POOLS}/local", json={"spec": {"paused": True}}, headers=admin)
    assert (paused.status_code, paused.json()["faults"][0]["field"]) == (400, "spec.paused")
    scaling = document()["spec"]["scaling"] | {"spares": 5, "max": 2}
    spares = await api.client.post(POOLS, json=document(scaling=scaling), headers=admin)
    assert (spares.status_code, spares.json()["faults"][0]["field"]) == (400, "spec.scaling.spares")
    scaling = document()["spec"]["scaling"] | {"schedules": [{"cron": "0 8 * * *", "workers": 7}], "max": 2}
    planned = await api.client.post(POOLS, json=document(scaling=scaling), headers=admin)
    assert planned.status_code == 400
    assert planned.json()["faults"] == [
        {"field": "spec.scaling.schedules[0].workers", "message": "is 7; expected no more than the maximum, 2"}
    ]
    kept = await api.client.delete(f"{POOLS}/local", headers=admin)
    assert (kept.status_code, kept.json()["code"]) == (409, "pool-busy")
    assert kept.json()["hint"].startswith("it stays for as long as it has nodes")


@pytest.mark.parametrize("label", [("a", "b c!"), ("a b", "c"), ("windlass.dev/a", "b"), ("a", "b" * 64)])
async def test_a_label_that_no_job_could_ask_for_is_refused(
    api: ApiHome, admin: dict[str, str], label: tuple[str, str]
) -> None:
    labelled = await api.client.post(POOLS, json=document(labels=dict([label])), headers=admin)
    assert labelled.status_code == 400
    (fault,) = labelled.json()["faults"]
    asked = await api.client.post("/api/v1/jobs", json=manifest("true", nodeSelector=dict([label])))
    assert asked.json()["faults"][0]["message"] == fault["message"], "in the same words"


async def test_scaling_by_hand_is_told_in_the_history(api: ApiHome, admin: dict[str, str]) -> None:
    await api.client.post(POOLS, json=document(paused=True), headers=admin)
    step = await api.client.post(f"{POOLS}/grow/scale", json={"workers": 2}, headers=admin)
    assert (step.status_code, step.json()["by"], step.json()["rule"]) == (200, 2, "by hand")
    told = await api.client.get(f"{POOLS}/grow/scaling/history")
    assert [item["by"] for item in told.json()["items"]] == [2]
    ScalingHistory.model_validate_json(told.content)
    seen = await api.client.get(f"{POOLS}/grow/metrics")
    PoolMetrics.model_validate_json(seen.content)
    assert seen.json()["coming"] == 2
    refused = await api.client.post(f"{POOLS}/grow/scale", json={"workers": 3}, headers=admin)
    assert (refused.status_code, refused.json()["code"]) == (400, "pool-bounds")
    busy = await api.client.delete(f"{POOLS}/grow", headers=admin)
    assert (busy.status_code, busy.json()["code"]) == (409, "pool-busy")


async def test_a_lowered_maximum_gives_the_surplus_back_and_tells_it_in_the_history(
    api: ApiHome, admin: dict[str, str]
) -> None:
    await api.client.post(POOLS, json=document(paused=True), headers=admin)
    await api.client.post(f"{POOLS}/grow/scale", json={"workers": 2}, headers=admin)
    await api.client.patch(f"{POOLS}/grow", json={"spec": {"scaling": {"max": 1}}}, headers=admin)
    seen = (await api.client.get(f"{POOLS}/grow/metrics")).json()
    assert (seen["coming"], seen["ending"]) == (1, 1)
    newest, _ = (await api.client.get(f"{POOLS}/grow/scaling/history")).json()["items"]
    assert (newest["by"], newest["rule"]) == (-1, "more than the maximum, 1")


async def test_a_deleted_pool_leaves_the_quotas_that_name_it_and_says_whose(
    api: ApiHome, admin: dict[str, str]
) -> None:
    await api.client.post(POOLS, json=document(paused=True), headers=admin)
    acme = {
        "apiVersion": "windlass.dev/v1",
        "kind": "Tenant",
        "metadata": {"name": "acme"},
        "spec": {"quota": {"pools": ["local", "grow"]}},
    }
    assert (await api.client.post("/api/v1/tenants", json=acme, headers=admin)).status_code == 201
    gone = await api.client.delete(f"{POOLS}/grow", headers=admin)
    assert DeletedPool.model_validate_json(gone.content).left_quotas_of == ["acme"]
    left = await api.client.get("/api/v1/tenants/acme", headers=admin)
    assert left.json()["spec"]["quota"]["pools"] == ["local"]


async def test_a_pool_made_anew_has_no_history_of_its_namesake(api: ApiHome, admin: dict[str, str]) -> None:
    """Which may have been another tenant's."""
    clock, history = api.home.plane.clock, f"{POOLS}/grow/scaling/history"
    await api.client.post(POOLS, json=document(paused=True, tenants=["local"]), headers=admin)
    await api.client.post(f"{POOLS}/grow/scale", json={"workers": 0}, headers=admin)
    assert len((await api.client.get(history, headers=admin)).json()["items"]) == 1
    await api.client.delete(f"{POOLS}/grow", headers=admin)
    await clock.sleep_until(Millis(clock.now() + 1))
    await api.client.post(POOLS, json=document(paused=True), headers=admin)
    assert (await api.client.get(history, headers=admin)).json() == {"items": [], "next": None}
    await api.client.post(f"{POOLS}/grow/scale", json={"workers": 2}, headers=admin)
    assert [one["by"] for one in (await api.client.get(history, headers=admin)).json()["items"]] == [2]
    await api.client.patch(f"{POOLS}/grow", json={"spec": {"scaling": {"idle": 60}}}, headers=admin)
    assert len((await api.client.get(history, headers=admin)).json()["items"]) == 1, "changed is not made anew"


async def test_a_change_leaves_what_it_does_not_name(api: ApiHome, admin: dict[str, str]) -> None:
    await api.client.post(POOLS, json=document(prices={"coreHour": 7}), headers=admin)
    await api.client.patch(f"{POOLS}/grow", json={"spec": {"scaling": {"max": 1}}}, headers=admin)
    pool = api.home.plane.pools.find(PoolId("grow"))
    prices = api.home.plane.pools.prices(pool.id)
    assert pool.scaling is not None
    assert prices is not None
    assert (pool.scaling.workers_max, pool.scaling.worker.cpu_millis, prices.core_hour) == (1, 100, 7)


async def test_a_cordoned_node_takes_nothing_until_it_is_uncordoned(api: ApiHome, admin: dict[str, str]) -> None:
    cordoned = await api.client.post("/api/v1/nodes/n1/cordon", headers=admin)
    assert (cordoned.status_code, cordoned.json()) == (200, {"name": "n1", "state": "cordoned"})
    job = await api.submit("true")
    await api.client.post("/api/v1/nodes/n1/uncordon", headers=admin)
    assert (await api.until(job["metadata"]["uid"]))["status"]["state"] == "SUCCEEDED"
    absent = await api.client.post("/api/v1/nodes/n9/drain", headers=admin)
    assert absent.status_code == 404
