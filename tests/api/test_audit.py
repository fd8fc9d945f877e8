"""The audit: one record for every change at any door, none without a change, refusals too, and only admins read it."""

import json
import re
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from tests.api.home import ApiHome, Giving, api_home, manifest
from tests.api.live import LiveHome, live_home
from windlass.client import documents
from windlass.control.audit import AuditTrail
from windlass.control.janitor import Janitor, Retention
from windlass.core.model.audit import Act, AuditQuery, Author
from windlass.core.model.ids import Millis
from windlass.core.world.records import Table
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


LOOKS_ONLY = {"POST /plan"}
"""Doors that take a body and change nothing."""


class Doors:
    """Goes through them, and remembers which, under which request, and what is to be on record of it."""

    def __init__(self, api: ApiHome) -> None:
        self._api = api
        self._admin = api.bearer(roles=("admin",))
        self.used: set[str] = set()
        self.sent: list[tuple[str, str, str, str]] = []
        """Request, verb, kind, name; a star where any name will do."""

    async def ask(self, deed: tuple[str, str, str], door: str, *, query: str = "", **more: Any) -> Any:
        """`door` is as described, with names for what stands in braces; what is not of the path goes with the request."""
        method, path = door.split(" ")
        names = {word: more.pop(word) for word in re.findall(r"{(\w+)}", path)}
        answer = await self._api.client.request(
            method, f"/api/v1{path.format(**names)}{query}", headers=self._admin, **more
        )
        assert answer.status_code < 300, answer.text
        self.used.add(door)
        self.sent.append((answer.headers["x-request-id"], *deed))
        return answer.json()


async def test_every_door_that_changes_something_leaves_exactly_one_record() -> None:
    """All that are described: a door that is new is missing here until it is gone through."""
    async with api_home(fetcher=Giving()) as api:
        doors = Doors(api)
        many = await use_jobs_and_volumes(api, doors)
        await use_secrets_and_registries(doors)
        await use_tenants_and_money(doors)
        await use_pools_and_nodes(doors)
        assert doors.used == described(api) - LOOKS_ONLY
        found = await records(api)
        assert [(one.request, one.verb, one.kind) for one in found] == [one[:3] for one in doors.sent]
        assert all(one[3] in ("*", got.name) for one, got in zip(doors.sent, found, strict=True))
        bulk = next(one for one in found if one.others)
        assert {bulk.uid, *bulk.others} == {item["uid"] for item in many["items"]}
        assert {one.outcome for one in found} == {"done"}
        assert {(one.subject, one.tenant) for one in found} == {("tester", "local")}
        assert {one.owner for one in found if one.kind == "Tenant" and one.name == "acme"} == {"acme"}
        by_name = await records(api, name="still", kind="Pool")
        assert [(one.verb, one.uid) for one in by_name] == [("create", ""), ("delete", "")]


def described(api: ApiHome) -> set[str]:
    """The doors that may change something."""
    paths = api.app.openapi()["paths"].items()
    return {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, item in paths
        for method in item
        if method not in ("get", "head", "options")
    }


async def use_jobs_and_volumes(api: ApiHome, doors: Doors) -> Any:
    held = manifest("true", name="held", suspend=True)
    await doors.ask(("submit", "Job", "held"), "POST /jobs", json=held)
    put = manifest("true", name="put", suspend=True)
    await doors.ask(("apply", "Job", "put"), "PUT /jobs/{name}", name="put", json=put)
    upload = ("upload", "Job", "held")
    await doors.ask(upload, "PUT /jobs/{ref}/artifacts", ref="held", query="?path=a.txt", content=b"x")
    await doors.ask(("release", "Job", "held"), "POST /jobs/{ref}/release", ref="held")
    uid = (await api.until("held"))["metadata"]["uid"]
    await doors.ask(("cancel", "Job", "put"), "POST /jobs/{ref}/cancel", ref="put")
    await doors.ask(("delete", "Job", "held"), "DELETE /jobs/{ref}", ref="held")
    await doors.ask(("delete", "Job", "put"), "DELETE /jobs/{ref}", ref="put", query="?volume=true")
    items = [manifest("true", suspend=True) for _ in range(3)]
    many = await doors.ask(("submit", "Job", "*"), "POST /jobs/bulk", json={"items": items})
    let_its_time_run_out(api, uid)
    await doors.ask(("cleanup", "Volume", "artifacts-held"), "POST /volumes/cleanup")
    copied = ("copy", "Volume", "artifacts-later")
    await doors.ask(copied, "POST /volumes/{job}/copy-file", job="later", json={"url": "http://192.0.2.1/x"})
    await doors.ask(("drop", "Volume", "artifacts-later"), "DELETE /volumes/{name}", name="artifacts-later")
    return many


def let_its_time_run_out(api: ApiHome, job: str) -> None:
    """Without waking who would drop it: what is due is otherwise gone before anybody could ask for it."""
    brain = api.home.plane.brain
    now = brain.clock.now()
    [volume] = [one for one in brain.world.tables.volumes.values() if one.job == job]
    with brain.world.decision(now):
        brain.world.put(Table.VOLUMES, volume.id, replace(volume, expires_at=now))


async def use_secrets_and_registries(doors: Doors) -> None:
    secret = {"data": {"token": "c2VjcmV0"}}
    await doors.ask(("set", "Secret", "hub"), "PUT /secrets/{name}", name="hub", json=secret)
    await doors.ask(("rotate", "DataKey", "*"), "POST /secrets/rotate-key")
    await doors.ask(("remove", "Secret", "hub"), "DELETE /secrets/{name}", name="hub")
    registry, login = "registry.example", {"username": "alice", "password": "wonderland"}
    await doors.ask(("login", "RegistryLogin", registry), "PUT /registries/{registry}", registry=registry, json=login)
    await doors.ask(("logout", "RegistryLogin", registry), "DELETE /registries/{registry}", registry=registry)


async def use_tenants_and_money(doors: Doors) -> None:
    one = {"name": "acme"}
    await doors.ask(("create", "Tenant", "acme"), "POST /tenants", json=tenant("acme"))
    await doors.ask(("apply", "Tenant", "acme"), "PUT /tenants/{name}", **one, json=tenant("acme", weight=2))
    await doors.ask(("change", "Tenant", "acme"), "PATCH /tenants/{name}", **one, json={"spec": {"weight": 3}})
    made = await doors.ask(("issue", "Token", "ci"), "POST /tenants/{name}/tokens", **one, json={"subject": "ci"})
    await doors.ask(("revoke", "Token", "ci"), "DELETE /tenants/{name}/tokens/{token}", **one, token=made["id"])
    await doors.ask(("open", "Burst", "*"), "POST /tenants/{name}/burst", **one)
    await doors.ask(("end", "Burst", "*"), "DELETE /tenants/{name}/burst", **one)
    await doors.ask(("delete", "Tenant", "acme"), "DELETE /tenants/{name}", **one)
    await doors.ask(("set", "Price", "*"), "PUT /prices", json={"every": {"coreHour": 7}})


async def use_pools_and_nodes(doors: Doors) -> None:
    grow, node = {"name": "grow"}, {"name": "n1"}
    await doors.ask(("create", "Pool", "grow"), "POST /pools", json=pool("grow"))
    await doors.ask(("scale", "Pool", "grow"), "POST /pools/{name}/scale", **grow, json={"workers": 1})
    await doors.ask(("scale", "Pool", "grow"), "POST /pools/{name}/scale", **grow, json={"workers": 0})
    await doors.ask(("change", "Pool", "grow"), "PATCH /pools/{name}", **grow, json={"spec": {"paused": False}})
    await doors.ask(("apply", "Pool", "grow"), "PUT /pools/{name}", **grow, json=pool("grow", paused=True))
    await doors.ask(("cordon", "Node", "n1"), "POST /nodes/{name}/cordon", **node)
    await doors.ask(("uncordon", "Node", "n1"), "POST /nodes/{name}/uncordon", **node)
    await doors.ask(("drain", "Node", "n1"), "POST /nodes/{name}/drain", **node)
    await doors.ask(("create", "Pool", "still"), "POST /pools", json=pool("still", kind="static"))
    await doors.ask(("delete", "Pool", "still"), "DELETE /pools/{name}", name="still")


async def test_no_door_that_may_change_something_forgets_who_is_asking(api: ApiHome) -> None:
    """Every one that is described, also those to come: who may not pass it is on record, by the entry that all doors share."""
    viewer, asked = api.bearer(roles=("viewer",)), list[str]()
    for path, item in api.app.openapi()["paths"].items():
        for method in set(item) - {"get"}:
            if f"{method.upper()} {path.removeprefix('/api/v1')}" in LOOKS_ONLY:
                continue
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


async def test_a_viewer_plans_and_leaves_neither_a_trace_nor_a_record(api: ApiHome) -> None:
    await api.submit("true", name="there", suspend=True)
    viewer, before, known = api.bearer(roles=("viewer",)), await api.trace(), len(await records(api))
    items = [
        manifest("true", name="a"),
        manifest("true", name="there", suspend=True),
        manifest("true", name="b", resources={"cpu": "4000"}),
    ]
    planned = await api.client.post("/api/v1/plan", json={"items": items}, headers=viewer)
    assert planned.status_code == 200, planned.text
    assert [(one["accepted"], one["unchanged"]) for one in planned.json()["items"]] == [
        (True, False),
        (True, True),
        (False, False),
    ]
    wrong = await api.client.post("/api/v1/plan", json={"items": [{"kind": "Job"}]}, headers=viewer)
    assert wrong.status_code == 400
    nobody = await api.client.post("/api/v1/plan", json={"items": items}, headers=api.bearer(roles=()))
    assert (nobody.status_code, nobody.json()["code"]) == (403, "no-role")
    assert (await api.trace(), len(await records(api))) == (before, known)


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
