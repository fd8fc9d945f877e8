"""What happened is recorded, can be followed and written out, and what was written out can be replayed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import anyio
import msgspec
import pytest

from tests.api.home import ApiHome, api_home
from tests.api.live import live_home
from tests.e2e.server import WindlassServer
from windlass.adapters.readmodel.events import NODE_EVENTS_MAX
from windlass.adapters.readmodel.sqlite import SqliteReadTables
from windlass.cli.traces import read_trace
from windlass.core.errors import Invalid
from windlass.core.foresight.eventlog import read_event_log
from windlass.core.foresight.simulate import simulate
from windlass.core.foresight.swf import TenantBy
from windlass.core.foresight.variant import parse_variant
from windlass.core.model.ids import TenantId
from windlass.core.model.node import NodeState
from windlass.core.model.tenant import Tenant
from windlass.core.model.views import EventQuery
from windlass.core.world.records import Table, encode, store_key
from windlass.ports.store import Change
from windlass.testing.builders import a_node

RECORDED = "/api/v1/events/recorded"


@pytest.fixture(scope="module")
def server() -> Iterator[WindlassServer]:
    with WindlassServer() as started:
        yield started


async def recorded(api: ApiHome, *, roles: tuple[str, ...] = ("member",), tenant: str = "local", **query: Any) -> Any:
    answer = await api.client.get(RECORDED, params=query, headers=api.bearer(roles=roles, tenant=tenant))
    assert answer.status_code == 200, answer.text
    return answer.json()


def kinds(page: Any) -> list[str]:
    return [event["kind"] for event in page["items"]]


@pytest.mark.anyio
async def test_a_jobs_life_is_recorded_with_what_it_asked_for() -> None:
    async with api_home() as api:
        job = await api.submit("true", priority=7)
        await api.until(job["metadata"]["uid"])
        page = await recorded(api)
        first, *_, last = page["items"]
        assert (first["kind"], first["name"], first["tenant"]) == ("Accepted", job["metadata"]["name"], "local")
        assert first["asked"] == {"resources": job["spec"]["resources"], "priority": 7}
        assert last["kind"] == "Succeeded"
        assert page["next"] is None


@pytest.mark.anyio
async def test_an_admin_sees_nodes_too_and_a_member_only_its_own_tenant() -> None:
    async with api_home() as api:
        world = api.home.plane.brain.world
        await api.home.plane.brain.decide(lambda now: world.set_tenant(Tenant(id=TenantId("other")), now=now))
        await api.until((await api.submit("true"))["metadata"]["uid"])
        everything = await recorded(api, roles=("admin",))
        assert kinds(everything)[0] == "NodeJoined"
        assert everything["items"][0]["capacity"]["cpu"]
        assert set(kinds(await recorded(api))) & {"NodeJoined"} == set()
        assert (await recorded(api, tenant="other"))["items"] == []
        assert set(kinds(await recorded(api, tenant="other", roles=("admin",)))) == {"NodeJoined"}
        seen = await recorded(api, tenant="other", roles=("admin",), everyone="true")
        accepted = next(event for event in seen["items"] if event["kind"] == "Accepted")
        assert accepted["tenant"] == "local"
        assert accepted["asked"]
        assert "name" not in accepted
        refused = await api.client.get(RECORDED, params={"everyone": "true"})
        assert refused.status_code == 403


@pytest.mark.anyio
async def test_a_follower_hears_what_comes_and_resumes_after_what_it_heard() -> None:
    async with live_home() as live:
        api = live.api
        first = await api.submit("true")
        await api.until(first["metadata"]["uid"])
        page = await recorded(api, last=1)
        assert kinds(page) == ["Succeeded"]
        second = await api.submit("true")
        await api.until(second["metadata"]["uid"])
        after = page["items"][0]["revision"]
        heard: list[str] = []
        with anyio.fail_after(120):
            query = {"follow": "true", "after": str(after)}
            async with live.session.get(live.url + RECORDED, params=query) as stream:
                async for line in stream.content:
                    if line.startswith(b"data: "):
                        heard.append(msgspec.json.decode(line[6:])["name"])
                        if b'"Succeeded"' in line:
                            break
        assert set(heard) == {second["metadata"]["name"]}


@pytest.mark.anyio
async def test_the_record_of_one_job_is_found_by_its_name_and_pages_add_up() -> None:
    async with api_home() as api:
        jobs = [await api.submit("true") for _ in range(3)]
        for job in jobs:
            await api.until(job["metadata"]["uid"])
        mine = await recorded(api, job=jobs[1]["metadata"]["name"])
        assert {event["job"] for event in mine["items"]} == {jobs[1]["metadata"]["uid"]}
        whole = await recorded(api)
        tables = api.home.plane.read_model
        pages, after = [], 0
        while page := await tables.events(EventQuery(tenants=None, after=after, limit=5)):
            pages += page
            after = page[-1].revision
        assert [event.kind for event in pages if event.job] == kinds(whole)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"last": "0"}, 400),
        ({"last": "x"}, 400),
        ({"after": "-1"}, 400),
        ({"after": str(10**30)}, 400),
        ({"job": "x" * 64}, 400),
        ({"job": "nobody"}, 404),
        ({"what": "1"}, 400),
        ({"last": "3"}, 200),
    ],
)
async def test_the_record_refuses_what_cannot_be_meant(query: dict[str, str], status: int) -> None:
    async with api_home() as api:
        answer = await api.client.get(RECORDED, params=query)
        assert answer.status_code == status
        stale = await api.client.get(RECORDED, headers={"Last-Event-ID": "now"})
        assert stale.json()["code"] == "last-event-id"


def test_a_nodes_events_are_bounded_and_the_newest_stay() -> None:
    tables = SqliteReadTables(":memory:")
    node = a_node("n1")
    states = (NodeState.CORDONED, NodeState.ACTIVE)
    for number in range(NODE_EVENTS_MAX + 50):
        changed = msgspec.structs.replace(node, state=states[number % 2])
        change = Change(revision=number + 1, key=store_key(Table.NODES, "n1"), value=encode(changed))
        tables.apply([change], number + 1)
    kept = tables.events(EventQuery(tenants=None, subject="n1", limit=5_000))
    assert len(kept) == NODE_EVENTS_MAX
    assert kept[-1].revision == NODE_EVENTS_MAX + 50
    tables.close()


def test_jobs_that_were_run_are_replayed_in_the_same_order(server: WindlassServer, tmp_path: Path) -> None:
    client = server.client()
    cores = client.nodes()[0]["capacity"]["cpu"]
    # Each takes the whole machine, so that one runs at a time, and they are accepted in one decision.
    wishes = [
        {
            "kind": "Job",
            "apiVersion": "windlass.dev/v1",
            "metadata": {"name": f"replay-{number}"},
            "spec": {
                "command": ["true"],
                "priority": priority,
                "resources": {"cpu": cores, "memory": "64Mi", "gpu": 0},
            },
        }
        for number, priority in enumerate((0, 5, 0, 9, 5, 0, 1, 9))
    ]
    request = Request(
        f"{server.url}/api/v1/jobs/bulk",
        data=msgspec.json.encode({"items": wishes}),
        headers={"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"},
    )
    with urlopen(request, timeout=240) as answer:
        assert answer.status == 201
    over = 0
    for event in client.follow_recorded():
        over += event["kind"] == "Succeeded"
        if over == len(wishes):
            break
    log = tmp_path / "log.jsonl"
    log.write_text(server.cli("events", "--all", "-o", "json").out)
    documents = [msgspec.json.decode(line) for line in log.read_text().splitlines()]
    really = [document["name"] for document in documents if document["kind"] == "Running"]
    trace = read_trace(str(log), tenant_by=TenantBy.USER)
    outcome = simulate(trace, parse_variant("wfq"))
    assert [trace.jobs[run.job].name for run in outcome.runs] == really
    assert sorted(really) == [f"replay-{number}" for number in range(8)]
    assert "replay-3" in server.cli("events", "--job", "replay-3").out
    assert "wfq" in server.cli("simulate", str(log)).out


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"kind": "Accepted"}',
        '{"kind": "Accepted", "at": "yesterday"}',
        '{"kind": "Accepted", "at": "2026-01-01T00:00:00"}',
        '{"kind": "Accepted", "at": "2026-01-01T00:00:00Z", "job": "a", "asked": {"resources": {"cpu": "-1"}}}',
        '{"kind": "NodeJoined", "at": "2026-01-01T00:00:00Z", "capacity": {"memory": "1e9"}}',
    ],
)
def test_a_line_of_the_log_that_cannot_be_meant_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_event_log(['{"kind": "Running", "at": "2026-01-01T00:00:00Z", "job": "?"}', line])
    assert refused.value.faults[0].field == "line 2"
