"""Twenty SIGKILLs at random moments, under load, with containers running: the checkers of the promises, on real parts."""

import json
import random
import time

from tests.chaos.clients import Submitters, post
from tests.chaos.witness import Witness
from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for
from windlass.client.documents import Manifest

KILLS = 20
CLIENTS = 64
LONG_RUNNING = 20
JOBS_A_LIFE = 120


def test_nothing_accepted_is_lost_nothing_starts_twice_and_what_runs_goes_on(
    docker_engine: DockerEngine,
) -> None:
    chance = random.Random(20261115)
    since = time.time()
    with WindlassServer(docker_host=docker_engine.host) as server:
        long = start_long_running(server)
        pids = {run: pid(docker_engine, run) for run in long}
        with Submitters(server, a_manifest("true"), count=CLIENTS) as clients:
            for _ in range(KILLS):
                before = len(clients.acknowledged)
                clients.allow(JOBS_A_LIFE)
                wait_for(lambda: len(clients.acknowledged) > before, 120, "the server to accept again")  # noqa: B023
                time.sleep(chance.uniform(0, 0.4))  # the moment of the kill is the chance under test
                server.kill()
                server.start()
                assert {run: pid(docker_engine, run) for run in long} == pids
        assert clients.failures == []
        assert len(clients.acknowledged) >= CLIENTS
        check_answers_repeat(server, clients)
        end_everything(server)
        check_all_over(server, clients)
        Witness(docker_engine, since).check_no_double_start()
        wait_for(lambda: not ours(server, docker_engine), 120, "every container to go")
        print(f"\nkills {KILLS}, acknowledged {len(clients.acknowledged)}, after a repeat {clients.repeated}")


def a_manifest(*command: str, cpu: str = "10m") -> dict[str, object]:
    spec = {"image": IMAGE, "command": list(command), "resources": {"cpu": cpu, "memory": "8Mi"}, "graceSeconds": 1}
    return {"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {}, "spec": spec}


def start_long_running(server: WindlassServer) -> list[str]:
    """They hold most of the machine, so that the queue behind them grows and a few short ones run at a time."""
    body = json.dumps(a_manifest("sleep", "3600", cpu="95m")).encode()
    answers = [post(server, "/api/v1/jobs", body, {}) for _ in range(LONG_RUNNING)]
    uids = [json.loads(answer)["metadata"]["uid"] for status, answer in answers if status == 201]
    assert len(uids) == LONG_RUNNING
    running = lambda: len(server.cli("get", "jobs", "--state", "RUNNING", "-o", "name").out.split())  # noqa: E731
    wait_for(lambda: running() == LONG_RUNNING, 120, "the long ones to run")
    return [f"{uid}-1" for uid in uids]


def pid(engine: DockerEngine, run: str) -> int:
    return int(engine.inspect(run)["State"]["Pid"])


def check_answers_repeat(server: WindlassServer, clients: Submitters) -> None:
    """The same key gives the same answer, byte for byte, also after all those deaths."""
    body = json.dumps(a_manifest("true")).encode()
    for key, answer in random.Random(1).sample(sorted(clients.acknowledged.items()), 50):
        assert post(server, "/api/v1/jobs", body, {"Idempotency-Key": key}) == (201, answer)


def end_everything(server: WindlassServer) -> None:
    """The backlog is cancelled: draining thousands of containers would prove nothing more."""
    for manifest in alive(server):
        post(server, f"/api/v1/jobs/{manifest['metadata']['uid']}/cancel", b"", {})
    wait_for(lambda: not alive(server), 120, "everything to end")


def check_all_over(server: WindlassServer, clients: Submitters) -> None:
    seen = {manifest["metadata"]["uid"]: manifest for manifest in server.client().jobs()}
    lost = clients.uids - seen.keys()
    assert not lost, f"{len(lost)} acknowledged jobs are lost"
    phantom = len(seen) - LONG_RUNNING - len(clients.acknowledged)
    assert 0 <= phantom <= CLIENTS, "more jobs than were asked for"  # the last request of each client may be unanswered
    states = {manifest["status"]["state"] for manifest in seen.values()}
    assert states <= {"SUCCEEDED", "CANCELLED"}, states


def alive(server: WindlassServer) -> list[Manifest]:
    return list(server.client().jobs(state=["PENDING", "SCHEDULED", "STARTING", "RUNNING"]))


def ours(server: WindlassServer, engine: DockerEngine) -> list[str]:
    """Of this installation: the engine is everybody's."""
    installation = json.loads((server.data / "installation.json").read_text())["installation"]
    return [one["Id"] for one in engine.containers() if one["Labels"].get("windlass.dev/installation") == installation]
