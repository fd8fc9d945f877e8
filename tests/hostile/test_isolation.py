"""A second tenant against everything of the first: every route there is, by every name of theirs. It finds nothing.

What is another's must look exactly like what is not there: the same status, the same body but for the name asked for.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import anyio
import pytest

from tests.api.home import ApiHome, Giving, api_home, manifest
from tests.api.live import LiveHome, live_home
from windlass.core.model.ids import NodeId, PoolId
from windlass.core.model.node import Node, NodeState
from windlass.core.model.resources import Resources
from windlass.core.world.workers import drain, join_node

pytestmark = pytest.mark.anyio

SECRET = "geheimnis"
NAMED = "victims-job"
ROOMY = Resources(cpu_millis=10_000_000, memory_bytes=1 << 44)
ENDLESS = {"/api/v1/events"}
JSON = {"Content-Type": "application/json"}


def named(noun: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "windlass.dev/v1", "kind": noun, "metadata": {"name": name}, "spec": spec}


BODIES: dict[str, Callable[[str], Any]] = {
    "POST /api/v1/jobs": lambda _: manifest("true", name=NAMED, suspend=True),
    "PUT /api/v1/jobs/{name}": lambda _: manifest("true", suspend=True),
    "POST /api/v1/jobs/bulk": lambda _: {"items": [manifest("true", name=f"{NAMED}-2", suspend=True)]},
    "POST /api/v1/plan": lambda _: {"items": [manifest("true", name=NAMED)]},
    "POST /api/v1/volumes/{job}/copy-file": lambda _: {"url": "http://192.0.2.1/x"},
    "PUT /api/v1/secrets/{name}": lambda _: {"data": {"token": "bWluZQ=="}},
    "PUT /api/v1/registries/{registry}": lambda _: {"username": "eve", "password": "mine"},
    "POST /api/v1/tenants": lambda _: named("Tenant", "third"),
    "PUT /api/v1/tenants/{name}": lambda ref: named("Tenant", ref),
    "PATCH /api/v1/tenants/{name}": lambda _: {"spec": {"weight": 3}},
    "POST /api/v1/tenants/{name}/tokens": lambda _: {"subject": "eve"},
    "POST /api/v1/pools": lambda _: named("Pool", "third", kind="static"),
    "PUT /api/v1/pools/{name}": lambda ref: named("Pool", ref, kind="static"),
    "PATCH /api/v1/pools/{name}": lambda _: {"spec": {"paused": True}},
    "POST /api/v1/pools/{name}/scale": lambda _: {"workers": 1},
    "PUT /api/v1/prices": lambda _: {"every": {"coreHour": 7}},
}
"""Good ones: a refusal must be about who asks, not about what was sent."""
BODILESS = {"cancel", "release", "burst", "cleanup", "rotate-key", "cordon", "uncordon", "drain", "artifacts"}
OWN_THING = {
    "POST /api/v1/jobs",
    "PUT /api/v1/jobs/{name}",
    "POST /api/v1/jobs/bulk",
    "PUT /api/v1/secrets/{name}",
    "PUT /api/v1/registries/{registry}",
    "POST /api/v1/volumes/{job}/copy-file",
}
"""Doors at which the second tenant makes something of its own, of the same name, which is its right."""


@pytest.fixture
async def api() -> AsyncIterator[ApiHome]:
    async with api_home(fetcher=Giving()) as home:
        yield home


async def prepare(api: ApiHome) -> dict[str, str]:
    """Things of the first tenant, each with a word in it that nobody else may ever read; the names they go by."""
    spec: dict[str, Any] = {"env": {"PASSWORD": SECRET}, "graceSeconds": 0}
    finished = manifest("do", f"print {SECRET}", f"write a.txt {SECRET}", name=NAMED, **spec)
    finished["metadata"]["labels"] = {"secret": SECRET}
    made = await api.client.post("/api/v1/jobs", json=finished, headers={"Idempotency-Key": "shared-key"})
    uid = made.json()["metadata"]["uid"]
    await api.until(uid)
    held = await api.submit("true", name=f"{NAMED}-held", suspend=True, **spec)
    (volume,) = (await api.client.get("/api/v1/volumes")).json()["items"]
    token = await govern(api)
    return {
        "name": NAMED,
        "uid": uid,
        "prefix": uid[:20],
        "held": f"{NAMED}-held",
        "held-uid": held["metadata"]["uid"],
        "volume": volume["name"],
        "volume-uid": volume["uid"],
        "secret": f"{SECRET}-secret",
        "registry": f"{SECRET}.example",
        "pool": f"{SECRET}-pool",
        "token": token,
        "tenant": "local",
    }


async def govern(api: ApiHome) -> str:
    """A secret, a login, a pool that is closed to others, and a token, by its id."""
    admin = api.bearer(roles=("admin",))
    sealed = {"data": {"token": base64.b64encode(SECRET.encode()).decode()}}
    login = {"username": SECRET, "password": SECRET}
    closed = named("Pool", f"{SECRET}-pool", kind="static", tenants=["local"])
    made = [
        await api.client.put(f"/api/v1/secrets/{SECRET}-secret", json=sealed),
        await api.client.put(f"/api/v1/registries/{SECRET}.example", json=login),
        await api.client.post("/api/v1/pools", json=closed, headers=admin),
        await api.client.post("/api/v1/tenants/local/tokens", json={"subject": SECRET}, headers=admin),
    ]
    assert all(answer.is_success for answer in made), [answer.text for answer in made]
    return str(made[-1].json()["id"])


async def seen_by_owner(api: ApiHome) -> str:
    """All that the first tenant can see of its own, as it is now, and what its admin can."""
    job = f"jobs/{NAMED}"
    one = [job, f"{job}/events", f"{job}/logs", f"{job}/artifacts?path=a.txt&format=file"]
    things = ("jobs", "volumes", "secrets", "registries", "prices", "tenants/local", *one)
    answers = [await api.client.get(f"/api/v1/{path}") for path in things]
    admin = api.bearer(roles=("admin",))
    governed = ("tenants/local", "tenants/local/tokens", "tenants/local/burst", f"pools/{SECRET}-pool", "nodes")
    answers += [await api.client.get(f"/api/v1/{path}", headers=admin) for path in governed]
    assert all(answer.status_code == 200 for answer in answers)
    return re.sub(r'"revision":\d+', "", "\n".join(answer.text for answer in answers))


def operations(api: ApiHome) -> list[tuple[str, str]]:
    paths = api.app.openapi()["paths"]
    return [
        (method.upper(), path)
        for path, item in paths.items()
        for method in item
        if path.startswith("/api/v1") and path not in ENDLESS
    ]


async def ask(api: ApiHome, method: str, path: str, ref: str, headers: dict[str, str]) -> Any:
    make = BODIES.get(f"{method} {path}")
    assert make or method in ("GET", "DELETE") or path.rpartition("/")[2] in BODILESS, (
        f"{method} {path} has no body here"
    )
    # A token is reached through its tenant, so that is named truly where the token is guessed.
    address = re.sub(r"{\w+}", ref, path.replace("{name}/tokens/", "local/tokens/"))
    if method == "PUT" and path.endswith("/artifacts"):
        return await api.client.put(f"{address}?path=x", content=b"mine", headers=headers)
    body = json.dumps(make(ref)).encode() if make else None
    return await api.client.request(method, address, content=body, headers=headers | (JSON if make else {}))


async def test_every_route_looks_at_anothers_thing_as_at_nothing(api: ApiHome) -> None:
    theirs = await prepare(api)
    before = await seen_by_owner(api)
    stranger = api.bearer(tenant="other")
    statuses = Counter[int]()
    # What it makes of its own comes last: afterwards things of those names are there, and its.
    for method, path in sorted(operations(api), key=lambda door: " ".join(door) in OWN_THING):
        if "{" not in path:
            continue
        for ref in theirs.values():
            absent = re.sub(r"\w", "0", ref)
            got = await ask(api, method, path, ref, stranger)
            nothing = await ask(api, method, path, absent, stranger)
            assert got.is_success == nothing.is_success, (method, path, ref, got.text)
            if f"{method} {path}" not in OWN_THING:
                assert got.status_code == nothing.status_code, (method, path, ref, got.text)
                assert got.status_code in (400, 403, 404), (method, path, ref, got.text)
                assert _same(got.text, ref) == _same(nothing.text, absent), (method, path)
            assert SECRET not in got.text.replace(ref, "?")
            statuses[got.status_code] += 1
    assert statuses.total() > 400
    assert statuses[400] < statuses.total() / 4, "most are refused for who asks"
    assert await seen_by_owner(api) == before


async def test_no_list_and_no_answer_of_a_stranger_holds_a_word_of_it(api: ApiHome) -> None:
    theirs = await prepare(api)
    before = await seen_by_owner(api)
    stranger = api.bearer(tenant="other")
    for method, path in operations(api):
        if "{" in path:
            continue
        answer = await ask(api, method, path, "", stranger)
        for word in (SECRET, theirs["uid"], theirs["held-uid"], theirs["token"]):
            assert word not in answer.text, (method, path)
    for query in ("", "?name=victim", f"?label=secret={SECRET}", "?state=SUCCEEDED"):
        items = (await api.client.get(f"/api/v1/jobs{query}", headers=stranger)).json()["items"]
        assert not [item for item in items if item["metadata"]["uid"] in theirs.values()]
    assert SECRET not in (await api.client.get("/metrics", headers=stranger)).text
    assert await seen_by_owner(api) == before


async def test_names_and_idempotency_keys_are_each_tenants_own(api: ApiHome) -> None:
    theirs = await prepare(api)
    stranger = api.bearer(tenant="other")
    key = {"Idempotency-Key": "shared-key"}
    mine = await api.client.post(
        "/api/v1/jobs", json=manifest("true", name=NAMED, suspend=True), headers=stranger | key
    )
    assert mine.status_code == 201, "the other's name and key are free for me"
    assert mine.json()["metadata"]["uid"] != theirs["uid"]
    assert SECRET not in mine.text
    again = await api.client.post(
        "/api/v1/jobs", json=manifest("true", name=NAMED, suspend=True), headers=stranger | key
    )
    assert again.content == mine.content
    await api.client.delete(f"/api/v1/jobs/{NAMED}?volume=true", headers=stranger)
    assert (await api.client.get(f"/api/v1/jobs/{NAMED}")).json()["metadata"]["uid"] == theirs["uid"]


async def test_a_tenant_named_anywhere_but_in_the_token_is_refused(api: ApiHome) -> None:
    theirs = await prepare(api)
    before = await seen_by_owner(api)
    stranger = api.bearer(tenant="other")
    for header in ("X-Tenant", "Tenant", "Windlass-Tenant", "X-Windlass-Tenant", "X-Tenant-Id"):
        for method, path in (("GET", f"/jobs/{NAMED}"), ("GET", "/jobs"), ("POST", "/jobs"), ("POST", "/jobs/bulk")):
            refused = await api.client.request(method, f"/api/v1{path}", headers=stranger | {header: "local"})
            assert (refused.status_code, refused.json()["code"]) == (403, "tenant-header"), (header, method, path)
        own = await api.client.get("/api/v1/jobs", headers=stranger | {header: "other"})
        assert (own.status_code, own.json()["items"]) == (200, [])
    for header in ("X-Forwarded-User", "X-Original-URL"):  # of proxies, and no claim on a tenant
        claimed = stranger | {header: "local"}
        assert (await api.client.get(f"/api/v1/jobs/{NAMED}", headers=claimed)).status_code == 404
    for query in ("tenant=local", "tenantId=local"):
        for path in ("jobs", f"jobs/{theirs['uid']}", "volumes", "whoami", "nodes", "prices"):
            refused = await api.client.get(f"/api/v1/{path}?{query}", headers=stranger)
            named = query.partition("=")[0]
            assert [one["field"] for one in refused.json()["faults"]] == [named], (path, refused.text)
            assert refused.status_code == 400
        for path in ("jobs", "jobs/bulk"):
            refused = await api.client.post(f"/api/v1/{path}?{query}", json=manifest("true"), headers=stranger)
            assert refused.status_code == 400, path
    body = manifest("true", suspend=True)
    for claimed_body in (
        {**body, "tenant": "local"},
        {**body, "metadata": {"tenant": "local"}},
        {**body, "metadata": {"namespace": "local"}},
        {**body, "spec": {**body["spec"], "tenant": "local"}},
    ):
        assert (await api.client.post("/api/v1/jobs", json=claimed_body, headers=stranger)).status_code == 400
        bulk = {"items": [claimed_body]}
        assert (await api.client.post("/api/v1/jobs/bulk", json=bulk, headers=stranger)).status_code == 400
    assert await seen_by_owner(api) == before


async def test_an_admin_of_one_tenant_reaches_anothers_jobs_by_no_ordinary_route(api: ApiHome) -> None:
    theirs = await prepare(api)
    admin = api.bearer(tenant="other", roles=("admin",))
    for ref in (theirs["name"], theirs["uid"]):
        assert (await api.client.get(f"/api/v1/jobs/{ref}", headers=admin)).status_code == 404
        assert (await api.client.delete(f"/api/v1/jobs/{ref}", headers=admin)).status_code == 404
    assert (await api.client.get("/api/v1/tenants/local", headers=admin)).status_code == 200


async def test_a_closed_pool_is_to_a_stranger_in_no_answer_and_refused_like_one_that_is_not_there(api: ApiHome) -> None:
    brain, world = api.home.plane.brain, api.home.plane.brain.world
    admin, stranger = api.bearer(roles=("admin",)), api.bearer(tenant="other")
    before = (await api.client.get("/api/v1/nodes", headers=stranger)).json()
    closed = {
        "apiVersion": "windlass.dev/v1",
        "kind": "Pool",
        "metadata": {"name": SECRET},
        "spec": {"kind": "static", "tenants": ["local"], "prices": {"coreHour": 7}},
    }
    assert (await api.client.post("/api/v1/pools", json=closed, headers=admin)).status_code == 201
    cordoned = Node(id=NodeId(f"{SECRET}-1"), pool=PoolId(SECRET), state=NodeState.CORDONED, capacity=ROOMY)
    roomy = Node(id=NodeId(f"{SECRET}-2"), pool=PoolId(SECRET), runtimes=("container", "process"), capacity=ROOMY)
    for node in (cordoned, roomy):
        await brain.decide(lambda now, node=node: join_node(world, node, now=now))

    assert (await api.client.get("/api/v1/nodes", headers=stranger)).json()["items"] == before["items"]
    assert {SECRET in (await api.client.get("/api/v1/nodes", headers=who)).text for who in (admin, {})} == {True}
    assert SECRET not in (await api.client.get("/api/v1/prices", headers=stranger)).text
    for needs in ({}, {"resources": {"cpu": "9000"}}, {"nodeSelector": {"a": "b"}}):
        bodies = [manifest("true", name="x", pool=pool, **needs) for pool in (SECRET, "0" * len(SECRET))]
        for path, of in (("jobs", lambda body: body), ("plan", lambda body: {"items": [body]})):
            said = [await api.client.post(f"/api/v1/{path}", json=of(body), headers=stranger) for body in bodies]
            assert _same(said[0].text, SECRET) == _same(said[1].text, "0" * len(SECRET))
            assert said[0].status_code == said[1].status_code
    for door in ("", "/metrics", "/scaling/history"):
        said = [await api.client.get(f"/api/v1/pools/{one}{door}", headers=stranger) for one in (SECRET, "absent")]
        assert _same(said[0].text, SECRET) == _same(said[1].text, "absent")
    await brain.decide(lambda now: drain(world, NodeId("n1"), now=now))
    taken = await api.client.post("/api/v1/jobs", json=manifest("true", name="waits"), headers=stranger)
    assert taken.status_code == 201, taken.text
    for path in ("jobs/waits", "jobs/waits/why", "jobs/waits/events", "queues/status", "cost-optimization/reports"):
        answer = await api.client.get(f"/api/v1/{path}", headers=stranger)
        assert SECRET not in answer.text
        assert "other tenants" not in answer.text
        assert "cordoned" not in answer.text
        assert answer.status_code == 200, path


async def test_streams_and_terminals_tell_a_stranger_nothing() -> None:
    async with live_home() as live:
        theirs = await prepare(live.api)
        stranger = live.api.bearer(tenant="other")
        with anyio.fail_after(120):
            await _only_own_changes(live, stranger)
            for door in ("attach", "exec?command=true", "debug"):
                said = [await _last_word(live, ref, door, stranger) for ref in (NAMED, theirs["uid"], "0" * 12)]
                assert {one["error"]["code"] for one in said} == {"not-found"}
                shapes = [
                    _same(json.dumps(one), ref) for one, ref in zip(said, (NAMED, theirs["uid"], "0" * 12), strict=True)
                ]
                assert len(set(shapes)) == 1


async def _only_own_changes(live: LiveHome, stranger: dict[str, str]) -> None:
    """The first change a stranger hears of is its own, though another's came before it."""
    async with live.session.get(f"{live.url}/api/v1/events", headers=stranger) as stream:
        assert (await stream.content.readline()).startswith(b":")
        await live.api.submit("true", name="loud", suspend=True, env={"A": SECRET})
        own = await live.api.client.post(
            "/api/v1/jobs", json=manifest("true", name="mine", suspend=True), headers=stranger
        )
        assert own.status_code == 201
        while not (line := await stream.content.readline()).startswith(b"data:"):
            assert SECRET.encode() not in line
        assert json.loads(line[5:])["metadata"]["name"] == "mine"


async def _last_word(live: LiveHome, ref: str, door: str, stranger: dict[str, str]) -> dict[str, Any]:
    async with live.session.ws_connect(f"{live.url}/api/v1/jobs/{ref}/{door}", headers=stranger) as socket:
        message = await socket.receive()
        assert message.type is aiohttp.WSMsgType.TEXT
        said: dict[str, Any] = json.loads(message.data)
        return said


def _same(text: str, ref: str) -> str:
    """An answer without what differs by nature: the request's id, the moment, and the name that was asked for."""
    text = re.sub(r'"request_id": ?"[^"]*"', "", text)
    return text.replace(ref, "?")
