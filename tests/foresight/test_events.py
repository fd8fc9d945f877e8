"""What happened is recorded, can be followed and written out, and what was written out can be replayed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import anyio
import msgspec
import pytest

from tests.api.home import DEADLINE_SECONDS, ApiHome, api_home
from tests.api.live import live_home
from tests.core.pool_home import GROW, a_pool, node_of
from tests.e2e.server import WindlassServer
from windlass.adapters.readmodel.events import NODE_EVENTS_MAX
from windlass.adapters.readmodel.sqlite import SqliteReadTables
from windlass.cli.render.figures import headline
from windlass.cli.traces import read_trace
from windlass.core.errors import Invalid
from windlass.core.foresight.eventlog import read_event_log
from windlass.core.foresight.measures import compare
from windlass.core.foresight.simulate import simulate
from windlass.core.foresight.variant import parse_variant
from windlass.core.model.calendar import day_of
from windlass.core.model.facts import RunEnded
from windlass.core.model.ids import Millis, NodeId, PoolId, TenantId
from windlass.core.model.money import Micros
from windlass.core.model.node import NodeState
from windlass.core.model.pool import Worker
from windlass.core.model.run import RunState
from windlass.core.model.spending import DayTotal, PoolTotal
from windlass.core.model.tenant import Budget, Tenant
from windlass.core.model.views import EventQuery
from windlass.core.world.facts import observe
from windlass.core.world.records import Table, WorkerOver, encode, store_key
from windlass.core.world.spending import check_budget, total_id
from windlass.core.world.workers import join_node
from windlass.ports.store import Change
from windlass.testing.builders import a_node
from windlass.testing.provisioner import MemoryProvisioner

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
        assert (await api.client.get(RECORDED, params={"job": ""})).status_code == 400, "not that of all of them"
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


# — pools, workers, budgets —


async def until_recorded(api: ApiHome, *wanted: str) -> list[dict[str, Any]]:
    """All that an admin sees, once those kinds are among it."""
    read_model = api.home.plane.read_model
    with anyio.fail_after(DEADLINE_SECONDS):
        while True:
            seen = read_model.revision
            page = await recorded(api, roles=("admin",))
            if set(wanted) <= set(kinds(page)):
                return list(page["items"])
            await read_model.beyond(seen)


@pytest.mark.anyio
async def test_a_pool_and_its_workers_tell_how_they_grew_failed_served_and_went() -> None:
    async with api_home() as api:
        plane = api.home.plane
        world = plane.brain.world
        await plane.pools.create(
            a_pool(workers_max=1, cooldown_up_ms=Millis(0), cooldown_down_ms=Millis(3_600_000)), None
        )
        await api.submit("sleep", "99999", name="mine", pool="grow")
        await until_recorded(api, "PoolGrown", "WorkerFailing")
        (worker,) = world.tables.fleet.workers.values()
        await plane.brain.decide(lambda now: join_node(world, node_of(worker, world), now=now))
        await until_recorded(api, "WorkerReady", "Scheduled")
        await plane.pools.cordon(worker.id)
        await api.client.post("/api/v1/jobs/mine/cancel")
        (run,) = world.tables.runs.values()  # nobody serves that node: its end is told in its stead
        stopped = RunEnded(run=run.id, token=run.token, state=RunState.STOPPED, reason="Cancelled")
        await plane.brain.decide(lambda now: observe(world, stopped, now=now))
        plane.autoscaler._provisioners = {"slice": MemoryProvisioner()}
        await plane.pools.drain(worker.id)
        told = await until_recorded(api, "WorkerRemoved")
        of_worker = [event["kind"] for event in told if event.get("node") == worker.id and "job" not in event]
        order = ["WorkerFailing", "NodeJoined", "WorkerReady", "NodeCordoned", "WorkerEnding", "NodeDraining"]
        assert [kind for kind in of_worker if kind in order] == order
        assert {"NodeRemoved", "WorkerRemoved"} <= set(of_worker)
        by_kind = {event["kind"]: event for event in told}
        assert by_kind["PoolGrown"]["message"] == "+1 (depth 1 ≥ 1, 1 for each worker)"
        assert "there is nobody here who could make" in by_kind["WorkerFailing"]["message"]
        assert (by_kind["WorkerRemoved"]["pool"], by_kind["WorkerRemoved"]["message"]) == ("grow", "after 1 run")
        assert not {"PoolGrown", "WorkerReady"} & set(kinds(await recorded(api))), "not a member's to see"


@pytest.mark.anyio
async def test_every_threshold_of_a_budget_is_told_once_to_its_tenant() -> None:
    async with api_home() as api:
        plane, local = api.home.plane, TenantId("local")
        world = plane.brain.world

        def spend(now: Millis, micros: int) -> None:
            day = day_of(now)
            with world.decision(now):
                total = DayTotal(tenant=local, day=day, pools={PoolId("local"): PoolTotal(cost=Micros(micros))})
                world.put(Table.TOTALS, total_id(local, day), total)
                check_budget(world, local, now)

        limited = Tenant(id=local, budget=Budget(per_month=Micros(1_000)))
        await plane.brain.decide(lambda now: world.set_tenant(limited, now=now))
        for micros in (400, 800, 800, 2_000):
            await plane.brain.decide(lambda now, micros=micros: spend(now, micros))
        assert await plane.read_model.caught_up(timeout=DEADLINE_SECONDS)
        told = [event for event in (await recorded(api))["items"] if event["kind"] == "BudgetThreshold"]
        assert [event["message"].partition(" %")[0] for event in told] == ["50", "75", "90", "100"]
        assert {event["tenant"] for event in told} == {"local"}
        assert "BudgetThreshold" not in kinds(await recorded(api, tenant="other"))


def test_what_a_snapshot_brings_again_is_told_once_and_all_of_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.adapters.readmodel.events.FLEET_EVENTS_MAX", 40)
    tables = SqliteReadTables(":memory:")
    worker = Worker(id=NodeId("w"), pool=GROW, home=NodeId("n1"), asked_at=Millis(5))
    for number in range(1, 61):
        gone = WorkerOver(worker=msgspec.structs.replace(worker, id=NodeId(f"w{number}")), at=Millis(number))
        change = Change(revision=number, key=store_key(Table.OUTBOX, f"worker-w{number}"), value=encode(gone))
        tables.apply([change], number)
    tables.reset([change], 61)
    kept = tables.events(EventQuery(tenants=("",), limit=1_000))
    assert [event.node for event in kept] == [f"w{number}" for number in range(21, 61)]
    tables.close()


def test_of_workers_that_came_and_went_a_replay_has_as_many_as_there_were_at_once() -> None:
    lines = [
        f'{{"kind": "{kind}", "at": "2026-01-01T00:00:0{at}Z", "node": "{node}", "pool": "grow"{has}}}'
        for at, (kind, node) in enumerate(
            [("NodeJoined", "a"), ("NodeJoined", "b"), ("NodeRemoved", "a"), ("NodeJoined", "c"), ("NodeJoined", "c")]
        )
        for has in [', "capacity": {"cpu": "1", "memory": "1Gi"}' if kind == "NodeJoined" else ""]
    ]
    (pool,) = read_event_log(lines).pools
    assert (pool.name, pool.nodes) == ("grow", 2)


def node_line(kind: str, node: str, seconds: int, cpu: int = 0, *, pool: str = "local") -> str:
    has = {"capacity": {"cpu": str(cpu), "memory": "8Gi"}} if cpu else {}
    at = f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"
    return msgspec.json.encode({"kind": kind, "at": at, "node": node, "pool": pool, **has}).decode()


def job_lines(name: str, came: int, ran: int, cpu: int) -> list[str]:
    """That it began when it came is not what is replayed; how long it took is."""
    asked = {"resources": {"cpu": str(cpu), "memory": "1Gi"}}
    common = {"job": name, "name": name, "tenant": "local"}
    moments = (("Accepted", came), ("Running", came), ("Succeeded", came + ran))
    return [
        msgspec.json.encode(
            {"kind": kind, "at": f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z", **common}
            | ({"asked": asked} if kind == "Accepted" else {})
        ).decode()
        for kind, at in moments
    ]


def test_a_node_that_changes_its_size_is_one_node_in_a_replay_and_changes_there_too() -> None:
    """Three jobs of two cores each: side by side on four cores, one after the other on two."""
    lines = [
        node_line("NodeJoined", "n1", 0, cpu=8),
        node_line("NodeChanged", "n1", 1, cpu=4),
        *job_lines("a", 10, 60, cpu=2),
        *job_lines("b", 10, 60, cpu=2),
        node_line("NodeChanged", "n1", 90, cpu=2),
        node_line("NodeCordoned", "n1", 91, cpu=2),
        *job_lines("c", 100, 30, cpu=2),
        *job_lines("d", 100, 30, cpu=2),
    ]
    trace = read_event_log(lines)
    (pool,) = trace.pools
    assert (pool.name, pool.nodes, pool.each.cpu_millis) == ("local", 1, 4_000)
    report = compare(trace, [parse_variant("wfq")])
    assert report.nodes == 1
    outcome = simulate(trace, parse_variant("wfq"))
    began = {trace.jobs[run.job].name: run.began // 1000 for run in outcome.runs}
    assert began == {"a": 0, "b": 0, "c": 90, "d": 120}
    (figures,) = report.figures
    assert figures.utilisation == round((2 * 60 * 2 + 2 * 30 * 2) / (80 * 4 + 70 * 2), 4)
    assert max(figures.busy) == 1


def test_workers_of_a_new_size_take_the_places_of_the_old_ones_in_a_replay() -> None:
    lines = [
        *(node_line("NodeJoined", node, 0, cpu=1, pool="grow") for node in "ab"),
        *job_lines("first", 10, 10, cpu=1),
        *(node_line("NodeRemoved", node, 60, pool="grow") for node in "ab"),
        *(node_line("NodeJoined", node, 90, cpu=4, pool="grow") for node in "cde"),
        *job_lines("large", 100, 10, cpu=4),
    ]
    trace = read_event_log(lines)
    assert [(pool.name, pool.nodes, pool.each.cpu_millis) for pool in trace.pools] == [
        ("grow", 2, 1_000),
        ("grow~2", 1, 4_000),
    ]
    outcome = simulate(trace, parse_variant("wfq pool.grow=1"))
    assert [run.node for run in outcome.runs] == ["grow/00001", "grow/00001"]


def test_a_record_that_is_out_of_order_is_refused_and_one_that_begins_in_the_middle_is_not() -> None:
    lines = [node_line("NodeJoined", "n1", 0, cpu=8), *job_lines("a", 10, 60, cpu=2)]
    assert len(read_event_log([*lines[2:], *job_lines("b", 10, 60, cpu=2)]).jobs) == 1
    with pytest.raises(Invalid) as refused:
        read_event_log(reversed(lines))
    (fault,) = refused.value.faults
    assert (fault.field, "out of order" in fault.message) == ("line 3", True)


def labelled(lines: list[str], **labels: str) -> list[str]:
    """The same, of jobs that ask for nodes with these labels."""
    documents = [msgspec.json.decode(line) for line in lines]
    documents[0]["asked"]["nodeSelector"] = labels
    return [msgspec.json.encode(document).decode() for document in documents]


def test_jobs_that_asked_for_labels_are_replayed_on_the_nodes_that_had_them() -> None:
    own = msgspec.json.decode(node_line("NodeJoined", "n3", 0, cpu=1)) | {"labels": {"disk": "ssd"}}
    lines = [
        node_line("NodeJoined", "n1", 0, cpu=8),
        msgspec.json.encode(own).decode(),
        '{"kind": "PoolLabelled", "at": "2026-01-01T00:00:00Z", "pool": "cd", "labels": {"k": "cd"}}',
        node_line("NodeJoined", "n2", 0, cpu=1, pool="cd"),
        *(line for name in "abc" for line in labelled(job_lines(name, 10, 20, cpu=1), k="cd")),
        *(line for name in "de" for line in labelled(job_lines(name, 10, 20, cpu=1), disk="ssd")),
        *job_lines("f", 10, 20, cpu=1),
    ]
    trace = read_event_log(lines)
    assert trace.passed_over == 0
    outcome = simulate(trace, parse_variant("wfq"))
    began = {trace.jobs[run.job].name: run.began // 1000 for run in outcome.runs}
    assert began == {"a": 0, "b": 20, "c": 40, "d": 0, "e": 20, "f": 0}


def test_labels_that_no_node_of_the_record_is_known_to_have_are_passed_over_and_counted() -> None:
    lines = [
        node_line("NodeJoined", "n1", 0, cpu=8),
        *(line for name in "ab" for line in labelled(job_lines(name, 10, 20, cpu=1), k="cd")),
        *job_lines("c", 10, 20, cpu=1),
    ]
    trace = read_event_log(lines)
    report = compare(trace, [parse_variant("wfq")])
    assert (report.passed_over, report.figures[0].started) == (2, 3)
    assert headline(report).endswith("; 1 node in 1 pool, node labels of 2 jobs passed over")


@pytest.mark.anyio
async def test_what_a_job_asked_of_its_nodes_labels_is_recorded_and_what_pools_give_theirs() -> None:
    async with api_home() as api:
        plane = api.home.plane
        await plane.pools.create(msgspec.structs.replace(a_pool(), labels=(("k", "cd"),)), None)
        job = await api.submit("true", nodeSelector={"k": "cd"})
        await plane.pools.change(GROW, lambda pool, prices: (msgspec.structs.replace(pool, labels=()), prices))
        page = await recorded(api, roles=("admin",))
        accepted = next(event for event in page["items"] if event.get("job") == job["metadata"]["uid"])
        assert accepted["asked"]["nodeSelector"] == {"k": "cd"}
        told = [event for event in page["items"] if event["kind"] == "PoolLabelled"]
        assert [(one["pool"], one["message"], one.get("labels")) for one in told] == [
            (GROW, "k=cd", {"k": "cd"}),
            (GROW, "none any more", None),
        ]


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
    trace = read_trace(str(log))
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
