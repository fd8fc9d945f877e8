"""The audit: one record for every change at any door, none without a change, refusals too, and only admins read it."""

import json
import re
from typing import Any

import anyio
import pytest

from tests.api.home import ApiHome, api_home, manifest
from tests.api.live import LiveHome, live_home
from windlass.client import documents
from windlass.control.audit import AuditTrail
from windlass.control.janitor import Janitor, Retention
from windlass.core.model.audit import Act, AuditQuery, Author
from windlass.core.model.ids import Millis
from windlass.wire import audit as wire
from windlass.wire.audit import AuditList, AuditRecord

pytestmark = pytest.mark.anyio

AUDIT = "/api/v1/audit"


async def records(api: ApiHome, **query: Any) -> list[AuditRecord]:
    """Oldest first, with those that nobody waited for."""
    await api.home.plane.brain.committer.durable(api.home.plane.brain.world.number)
    query = {"order": "oldest", "limit": 1000} | query
    answer = await api.client.get(AUDIT, params=query, headers=api.bearer(roles=("admin",)))
    assert answer.status_code == 200, answer.text
    return AuditList.model_validate_json(answer.content).items


async def test_every_door_that_changes_something_leaves_exactly_one_record(api: ApiHome) -> None:
    admin = api.bearer(roles=("admin",))
    sent: list[tuple[str, str, str, str]] = []

    async def ask(verb: str, kind: str, name: str, method: str, path: str, **more: Any) -> Any:
        answer = await api.client.request(method, f"/api/v1{path}", **more)
        assert answer.status_code < 300, answer.text
        sent.append((answer.headers["x-request-id"], verb, kind, name))
        return answer.json()

    held = manifest("true", name="held", suspend=True)
    await ask("submit", "Job", "held", "POST", "/jobs", json=held)
    await ask("apply", "Job", "put", "PUT", "/jobs/put", json=manifest("true", name="put", suspend=True))
    await ask("upload", "Job", "held", "PUT", "/jobs/held/artifacts?path=a.txt", content=b"x")
    await ask("release", "Job", "held", "POST", "/jobs/held/release")
    await api.until("held")
    await ask("cancel", "Job", "put", "POST", "/jobs/put/cancel")
    await ask("delete", "Job", "held", "DELETE", "/jobs/held")
    await ask("delete", "Job", "put", "DELETE", "/jobs/put?volume=true")
    items = [manifest("true", suspend=True) for _ in range(3)]
    many = await ask("submit", "Job", "*", "POST", "/jobs/bulk", json={"items": items})
    await ask("create", "Tenant", "acme", "POST", "/tenants", json=tenant("acme"), headers=admin)
    await ask("apply", "Tenant", "acme", "PUT", "/tenants/acme", json=tenant("acme", weight=2), headers=admin)
    await ask("change", "Tenant", "acme", "PATCH", "/tenants/acme", json={"spec": {"weight": 3}}, headers=admin)
    made = await ask("issue", "Token", "ci", "POST", "/tenants/acme/tokens", json={"subject": "ci"}, headers=admin)
    await ask("revoke", "Token", "ci", "DELETE", f"/tenants/acme/tokens/{made['id']}", headers=admin)
    await ask("delete", "Tenant", "acme", "DELETE", "/tenants/acme", headers=admin)
    await ask("create", "Pool", "grow", "POST", "/pools", json=pool("grow"), headers=admin)
    await ask("scale", "Pool", "grow", "POST", "/pools/grow/scale", json={"workers": 1}, headers=admin)
    await ask("scale", "Pool", "grow", "POST", "/pools/grow/scale", json={"workers": 0}, headers=admin)
    await ask("change", "Pool", "grow", "PATCH", "/pools/grow", json={"spec": {"paused": False}}, headers=admin)
    await ask("cordon", "Node", "n1", "POST", "/nodes/n1/cordon", headers=admin)
    await ask("uncordon", "Node", "n1", "POST", "/nodes/n1/uncordon", headers=admin)
    await ask("create", "Pool", "still", "POST", "/pools", json=pool("still", kind="static"), headers=admin)
    await ask("delete", "Pool", "still", "DELETE", "/pools/still", headers=admin)
    found = await records(api)
    assert [(one.request, one.verb, one.kind) for one in found] == [one[:3] for one in sent]
    assert all(one[3] in ("*", got.name) for one, got in zip(sent, found, strict=True))
    bulk = next(one for one in found if one.others)
    assert {bulk.uid, *bulk.others} == {item["uid"] for item in many["items"]}
    assert {one.outcome for one in found} == {"done"}
    assert {(one.subject, one.tenant) for one in found} == {("tester", "local")}
    assert [one.owner for one in found if one.kind == "Tenant"] == ["acme"] * 4
    by_name = await records(api, name="still", kind="Pool")
    assert [(one.verb, one.uid) for one in by_name] == [("create", ""), ("delete", "")]


async def test_no_door_that_may_change_something_forgets_who_is_asking(api: ApiHome) -> None:
    """Every one that is described, also those to come: who may not pass it is on record, by the entry that all doors share."""
    viewer, asked = api.bearer(roles=("viewer",)), list[str]()
    for path, item in api.app.openapi()["paths"].items():
        for method in set(item) - {"get"}:
            answer = await api.client.request(method.upper(), re.sub(r"{\w+}", "x", path), headers=viewer)
            assert answer.status_code == 403, (method, path)
            asked.append(answer.headers["x-request-id"])
    assert [one.request for one in await records(api)] == asked
    assert len(asked) > 15


async def test_what_changes_nothing_leaves_no_record(api: ApiHome) -> None:
    key = {"Idempotency-Key": "once"}
    first = await api.client.post("/api/v1/jobs", json=manifest("true", name="one", suspend=True), headers=key)
    again = await api.client.post("/api/v1/jobs", json=manifest("true", name="one", suspend=True), headers=key)
    same = await api.client.put("/api/v1/jobs/one", json=manifest("true", name="one", suspend=True))
    await api.client.post("/api/v1/volumes/cleanup")
    await api.client.get("/api/v1/jobs")
    assert (first.content, same.status_code) == (again.content, 200)
    assert [one.verb for one in await records(api)] == ["submit"]


async def test_what_jobs_do_by_themselves_is_nobodys_deed(api: ApiHome) -> None:
    made = await api.submit("true")
    await api.until(made["metadata"]["uid"])
    assert len(await records(api)) == 1


async def test_a_refused_attempt_is_recorded_with_its_code(api: ApiHome) -> None:
    viewer = api.bearer(roles=("viewer",))
    await api.client.post("/api/v1/jobs", json=manifest("true"), headers=viewer)
    await api.client.post("/api/v1/jobs/nothing/cancel")
    await api.client.post("/api/v1/jobs", json={"kind": "Job"})
    await api.client.delete("/api/v1/jobs/x?colour=red")
    await api.client.post("/api/v1/tenants", json={}, headers=viewer)
    admin = api.bearer(roles=("admin",))
    await api.client.post("/api/v1/pools", json=pool("bad", tenants=7), headers=admin)
    yaml = {"Content-Type": "application/yaml"}
    await api.client.post("/api/v1/pools", content="metadata: {name: worse}", headers=admin | yaml)
    await api.client.post("/api/v1/pools/grow/scale", json={"workers": 1}, headers=admin)
    await api.client.post("/api/v1/nodes/nowhere/drain", headers=admin)
    await api.client.delete("/api/v1/tenants/local/tokens/none", headers=admin)
    await api.client.post("/api/v1/jobs", json=manifest("true", name="named", pool="nope"))
    await api.client.get("/api/v1/jobs/absent")
    await api.client.post("/api/v1/jobs", json=manifest("true"), headers={"Authorization": "Bearer forged"})
    found = await records(api, outcome="refused")
    assert [(one.verb, one.kind, one.code, one.name) for one in found] == [
        ("submit", "Job", "read-only", ""),
        ("cancel", "Job", "not-found", "nothing"),
        ("submit", "Job", "invalid", ""),
        ("delete", "Job", "invalid", "x"),
        ("create", "Tenant", "not-admin", ""),
        ("create", "Pool", "invalid", "bad"),
        ("create", "Pool", "invalid", "worse"),
        ("scale", "Pool", "not-found", "grow"),
        ("drain", "Node", "not-found", "nowhere"),
        ("revoke", "Token", "not-found", ""),
        ("submit", "Job", "fits-nowhere", "named"),
    ]
    assert [(one.uid, one.owner) for one in found if one.kind == "Token"] == [("none", "local")]
    assert len(await records(api, outcome="refused", kind="Pool")) == 3


async def test_refusals_are_bounded_and_those_left_out_are_counted(api: ApiHome) -> None:
    now = [0]
    plane = api.home.plane
    trail = AuditTrail(plane.brain, clock_ns=lambda: now[0])
    act = Act(Author("eve", "other", "t"), "10.9.9.9", "r", "submit")
    for _ in range(1000):
        trail.refused(act, "read-only")
    now[0] += 1_000_000_000
    trail.refused(act, "read-only")
    trail.refused(Act(Author("bob", "local", "t"), "10.9.9.8", "r", "submit"), "read-only")
    await plane.brain.committer.durable(plane.brain.world.number)
    found = await records(api, subject="eve")
    assert len(found) == 61
    assert (found[-1].skipped, sum(one.skipped for one in found)) == (940, 940)
    assert len(await records(api, subject="bob")) == 1


async def test_records_are_found_by_every_filter_and_in_pages(api: ApiHome) -> None:
    for name in ("a", "b", "c", "d"):
        await api.submit("true", name=name, suspend=True)
    await api.client.post("/api/v1/jobs", json=manifest("true", name="e"), headers=api.bearer(tenant="other"))
    await api.client.post("/api/v1/jobs/a/cancel")
    everything = await records(api)
    one = everything[1]
    assert [r.name for r in await records(api, name="b")] == ["b"]
    assert await records(api, uid=one.uid) == await records(api, request=one.request) == [one]
    assert {r.name for r in await records(api, tenant="other")} == {"e"}
    admin = api.bearer(roles=("admin",))
    await api.client.patch("/api/v1/tenants/other", json={"spec": {"weight": 2}}, headers=admin)
    assert [(r.name, r.tenant) for r in await records(api, tenant="other")] == [("e", "other"), ("other", "local")]
    bulk = {"items": [manifest("true", suspend=True) for _ in range(3)]}
    made = (await api.client.post("/api/v1/jobs/bulk", json=bulk)).json()["items"]
    by_uid = [await records(api, uid=item["uid"], tenant="local") for item in made]
    assert by_uid[0] == by_uid[1] == by_uid[2]
    assert len(by_uid[0]) == 1
    everything = await records(api)
    assert [r.name for r in await records(api, verb="cancel", kind="Job")] == ["a"]
    assert await records(api, token=one.token, limit=2) == everything[:2]
    assert await records(api, subject="nobody") == []
    assert await records(api, since=one.at, until="2100-01-01T00:00:00Z") == [r for r in everything if r.at >= one.at]
    assert await records(api, until="2001-01-01T00:00:00+02:00") == []
    for order in ("oldest", "newest"):
        got, cursor = list[int](), ""
        while True:
            query = {"order": order, "limit": 4, "cursor": cursor}
            page = (await api.client.get(AUDIT, params=query, headers=api.bearer(roles=("admin",)))).json()
            got += [record["number"] for record in page["items"]]
            cursor = page["next"]
            if not cursor:
                break
        assert got == sorted((r.number for r in everything), reverse=order == "newest")


BAD_QUESTIONS: list[dict[str, Any]] = [
    {"since": "yesterday"},
    {"since": "2026-01-01T00:00:00"},
    {"limit": 0},
    {"cursor": "x"},
    {"outcome": "maybe"},
    {"colour": "red"},
]


@pytest.mark.parametrize("query", BAD_QUESTIONS)
async def test_a_question_that_cannot_be_meant_is_refused(api: ApiHome, query: dict[str, Any]) -> None:
    answer = await api.client.get(AUDIT, params=query, headers=api.bearer(roles=("admin",)))
    assert answer.status_code == 400


async def test_the_export_has_every_record_as_a_line(api: ApiHome) -> None:
    for _ in range(3):
        await api.submit("true", suspend=True)
    admin = api.bearer(roles=("admin",))
    answer = await api.client.get(f"{AUDIT}/export", headers=admin)
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines == [one.model_dump(by_alias=True) for one in await records(api)]
    rest = await api.client.get(f"{AUDIT}/export", params={"after": lines[0]["number"]}, headers=admin)
    assert [json.loads(line) for line in rest.text.splitlines()] == lines[1:]


async def test_a_followed_export_goes_on_with_what_comes() -> None:
    async with live_home() as live:
        await live.api.submit("true", name="before", suspend=True)
        admin = live.api.bearer(roles=("admin",))
        with anyio.fail_after(60):
            async with live.session.get(f"{live.url}{AUDIT}/export?follow=true", headers=admin) as stream:
                assert json.loads(await stream.content.readline())["name"] == "before"
                await live.api.submit("true", name="after", suspend=True)
                assert json.loads(await stream.content.readline())["name"] == "after"


async def test_a_terminal_is_recorded_before_it_opens_and_so_is_one_refused() -> None:
    async with live_home() as live:
        made = await live.api.submit("sleep", "600", name="open", graceSeconds=0)
        await live.api.until(made["metadata"]["uid"], "RUNNING")
        for ref in ("open", "nothing"):
            await _exec(live, ref)
        found = await records(live.api)
        assert [(one.verb, one.name, one.code) for one in found] == [
            ("submit", "open", None), ("execute", "open", None), ("execute", "nothing", "not-found"),
        ]  # fmt: skip
        assert {one.address for one in found if one.verb == "execute"} == {"127.0.0.1"}


async def _exec(live: LiveHome, ref: str) -> None:
    with anyio.fail_after(60):
        async with live.session.ws_connect(f"{live.url}/api/v1/jobs/{ref}/exec?command=true") as socket:
            async for _ in socket:
                pass


async def test_old_records_go_and_the_outbox_is_emptied_of_them(api: ApiHome) -> None:
    await api.submit("true", suspend=True)
    plane = api.home.plane
    assert await plane.read_model.caught_up()
    now = plane.clock.now()
    await plane.read_model.forget_audit(Millis(now - 3_600_000))
    assert len((await plane.read_model.audit(AuditQuery())).items) == 1
    await plane.read_model.forget_audit(Millis(now + 3_600_000))
    assert (await plane.read_model.audit(AuditQuery())).items == ()


async def test_the_janitor_keeps_to_the_retention(api: ApiHome) -> None:
    await api.submit("true", suspend=True)
    plane, store = api.home.plane, api.home.store
    assert await plane.read_model.caught_up()
    for audit_ms, left in ((3_600_000, 1), (-3_600_000, 0)):
        retention = Retention(audit_ms=Millis(audit_ms), outbox_ms=Millis(audit_ms))
        await Janitor(plane.brain, store, plane.read_model, plane.blobs, plane.logbook, retention).sweep()
        assert len((await plane.read_model.audit(AuditQuery())).items) == left
        assert len((await store.range("w/outbox/audit-")).items) == left


async def test_a_record_is_stored_in_the_very_commit_of_its_change() -> None:
    async with api_home() as api:
        async with api.home.store.watch(after=await api.home.store.revision(), prefix="w/") as commits:
            made = await api.submit("true", suspend=True)
            with anyio.fail_after(120):
                async for changes in commits:
                    keys = [change.key for change in changes]
                    if f"w/jobs/{made['metadata']['uid']}" in keys:
                        break
        assert any(key.startswith("w/outbox/audit-") for key in keys)


def tenant(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "windlass.dev/v1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}


def pool(name: str, *, kind: str = "dynamic", **spec: Any) -> dict[str, Any]:
    scaling = {"max": 2, "worker": {"cpu": "100m", "memory": "64Mi"}}
    dynamic = {"scaling": scaling, "paused": True} if kind == "dynamic" else {}
    said = {"kind": kind, **dynamic, **spec}
    return {"apiVersion": "windlass.dev/v1", "kind": "Pool", "metadata": {"name": name}, "spec": said}


async def test_the_client_knows_every_field_of_a_record_that_the_server_answers_with() -> None:
    """Two shapes of one document, because the command line starts without the validator; they must not drift apart."""
    answered = {field.alias or name for name, field in wire.AuditRecord.model_fields.items()}
    assert set(documents.AuditRecord.__annotations__) == answered
