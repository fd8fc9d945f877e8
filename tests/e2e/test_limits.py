"""Quota, burst and money on a real server: a thousand at once, killed in between, and sessions that end over a restart."""

import contextlib
import json
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Self
from uuid import uuid4

import anyio
import anyio.to_thread
import httpx2
import pytest

from tests.e2e.server import WindlassServer
from tests.parts.waiting import wait_for
from windlass.client.client import Client
from windlass.core.errors import OverLimit
from windlass.core.model.ids import Millis
from windlass.core.model.money import RATE_SCALE, rate
from windlass.core.model.resources import Resources

REQUESTS = 1000
LIMIT = 10
KILLS_AFTER = {"a server that lives": (), "a server that is killed in between": (3, 200)}
"""Answers seen before each kill."""
NEEDS = Resources(cpu_millis=10, memory_bytes=8 << 20)
UNHURRIED = {"perSecond": 1_000_000, "atOnce": 1_000_000}


@pytest.fixture
def server() -> Iterator[WindlassServer]:
    with WindlassServer() as running:
        yield running


def a_job(*command: str, **spec: Any) -> dict[str, Any]:
    needs = {"cpu": "10m", "memory": "8Mi"}
    spec = {"command": list(command or ("true",)), "resources": needs, "graceSeconds": 1, **spec}
    return {"apiVersion": "windlass.dev/v1", "kind": "Job", "spec": spec}


@pytest.mark.anyio
@pytest.mark.parametrize("kills_after", KILLS_AFTER.values(), ids=KILLS_AFTER)
async def test_a_thousand_at_once_leave_exactly_ten_also_when_the_server_is_killed_in_between(
    server: WindlassServer, kills_after: tuple[int, ...]
) -> None:
    reject = {"policy": "reject", "quota": {"jobs": LIMIT}, "rate": UNHURRIED}
    await anyio.to_thread.run_sync(lambda: server.client().change_tenant("local", reject))
    answers: dict[str, httpx2.Response] = {}
    limits = httpx2.Limits(max_connections=REQUESTS)
    async with httpx2.AsyncClient(limits=limits, timeout=300) as client:
        with UsageSampler(server) as usage:
            async with anyio.create_task_group() as tasks:
                for _ in range(REQUESTS):
                    tasks.start_soon(_until_answered, server, client, answers)
                for seen in kills_after:
                    with anyio.fail_after(120):
                        while len(answers) < seen:
                            await anyio.sleep(0.01)  # the fact awaited is the next answer
                    await anyio.to_thread.run_sync(server.kill)
                    await anyio.to_thread.run_sync(server.start)
    assert len(answers) == REQUESTS
    print(f"\n{len(usage.samples)} samples of usage beside {REQUESTS} requests")
    assert len(usage.samples) >= 3
    assert (max(usage.samples), usage.samples[-1]) == (LIMIT, LIMIT), "never more, and none lost"
    accepted = {one.json()["metadata"]["uid"] for one in answers.values() if one.status_code == 201}
    refused = [one for one in answers.values() if one.status_code != 201]
    assert len(accepted) == LIMIT
    assert {(one.status_code, one.json()["code"]) for one in refused} == {(429, "quota-jobs")}
    numbers = {"code": "quota-jobs", "used": LIMIT, "asked": 1, "limit": LIMIT, "unit": "jobs"}
    assert all(one.json()["limits"] == [numbers] for one in refused)
    assert all(int(one.headers["retry-after"]) >= 1 for one in refused)
    listed = await anyio.to_thread.run_sync(lambda: list(server.client().jobs(active=True)))
    assert {job["metadata"]["uid"] for job in listed} == accepted


def test_a_session_opened_by_a_full_quota_ends_on_time_over_a_restart_and_costs_what_it_says(
    server: WindlassServer,
) -> None:
    client = server.client()
    burst = {"factor": 2, "span": "20s", "cooldown": "1h"}
    client.change_tenant("local", {"policy": "burst", "quota": {"jobs": 1}, "burst": burst})
    jobs = [client.create(a_job("sleep", "3600"))["metadata"]["uid"] for _ in range(3)]
    [session] = wait_for(lambda: client.bursts("local")["items"], 120, "the session")  # seen while it is open
    wait_for(lambda: [_state(client, job) for job in jobs[:2]] == ["RUNNING"] * 2, 120, "two to run, one beyond")
    assert (session["openedBy"], session["state"], session["priceFactor"]) == ("policy", "open", 1.5)
    assert _seconds(session["endsAt"]) - _seconds(session["openedAt"]) == pytest.approx(20, abs=0.01)
    server.kill()
    server.start()
    client = server.client()
    wait_for(lambda: client.bursts("local")["items"][0]["state"] == "closed", 120, "the session to end")
    assert client.bursts("local")["items"][0]["endsAt"] == session["endsAt"]
    assert _state(client, jobs[2]) == "PENDING"
    with pytest.raises(OverLimit) as cooling:
        client.open_burst("local")
    assert (cooling.value.code, cooling.value.limits[0].code) == ("burst-cooldown", "burst-cooldown")
    for job in jobs:
        client.cancel(job)
    wait_for(lambda: {_state(client, job) for job in jobs} == {"CANCELLED"}, 120, "all to end")
    _check_price(client, jobs[1], session["endsAt"])


def test_a_session_that_is_asked_for_gives_more_at_once_and_only_so_often_a_day(server: WindlassServer) -> None:
    client = server.client()
    burst = {"factor": 2, "cooldown": 0, "sessionsPerDay": 2}
    client.change_tenant("local", {"policy": "queue", "quota": {"jobs": 1}, "burst": burst})
    jobs = [client.create(a_job("sleep", "3600"))["metadata"]["uid"] for _ in range(2)]
    wait_for(lambda: _state(client, jobs[0]) == "RUNNING", 120, "the first to run")
    assert client.job(jobs[1])["status"]["state"] == "PENDING"
    assert client.open_burst("local")["openedBy"] == "request"
    wait_for(lambda: _state(client, jobs[1]) == "RUNNING", 120, "the second, beyond the quota")
    with pytest.raises(OverLimit) as used_up:
        for _ in range(6):  # twice as often as two days allow
            client.end_burst("local")
            client.open_burst("local")
    assert used_up.value.code == "burst-per-day"
    assert (used_up.value.limits[0].used, used_up.value.limits[0].limit) == (2, 2)


def test_money_is_shown_on_the_command_line(server: WindlassServer) -> None:
    prices = json.dumps({"every": {"coreHour": 10**14}}).encode()
    put = httpx2.put(
        f"{server.url}/api/v1/prices",
        content=prices,
        headers={"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"},
    )
    assert put.status_code == 200, put.text
    server.cli("run", "--name", "dear", "--cpu", "1", "--memory", "1Gi", "--", "sleep", "0.5")
    shown = server.cli("cost", "--by", "job").out.splitlines()
    assert shown[0].split() == ["JOB", "COST", "BURST", "LIVE", "RUNS", "RAN"]
    assert shown[1].startswith("dear")
    assert "█" in shown[1]
    total = json.loads(server.cli("cost", "-o", "json").out)["total"]
    assert total == json.loads(server.cli("get", "jobs", "-o", "json").out)["items"][0]["status"]["cost"] > 0
    server.cli("tenants", "budget", "local", "--per-month", "0.00001", "--threshold", "50", "--threshold", "100")
    passed = server.cli("tenants", "budget", "local").out
    assert "50 % passed" in passed
    assert "100 % passed" in passed
    assert "has no budget" in server.cli("tenants", "budget", "local", "--per-month", "none").out
    assert "open" in server.cli("tenants", "burst", "local", "--open").out
    assert "closed" in server.cli("tenants", "burst", "local", "--end").out
    report = json.loads(server.cli("savings", "-o", "json").out)
    assert (report["runs"], report["measured"]) == (1, 1)
    [found] = report["items"]
    assert (found["kind"], found["evidence"]["jobs"]) == ("idle", ["dear"])
    assert 0 < found["saves"] < total


async def _until_answered(
    server: WindlassServer, client: httpx2.AsyncClient, answers: dict[str, httpx2.Response]
) -> None:
    """An unanswered request is neither accepted nor refused: it is repeated, with its key."""
    key = str(uuid4())
    body = json.dumps(a_job(suspend=True)).encode()
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json", "Idempotency-Key": key}
    while True:
        try:
            answer = await client.post(f"{server.url}/api/v1/jobs", content=body, headers=headers)
        except (httpx2.TransportError, OSError, ValueError):
            await anyio.sleep(0.05)  # the server is down; the fact awaited is its next answer
            continue
        if answer.status_code != 503:
            answers[key] = answer
            return
        await anyio.sleep(0.05)


class UsageSampler:
    """What the tenant holds while others race, as often as the server tells; in a thread, so that it gets its turn."""

    def __init__(self, server: WindlassServer) -> None:
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample_for_ever, daemon=True)
        self.samples: list[int] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)
        self._sample()

    def _sample_for_ever(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(httpx2.HTTPError, OSError, ValueError):  # it is down; its next answer counts
                self._sample()

    def _sample(self) -> None:
        headers = {"Authorization": f"Bearer {self._server.token}"}
        answer = httpx2.get(f"{self._server.url}/api/v1/tenants/local", headers=headers, timeout=60)
        if answer.status_code == 200:
            self.samples.append(answer.json()["status"]["jobs"])


def _state(client: Client, job: str) -> str:
    return str(client.job(job)["status"]["state"])


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _check_price(client: Client, job: str, ends_at: str) -> None:
    """Half as much again until the session's end, the plain price after; to the micro-unit."""
    [run] = client.job(job)["status"]["runs"]
    started = round(_seconds(run["startedAt"]) * 1000)
    in_burst = max(0, round(_seconds(ends_at) * 1000) - started)
    item = next(one for one in client.costs(by=["job"])["items"] if one["uid"] == job)
    ran_ms = round(item["seconds"] * 1000)
    plain = rate(NEEDS)
    assert item["burstCost"] == plain * 3 // 2 * in_burst // RATE_SCALE
    assert item["cost"] == (plain * 3 // 2 * in_burst + plain * (ran_ms - in_burst)) // RATE_SCALE
    assert item["cost"] == client.job(job)["status"]["cost"]
    assert Millis(ran_ms) > 0
