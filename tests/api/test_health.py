"""Health, metrics, nodes, version, the page, and errors that are nobody's business."""

from collections.abc import AsyncIterator

import anyio
import pytest

from tests.api.home import DEADLINE_SECONDS, ApiHome, api_home, manifest
from windlass.api import bodies
from windlass.api.context import ApiLimits
from windlass.core.compiled import IS_COMPILED
from windlass.ports.store import Refused
from windlass.wire.schema import NodeList, Problem, Ready, Version

pytestmark = pytest.mark.anyio


async def test_it_is_alive_and_ready_and_says_of_what(api: ApiHome) -> None:
    bare = {"Authorization": ""}
    assert (await api.client.get("/healthz", headers=bare)).json() == {"status": "ok"}
    ready = await api.client.get("/readyz", headers=bare)
    assert ready.status_code == 200
    assert {part.name for part in Ready.model_validate(ready.json()).parts} >= {"store", "runtime"}


async def test_a_full_disk_is_not_ready_and_says_so(api: ApiHome, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_room() -> None:
        raise Refused("the store's disk is full", code="store-disk-full")

    monkeypatch.setattr(api.home.store, "check_room", no_room)
    answer = await api.client.get("/readyz", headers={"Authorization": ""})
    assert answer.status_code == 503
    parts = {part.name: part.detail for part in Ready.model_validate(answer.json()).parts}
    assert parts["store"] == "the store's disk is full"
    assert (await api.client.get("/healthz")).status_code == 200


async def test_an_engine_that_is_away_is_not_ready_and_its_jobs_say_that_they_wait_for_it(api: ApiHome) -> None:
    api.home.machine.is_down = True
    answer = await api.client.get("/readyz", headers={"Authorization": ""})
    assert answer.status_code == 503
    parts = {part.name: part.detail for part in Ready.model_validate(answer.json()).parts}
    assert parts == {"store": "ok", "runtime": "the engine is down"}
    uid = (await api.submit("true"))["metadata"]["uid"]
    waiting = await api.until(uid, "STARTING")
    assert waiting["status"]["progress"] == "waiting for the container engine, which does not answer"
    assert "container engine" in (await api.client.get(f"/api/v1/jobs/{uid}/why")).text
    api.home.machine.is_down = False
    assert (await api.until(uid))["status"]["state"] == "SUCCEEDED"
    assert (await api.client.get("/readyz", headers={"Authorization": ""})).status_code == 200


async def test_metrics_count_requests_and_jobs_and_name_no_tenant(api: ApiHome) -> None:
    await api.submit("true", name="counted", suspend=True)
    assert await api.home.plane.read_model.caught_up(timeout=DEADLINE_SECONDS)
    text = (await api.client.get("/metrics", headers={"Authorization": ""})).text
    assert 'windlass_api_requests_total{method="POST",route="/api/v1/jobs",status="201"} 1.0' in text
    assert 'windlass_jobs{state="PENDING"} 1.0' in text
    assert "windlass_jobs_accepted_total 1.0" in text
    assert "local" not in text
    assert "counted" not in text
    admin = api.bearer(roles=("admin",))
    assert (await api.client.get("/api/v1/metrics/prometheus", headers=admin)).status_code == 200


async def test_a_thousand_names_make_one_time_series(api: ApiHome) -> None:
    for number in range(5):
        await api.client.get(f"/api/v1/jobs/job-{number}")
        await api.client.get(f"/nowhere/{number}")
    text = (await api.client.get("/metrics")).text
    assert 'route="/api/v1/jobs/{ref}",status="404"} 5.0' in text
    assert 'route="(none)",status="404"} 5.0' in text


async def test_nodes_and_version_are_as_documented(api: ApiHome) -> None:
    nodes = NodeList.model_validate((await api.client.get("/api/v1/nodes")).json())
    assert [node.name for node in nodes.items] == ["n1"]
    version = Version.model_validate((await api.client.get("/api/v1/version")).json())
    assert (version.version, version.runtime_kind, version.compiled) == ("0.0.test", "container", IS_COMPILED)
    text = (await api.client.get("/metrics")).text
    assert f'windlass_build_info{{compiled="{str(IS_COMPILED).lower()}",version="0.0.test"}} 1.0' in text


async def test_the_page_and_its_parts_come_with_a_strict_policy(api: ApiHome) -> None:
    bare = {"Authorization": ""}
    for path, kind in {"/": "text/html", "/static/page.js": "text/javascript", "/static/page.css": "text/css"}.items():
        answer = await api.client.get(path, headers=bare)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        again = await api.client.get(path, headers=bare | {"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304
    page = (await api.client.get("/", headers=bare)).text
    assert "<script>" not in page
    assert "style=" not in page
    assert "http://" not in page
    assert "https://" not in page
    assert (await api.client.get("/static/../app.py", headers=bare)).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not-found"),
        ("GET", "/api/v1/jobs/", 404, "not-found"),
        ("PATCH", "/api/v1/jobs", 405, "method-not-allowed"),
        ("DELETE", "/healthz", 405, "method-not-allowed"),
        ("GET", "/api/v1/jobs/" + "x" * 200, 400, "invalid"),
    ],
)
async def test_what_is_not_there_is_a_problem_too(api: ApiHome, method: str, path: str, status: int, code: str) -> None:
    answer = await api.client.request(method, path)
    problem = Problem.model_validate(answer.json())
    assert (answer.status_code, problem.code) == (status, code)
    assert problem.request_id == answer.headers["x-request-id"]


async def test_a_fault_of_ours_says_nothing_but_its_id(api: ApiHome, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*args: object, **options: object) -> None:
        raise RuntimeError("secret /srv/path and SELECT * FROM jobs")

    monkeypatch.setattr(api.home.plane.read_model, "find_job", broken)
    answer = await api.client.get("/api/v1/jobs/x")
    problem = Problem.model_validate(answer.json())
    assert (answer.status_code, problem.code) == (500, "internal")
    assert "secret" not in answer.text
    assert "SELECT" not in answer.text
    assert problem.request_id == answer.headers["x-request-id"]


async def test_a_form_is_no_document(api: ApiHome) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", "", "application/json; charset=latin-1"):
        answer = await api.client.post("/api/v1/jobs", content=b"{}", headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()["code"]) == (415, "media-type"), kind


async def test_a_server_that_is_full_says_so_and_empties_again() -> None:
    async with api_home(limits=ApiLimits(requests_max=1)) as api:
        await api.submit("sleep", "600", name="busy", graceSeconds=0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(api.client.get, "/api/v1/jobs/busy/logs?follow=true")
            with anyio.fail_after(120):
                while (answer := await api.client.get("/healthz")).status_code == 200:
                    await anyio.lowlevel.checkpoint()
            assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (
                503,
                "overloaded",
                "1",
            )
            refused = await api.client.post("/api/v1/jobs", json=manifest("true"))
            assert refused.status_code == 503
            tasks.cancel_scope.cancel()
        assert (await api.client.get("/healthz")).status_code == 200


async def test_a_body_that_does_not_come_is_given_up(api: ApiHome, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.submit("true", name="open", suspend=True)
    monkeypatch.setattr(bodies, "DOCUMENT_SECONDS_MAX", 0.1)
    monkeypatch.setattr(bodies, "IDLE_SECONDS_MAX", 0.1)

    async def stuck() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep_forever()

    before = await api.trace()
    for method, path in (("POST", "/api/v1/jobs"), ("PUT", "/api/v1/jobs/open/artifacts?path=x")):
        answer = await api.client.request(method, path, content=stuck(), headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (408, "too-slow")
    assert await api.trace() == before
