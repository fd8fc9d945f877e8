"""Queues, fairness and deadlines through the front door: what is shown, to whom, and what is refused."""

from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from tests.api.home import DEADLINE_SECONDS, ApiHome, manifest
from windlass.core.model.ids import NodeId, TenantId
from windlass.core.model.tenant import Quota, Tenant
from windlass.core.world.queues import queue_status
from windlass.wire import queues

pytestmark = pytest.mark.anyio

LOCAL, OTHER = TenantId("local"), TenantId("other")


async def become(api: ApiHome, tenant: Tenant) -> None:
    brain = api.home.plane.brain
    await brain.decide(lambda now: brain.world.set_tenant(tenant, now=now))


async def ask(api: ApiHome, path: str, **who: Any) -> dict[str, Any]:
    answer = await api.client.get(path, headers=api.bearer(**who))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def crowd(api: ApiHome) -> None:
    """One job of each tenant runs, the first tenant's first, and more wait because that is all they may have."""
    world = api.home.plane.brain.world
    for tenant in (LOCAL, OTHER):
        await become(api, Tenant(id=tenant, weight=1000 if tenant == LOCAL else 3000, quota=Quota(jobs=1)))
        headers = api.bearer(tenant=tenant)
        for at in range(3):
            body = manifest("sleep 600", name=f"{tenant}-{at}", priority=-at, expectedSeconds=60)
            answer = await api.client.post("/api/v1/jobs", json=body, headers=headers)
            assert answer.status_code == 201, answer.text
        with anyio.fail_after(DEADLINE_SECONDS):
            while not world.tables.queue.held(tenant):
                await anyio.lowlevel.checkpoint()


async def test_the_queue_is_shown_by_tenant_and_shape_with_its_head_and_what_it_waits_for(api: ApiHome) -> None:
    await crowd(api)
    found = await ask(api, "/api/v1/queues/status", roles=("admin",))
    queues.QueueStatus.model_validate(found)
    assert found["depth"] == 4
    assert {item["tenant"]: (item["depth"], item["head"]["name"], item["state"]) for item in found["items"]} == {
        "local": (2, "local-1", "held"),
        "other": (2, "other-1", "held"),
    }
    assert found["items"][0]["reasons"] == [{"reason": "quota-jobs: 1 of 1 jobs used, 1 more asked for", "nodes": 0}]
    assert all(item["oldestWaitSeconds"] >= 0 for item in found["items"])


async def test_a_shape_that_finds_no_place_is_parked_with_the_nodes_that_refused_it(api: ApiHome) -> None:
    cores = api.home.plane.brain.world.tables.places.capacity.cpu_millis // 1000
    running = await api.submit("sleep 600", resources={"cpu": cores})
    await api.until(running["metadata"]["uid"], "RUNNING")
    await api.submit("true", resources={"cpu": cores}, timeoutSeconds=60)
    await api.submit("true", resources={"cpu": cores})
    with anyio.fail_after(DEADLINE_SECONDS):
        while not api.home.plane.brain.world.tables.queue.parked():
            await anyio.lowlevel.checkpoint()
    (item,) = (await ask(api, "/api/v1/queues/status"))["items"]
    assert (item["state"], item["depth"]) == ("parked", 2)
    assert item["reasons"] == [{"reason": "cpu in use", "nodes": 1}]


async def test_a_node_that_is_too_small_by_now_is_not_said_to_be_in_use(api: ApiHome) -> None:
    brain = api.home.plane.brain
    node = brain.world.tables.nodes[NodeId("n1")]
    cores = node.capacity.cpu_millis // 1000
    await api.submit("true", name="large", resources={"cpu": cores}, suspend=True)
    smaller = replace(node, capacity=replace(node.capacity, cpu_millis=node.capacity.cpu_millis - 1000))
    await brain.decide(lambda now: brain.world.set_node(smaller, now=now))
    await api.client.post("/api/v1/jobs/large/release")
    with anyio.fail_after(DEADLINE_SECONDS):
        while not brain.world.tables.queue.parked():
            await anyio.lowlevel.checkpoint()
    (item,) = (await ask(api, "/api/v1/queues/status"))["items"]
    assert item["reasons"] == [{"reason": "cpu too small", "nodes": 1}]
    shown = await ask(api, "/api/v1/jobs/large")
    assert shown["status"]["waiting"] == ["cpu too small (1 node)"]


async def test_what_a_shape_lacks_is_told_as_the_nodes_are_now_and_not_as_they_were_when_it_was_parked(
    api: ApiHome,
) -> None:
    plane = api.home.plane
    cores = plane.brain.world.tables.places.capacity.cpu_millis // 1000
    running = await api.submit("sleep 600", resources={"cpu": cores})
    await api.until(running["metadata"]["uid"], "RUNNING")
    await api.submit("true", name="second", resources={"cpu": cores})

    async def told() -> list[str]:
        with anyio.fail_after(DEADLINE_SECONDS):
            while not plane.brain.world.tables.queue.parked():
                await anyio.lowlevel.checkpoint()
        (item,) = (await ask(api, "/api/v1/queues/status"))["items"]
        shown: list[str] = (await ask(api, "/api/v1/jobs/second"))["status"]["waiting"]
        assert shown == [f"{one['reason']} ({one['nodes']} node)" for one in item["reasons"]]
        return shown

    assert await told() == ["cpu in use (1 node)"]
    await plane.pools.cordon(NodeId("n1"))
    assert await told() == ["node cordoned (1 node)"]
    await plane.pools.uncordon(NodeId("n1"))
    assert await told() == ["cpu in use (1 node)"]


async def test_a_queue_at_its_limit_is_held_also_before_the_next_placing_has_found_out(api: ApiHome) -> None:
    """A limit that was lifted and set again frees the tenant until somebody tries to place: no moment may be shown in which
    it looks as if its next job were about to start."""
    await crowd(api)
    world, clock = api.home.plane.brain.world, api.home.plane.clock
    world.tables.queue.let_go(LOCAL)
    assert not world.tables.queue.held(LOCAL)
    [mine] = queue_status(world, LOCAL, now=clock.now())
    assert mine.held == (("quota-jobs: 1 of 1 jobs used, 1 more asked for", 0),)


async def test_a_member_sees_its_own_and_nothing_of_another(api: ApiHome) -> None:
    await crowd(api)
    for path in ("/api/v1/queues/status", "/api/v1/fairness"):
        mine = await ask(api, path)
        assert {item["tenant"] for item in mine["items"]} == {"local"}
        refused = await api.client.get(f"{path}?tenant=other")
        assert (refused.status_code, refused.json()["code"]) == (404, "not-found")
        theirs = await ask(api, f"{path}?tenant=other", roles=("admin",))
        assert {item["tenant"] for item in theirs["items"]} == {"other"}
        nobody = await api.client.get(f"{path}?tenant=nobody", headers=api.bearer(roles=("admin",)))
        assert nobody.status_code == 404
    assert (await ask(api, "/api/v1/queues/status"))["depth"] == 2


async def test_deserved_received_and_lag_add_up_and_follow_the_weights(api: ApiHome) -> None:
    await crowd(api)
    found = await ask(api, "/api/v1/fairness", roles=("admin",))
    queues.Fairness.model_validate(found)
    items = {item["tenant"]: item for item in found["items"]}
    assert {tenant: item["weight"] for tenant, item in items.items()} == {"local": 1.0, "other": 3.0}
    assert items["local"]["received"] == items["other"]["received"] > 0  # one run each, of one size
    assert all(item["lag"] == item["deserved"] - item["received"] for item in items.values())
    assert abs(sum(item["lag"] for item in items.values())) <= 3
    assert items["local"]["lag"] > 0 > items["other"]["lag"]  # it waited while the other was served alone
    window = await ask(api, "/api/v1/fairness?window=3600", roles=("admin",))
    assert {item["tenant"] for item in window["items"]} == {"local", "other"}


@pytest.mark.parametrize("query", ["window=0", "window=3601", "window=x", "what=1", "tenant=" + "x" * 64])
async def test_what_cannot_be_meant_is_refused(api: ApiHome, query: str) -> None:
    answer = await api.client.get(f"/api/v1/fairness?{query}")
    assert answer.status_code == 400


async def test_a_deadline_is_shown_from_accept_to_end(api: ApiHome) -> None:
    made = await api.submit("true", sla="15m")
    assert made["spec"]["sla"] == "15m"
    assert made["status"]["sla"]["state"] == "on-time"
    over = await api.until(made["metadata"]["uid"])
    assert over["status"]["sla"] == {"dueAt": made["status"]["sla"]["dueAt"], "state": "met"}
    assert "sla" not in (await api.submit("true"))["status"]


async def test_a_tenants_default_is_no_difference_between_documents(api: ApiHome) -> None:
    await become(api, replace(api.home.plane.brain.world.tenant(LOCAL), sla_ms=900_000))
    body = manifest("true", name="again", suspend=True)
    for status in (201, 200):
        answer = await api.client.put("/api/v1/jobs/again", json=body)
        assert answer.status_code == status, answer.text


async def test_another_class_is_refused_with_those_there_are(api: ApiHome) -> None:
    answer = await api.client.post("/api/v1/jobs", json=manifest("true", sla="10m"))
    (fault,) = answer.json()["faults"]
    assert (answer.status_code, fault["field"]) == (400, "spec.sla")
    assert all(one in fault["message"] for one in ("5m", "15m", "1h", "4h", "24h"))


async def test_deadlines_are_measured(api: ApiHome) -> None:
    page = (await api.client.get("/metrics")).text
    for state in ("at-risk", "critical", "missed"):
        assert f'windlass_jobs_sla{{state="{state}"}} 0.0' in page
    assert "windlass_sla_missed_total 0.0" in page
