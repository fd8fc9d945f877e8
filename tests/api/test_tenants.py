"""Tenants over the API: made, changed, removed by admins; strictly validated; seen by their own and by nobody else."""

from typing import Any

import pytest

from tests.api.home import ApiHome, manifest
from windlass.api.rates import Rates
from windlass.core.model.ids import TenantId
from windlass.core.model.tenant import QuotaPolicy
from windlass.wire.tenancy import TenantList, TenantManifest

pytestmark = pytest.mark.anyio

TENANTS = "/api/v1/tenants"


def document(name: str = "acme", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "windlass.dev/v1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def admin(api: ApiHome) -> dict[str, str]:
    return api.bearer(roles=("admin",))


async def test_a_tenant_is_created_once_with_the_limits_it_starts_with(api: ApiHome, admin: dict[str, str]) -> None:
    made = await api.client.post(TENANTS, json=document(tier="premium"), headers=admin)
    assert made.status_code == 201
    assert made.headers["location"] == f"{TENANTS}/acme"
    shown = TenantManifest.model_validate_json(made.content)
    assert shown.status.jobs == 0
    spec = made.json()["spec"]
    assert shown.status.weight == 3
    assert (spec["weight"], spec["policy"], spec["quota"]["cpu"], spec["quota"]["memory"], spec["quota"]["jobs"]) == (
        None, "reject", "4", "8Gi", 10,
    )  # fmt: skip
    again = await api.client.post(TENANTS, json=document(), headers=admin)
    assert (again.status_code, again.json()["code"]) == (409, "tenant-exists")


async def test_a_manifest_that_was_read_can_be_applied_and_changes_nothing(api: ApiHome, admin: dict[str, str]) -> None:
    await api.client.put(f"{TENANTS}/acme", json=document(weight=2.5, quota={"pools": ["local"]}), headers=admin)
    read = (await api.client.get(f"{TENANTS}/acme", headers=admin)).json()
    before = api.home.plane.brain.world.number
    again = await api.client.put(f"{TENANTS}/acme", json=read, headers=admin)
    assert (again.status_code, again.json()["spec"]) == (200, read["spec"])
    assert api.home.plane.brain.world.number == before


async def test_a_weight_that_nobody_gave_is_the_tiers_and_follows_it(api: ApiHome, admin: dict[str, str]) -> None:
    def weights(answer: Any) -> tuple[float | None, float, int]:
        said = answer.json()
        return said["spec"]["weight"], said["status"]["weight"], api.home.plane.tenants.find(TenantId("acme")).weight

    async def change(**spec: Any) -> Any:
        return await api.client.patch(f"{TENANTS}/acme", json={"spec": spec}, headers=admin)

    assert weights(await api.client.post(TENANTS, json=document(tier="free"), headers=admin)) == (None, 1, 1000)
    assert weights(await change(tier="premium")) == (None, 3, 3000)
    assert weights(await change(weight=2.5)) == (2.5, 2.5, 2500)
    assert weights(await change(tier="enterprise")) == (2.5, 2.5, 2500)
    assert weights(await change(weight=None)) == (None, 5, 5000)
    read = (await api.client.get(f"{TENANTS}/acme", headers=admin)).json()
    read["spec"]["tier"] = "standard"
    assert weights(await api.client.put(f"{TENANTS}/acme", json=read, headers=admin)) == (None, 2, 2000)


async def test_a_change_leaves_what_it_does_not_name(api: ApiHome, admin: dict[str, str]) -> None:
    await api.client.post(TENANTS, json=document(), headers=admin)
    patch = {"spec": {"weight": 4, "quota": {"jobs": None, "costPerDay": 1_000_000}, "policy": "queue"}}
    changed = await api.client.patch(f"{TENANTS}/acme", json=patch, headers=admin)
    assert changed.status_code == 200
    tenant = api.home.plane.tenants.find(TenantId("acme"))
    assert (tenant.weight, tenant.quota.jobs, tenant.policy) == (4000, None, QuotaPolicy.QUEUE)
    assert tenant.quota.resources is not None
    assert tenant.quota.resources.cpu_millis == 4000


async def test_every_fault_is_named_and_nothing_is_changed(api: ApiHome, admin: dict[str, str]) -> None:
    await api.client.post(TENANTS, json=document(), headers=admin)
    before = await api.trace()
    bad = {"weight": 0.4, "quota": {"cpu": -1, "jobs": 10**30, "pools": ["nowhere"]}, "rate": {"perSecond": 0}}
    named = {"spec.weight", "spec.quota.cpu", "spec.quota.jobs", "spec.quota.pools", "spec.rate.perSecond"}
    answers = [
        await api.client.post(TENANTS, json=document("fresh", **bad), headers=admin),
        await api.client.put(f"{TENANTS}/acme", json=document("acme", **bad), headers=admin),
        await api.client.patch(f"{TENANTS}/acme", json={"spec": bad}, headers=admin),
    ]
    for answer in answers:
        assert answer.status_code == 400, answer.text
        assert {fault["field"] for fault in answer.json()["faults"]} == named
    not_a_number = b'{"spec": {"weight": NaN}}'
    kind = {"Content-Type": "application/json"}
    assert (await api.client.patch(f"{TENANTS}/acme", content=not_a_number, headers=admin | kind)).status_code == 400
    renamed = await api.client.patch(f"{TENANTS}/acme", json={"metadata": {"name": "other"}}, headers=admin)
    assert renamed.status_code == 400
    assert await api.trace() == before


async def test_only_admins_change_tenants_and_others_see_none_but_their_own(
    api: ApiHome, admin: dict[str, str]
) -> None:
    await api.client.post(TENANTS, json=document(), headers=admin)
    before = await api.trace()
    for roles in (("member",), ("viewer",)):
        mine = api.bearer(tenant="other", roles=roles)
        for method, path in (
            ("POST", ""), ("PUT", "/acme"), ("PATCH", "/acme"), ("DELETE", "/acme"), ("PATCH", "/other"), ("DELETE", "/gone"),
            ("POST", "/acme/tokens"), ("GET", "/acme/tokens"), ("DELETE", "/acme/tokens/x"), ("POST", "/other/tokens"),
        ):  # fmt: skip
            answer = await api.client.request(method, TENANTS + path, json=document(), headers=mine)
            assert (answer.status_code, answer.json()["code"]) == (403, "not-admin"), (method, path)
        seen = TenantList.model_validate_json((await api.client.get(TENANTS, headers=mine)).content)
        assert [one.metadata.name for one in seen.items] == ["other"]
        assert (await api.client.get(f"{TENANTS}/other", headers=mine)).status_code == 200
        theirs = (await api.client.get(f"{TENANTS}/acme", headers=mine)).json()
        nobodys = (await api.client.get(f"{TENANTS}/abcd", headers=mine)).json()
        assert {**theirs, "request_id": "", "detail": ""} == {**nobodys, "request_id": "", "detail": ""}
        assert theirs["detail"].replace("acme", "abcd") == nobodys["detail"]
    assert await api.trace() == before


async def test_many_tenants_come_in_pages(api: ApiHome, admin: dict[str, str]) -> None:
    for number in range(5):
        await api.client.post(TENANTS, json=document(f"t{number}"), headers=admin)
    names, cursor = list[str](), ""
    while True:
        page = (await api.client.get(f"{TENANTS}?limit=3&cursor={cursor}", headers=admin)).json()
        names += [one["metadata"]["name"] for one in page["items"]]
        cursor = page["next"]
        if not cursor:
            break
    assert names == sorted(["local", "other", *(f"t{n}" for n in range(5))])


async def test_a_deleted_tenant_is_gone_with_its_tokens_and_its_name_is_not_given_again(
    api: ApiHome, admin: dict[str, str]
) -> None:
    await api.client.post(TENANTS, json=document(policy="queue"), headers=admin)
    theirs = api.bearer(tenant="acme")
    made = await api.client.post("/api/v1/jobs", json=manifest("true", suspend=True), headers=theirs)
    assert made.status_code == 201
    busy = await api.client.delete(f"{TENANTS}/acme", headers=admin)
    assert (busy.status_code, busy.json()["code"]) == (409, "tenant-busy")
    await api.client.delete(f"/api/v1/jobs/{made.json()['metadata']['uid']}", headers=theirs)
    assert (await api.client.delete(f"{TENANTS}/acme", headers=admin)).status_code == 202
    refused = await api.client.get("/api/v1/jobs", headers=theirs)
    assert (refused.status_code, refused.json()["code"]) == (403, "tenant-unknown")
    again = await api.client.post(TENANTS, json=document(), headers=admin)
    assert (again.status_code, again.json()["code"]) == (409, "tenant-gone")
    own = await api.client.delete(f"{TENANTS}/local", headers=admin)
    assert (own.status_code, own.json()["code"]) == (409, "tenant-own")


async def test_a_rate_is_a_tenants_own_and_refuses_with_its_numbers() -> None:
    from tests.api.home import api_home

    now = [0]
    async with api_home(rates=Rates(clock_ns=lambda: now[0])) as api:
        admin = api.bearer(roles=("admin",))
        spec = {"rate": {"perSecond": 2, "atOnce": 3}}
        await api.client.post(TENANTS, json=document(**spec), headers=admin)
        theirs = api.bearer(tenant="acme")
        got = [await api.client.get("/api/v1/whoami", headers=theirs) for _ in range(4)]
        assert [answer.status_code for answer in got] == [200, 200, 200, 429]
        refusal = got[-1].json()
        assert (refusal["code"], got[-1].headers["retry-after"]) == ("rate-limited", "1")
        assert [(one["limit"], one["unit"]) for one in refusal["limits"]] == [
            (3, "requests at once"),
            (2, "requests a second"),
        ]
        assert "2 times a second, 3 at once" in refusal["detail"]
        submitted = await api.client.post("/api/v1/jobs", json=manifest("true", suspend=True), headers=theirs)
        assert submitted.status_code == 429
        assert (await api.client.get("/healthz", headers=theirs)).status_code == 200
        assert (await api.client.get("/readyz", headers=theirs)).status_code == 200
        assert (await api.client.get("/api/v1/whoami")).status_code == 200, "another tenant's rate is its own"
        now[0] += 500_000_000
        assert (await api.client.get("/api/v1/whoami", headers=theirs)).status_code == 200
        assert (await api.client.get("/api/v1/whoami", headers=theirs)).status_code == 429
        lifted = await api.client.patch(f"{TENANTS}/acme", json={"spec": {"rate": None}}, headers=admin)
        assert lifted.status_code == 200
        assert (await api.client.get("/api/v1/whoami", headers=theirs)).status_code == 200
