"""SIGKILLs at random moments, under load, with containers running: the checkers of the promises, on real parts."""

import json
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.chaos.clients import Submitters, post
from tests.chaos.witness import Witness
from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for
from windlass.client.documents import Manifest

CLIENTS = 64
JOBS_A_LIFE = 120
STARTS_A_LIFE = 12
"""A life lasts until none to so many have started: as many on a slow machine as on a fast one."""
RUN_A_KILL = 10
"""At least so many of the short ones run, most of them over the kills; the rest of the backlog is cancelled."""


@pytest.mark.parametrize("kills", [8, pytest.param(20, marks=pytest.mark.soak)], ids=lambda n: f"{n} kills")
def test_nothing_accepted_is_lost_nothing_starts_twice_and_what_runs_goes_on(
    kills: int, docker_engine: DockerEngine
) -> None:
    chance = random.Random(20261115)
    with Witness(docker_engine) as witness, WindlassServer(docker_host=docker_engine.host) as server:
        long = start_long_running(server, count=kills)
        lives = {run: life(docker_engine, run) for run in long}
        with Submitters(server, a_manifest("true"), count=CLIENTS) as clients:
            for _ in range(kills):
                accepted, started = len(clients.acknowledged), witness.heard + chance.randint(0, STARTS_A_LIFE)
                clients.allow(JOBS_A_LIFE)
                wait_for(lambda: len(clients.acknowledged) > accepted, 120, "the server to accept again")  # noqa: B023
                wait_for(lambda: witness.heard >= started, 120, "the server to start what it accepted")  # noqa: B023
                time.sleep(chance.uniform(0, 0.4))  # the moment of the kill is the chance under test
                server.kill()
                server.start()
                assert {run: life(docker_engine, run) for run in long} == lives
        run_to_their_end = kills * RUN_A_KILL
        started_over_kills = len(witness.starts()) - len(long)
        assert clients.failures == []
        assert len(clients.acknowledged) >= CLIENTS
        check_answers_repeat(server, clients)
        wait_for(lambda: witness.heard >= len(long) + run_to_their_end, 300, "short ones to start")
        wait_for(lambda: succeeded(server) >= run_to_their_end, 300, "short ones to run to their end")
        end_everything(server)
        check_all_over(server, clients, long=len(long))
        wait_for(lambda: not ours(server, docker_engine), 120, "every container to go")
        assert witness.starts() == every_attempt(server)
        print(
            f"\nkills {kills}, acknowledged {len(clients.acknowledged)}, after a repeat {clients.repeated}, "
            f"started over the kills {started_over_kills}, in all {len(witness.starts())}, succeeded {succeeded(server)}"
        )


def a_manifest(*command: str) -> dict[str, object]:
    spec = {"image": IMAGE, "command": list(command), "resources": {"cpu": "10m", "memory": "8Mi"}, "graceSeconds": 1}
    return {"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {}, "spec": spec}


def start_long_running(server: WindlassServer, *, count: int) -> list[str]:
    """They hold little, so that the short ones behind them really run, as many at a time as the engine takes."""
    body = json.dumps(a_manifest("sleep", "3600")).encode()
    answers = [post(server, "/api/v1/jobs", body, {}) for _ in range(count)]
    uids = [json.loads(answer)["metadata"]["uid"] for status, answer in answers if status == 201]
    assert len(uids) == count
    running = lambda: len(server.cli("get", "jobs", "--state", "RUNNING", "-o", "name").out.split())  # noqa: E731
    wait_for(lambda: running() == count, 120, "the long ones to run")
    return [f"{uid}-1" for uid in uids]


def life(engine: DockerEngine, run: str) -> tuple[bool, int, str]:
    """A container that was ended and started again has another time of start, and may have the same pid."""
    state = engine.inspect(run)["State"]
    return state["Running"], state["Pid"], state["StartedAt"]


def check_answers_repeat(server: WindlassServer, clients: Submitters) -> None:
    """The same key gives the same answer, byte for byte, also after all those deaths."""
    body = json.dumps(a_manifest("true")).encode()
    for key, answer in random.Random(1).sample(sorted(clients.acknowledged.items()), 50):
        assert post(server, "/api/v1/jobs", body, {"Idempotency-Key": key}) == (201, answer)


def end_everything(server: WindlassServer) -> None:
    """The rest of the backlog is cancelled: draining thousands of containers would prove nothing more."""
    with ThreadPoolExecutor(16) as pool:
        for manifest in alive(server):
            pool.submit(post, server, f"/api/v1/jobs/{manifest['metadata']['uid']}/cancel", b"", {})
    wait_for(lambda: not alive(server), 120, "everything to end")


def check_all_over(server: WindlassServer, clients: Submitters, *, long: int) -> None:
    seen = {manifest["metadata"]["uid"]: manifest for manifest in server.client().jobs()}
    lost = clients.uids - seen.keys()
    assert not lost, f"{len(lost)} acknowledged jobs are lost"
    phantom = len(seen) - long - len(clients.acknowledged)
    assert 0 <= phantom <= CLIENTS, "more jobs than were asked for"  # the last request of each client may be unanswered
    states = {manifest["status"]["state"] for manifest in seen.values()}
    assert states <= {"SUCCEEDED", "CANCELLED"}, states


def succeeded(server: WindlassServer) -> int:
    return len(list(server.client().jobs(state=["SUCCEEDED"])))


def every_attempt(server: WindlassServer) -> Counter[str]:
    """By our own books: each run that was started, once."""
    statuses = [manifest["status"] for manifest in server.client().jobs()]
    return Counter(status["podName"] for status in statuses if status["startedAt"])


def alive(server: WindlassServer) -> list[Manifest]:
    return list(server.client().jobs(state=["PENDING", "SCHEDULED", "STARTING", "RUNNING"]))


def ours(server: WindlassServer, engine: DockerEngine) -> list[str]:
    """Of this installation: the engine is everybody's."""
    installation = json.loads((server.data / "installation.json").read_text())["installation"]
    return [one["Id"] for one in engine.containers() if one["Labels"].get("windlass.dev/installation") == installation]
