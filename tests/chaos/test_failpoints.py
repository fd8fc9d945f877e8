"""SIGKILL at every place between a decision, its commit and its act: nothing is lost, nothing starts twice, all ends."""

import json
from pathlib import Path

import pytest

from tests.chaos.witness import Witness
from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for

PLACES = (
    "submit.after_validate",
    "submit.after_reserve",
    "submit.after_commit_before_ack",
    "sched.after_pick",
    "commit.after_write_before_settle@2",
    "commit.after_write_before_settle@4",
    "dispatch.after_send@2",
    "agent.after_ack_before_create",
    "agent.after_create_before_start",
    "agent.after_start_before_report",
    "agent.after_exit_before_report",
    "report.after_commit_before_ack@2",
    "report.after_commit_before_ack@3",
)


@pytest.mark.parametrize("place", PLACES)
def test_a_job_survives_a_server_killed(place: str, docker_engine: DockerEngine) -> None:
    with (
        Witness(docker_engine) as witness,
        WindlassServer(docker_host=docker_engine.host, environ=armed(place)) as server,
    ):
        job = submit_until_heard(server)
        wait_for(lambda: not server.is_running, 120, f"the server to die at {place}")
        server.extra = {}
        server.start()
        job = job or submit_until_heard(server)
        manifest = wait_for(lambda: over(server, job), 120, "the job to end")
        assert manifest["status"]["state"] == "SUCCEEDED", manifest
        uid = manifest["metadata"]["uid"]
        assert written_once(server, job)
        assert len(server.cli("get", "jobs", "-o", "json").json()["items"]) == 1
        wait_for(lambda: not ours(docker_engine, uid), 120, "the container to go")
        assert witness.starts() == {f"{uid}-1": 1}


def test_a_cancel_that_was_acknowledged_wins_over_a_killed_server(docker_engine: DockerEngine) -> None:
    with WindlassServer(docker_host=docker_engine.host, environ=armed("cancel.after_commit")) as server:
        server.cli("run", "--detach", "--name", "victim", IMAGE, "--", "sleep", "600")
        wait_for(lambda: server.state_of("victim") == "RUNNING", 120, "RUNNING")
        server.cli("cancel", "victim", check=False, timeout=240)
        wait_for(lambda: not server.is_running, 120, "the server to die")
        server.extra = {}
        server.start()
        wait_for(lambda: server.state_of("victim") == "CANCELLED", 120, "CANCELLED")


def test_a_volume_judged_before_a_kill_is_removed_after_it(docker_engine: DockerEngine) -> None:
    with WindlassServer(docker_host=docker_engine.host, environ=armed("ttl.after_judge_before_delete")) as server:
        server.cli("run", "--detach", "--name", "brief", "--volume-ttl", "0", IMAGE, "--", "true")
        wait_for(lambda: not server.is_running, 120, "the server to die")
        server.extra = {}
        server.start()
        wait_for(lambda: not server.cli("get", "volumes", "-o", "json").json()["items"], 120, "the volume to go")


def test_a_server_killed_over_a_new_network_leaves_none_that_nobody_owns(docker_engine: DockerEngine) -> None:
    place = "network.after_make_before_create"
    with (
        Witness(docker_engine) as witness,
        WindlassServer(docker_host=docker_engine.host, environ=armed(place)) as server,
    ):
        server.cli("tenants", "create", "vision")
        token = server.cli("tenants", "token", "vision").out.strip()
        server.cli(
            "--token", token, "run", "--detach", "--name", "survivor", IMAGE, "--", "true", check=False, timeout=240
        )
        wait_for(lambda: not server.is_running, 120, "the server to die")
        left = networks(docker_engine, server)
        server.extra = {}
        server.start()
        wait_for(lambda: state(server, "survivor", "--token", token) == "SUCCEEDED", 120, "the job to end")
        uid = server.cli("--token", token, "get", "job", "survivor", "-o", "json").json()["metadata"]["uid"]
        assert witness.starts() == {f"{uid}-1": 1}
        assert networks(docker_engine, server) == left  # found again, and used
        assert len(left) == 1
        server.cli("down")
        assert networks(docker_engine, server) == []


def networks(engine: DockerEngine, server: WindlassServer) -> list[str]:
    """The engine's ids of those that carry the installation's label."""
    ours = json.loads((server.data / "installation.json").read_text())["installation"]
    return [one["Id"] for one in engine.ask("/networks") if ours in (one.get("Labels") or {}).values()]


def armed(place: str) -> dict[str, str]:
    name, _, nth = place.partition("@")
    return {"WINDLASS_FAILPOINTS": f"{name}=kill@{nth or 1}"}


def submit_until_heard(server: WindlassServer) -> str:
    """The name when the server lived to answer; empty when it died over it."""
    script = "echo once >> /artifacts/starts"
    said = server.cli(
        "run", "--detach", "--name", "survivor", IMAGE, "--", "sh", "-c", script, check=False, timeout=240
    )
    return "survivor" if said.code in (0, 5) else ""


def state(server: WindlassServer, job: str, *options: str) -> str:
    return str(server.cli(*options, "get", "job", job, "-o", "json").json()["status"]["state"])


def over(server: WindlassServer, job: str) -> dict:  # type: ignore[type-arg]
    manifest = server.client().job(job)
    return manifest if manifest["status"].get("finishedAt") else {}


def written_once(server: WindlassServer, job: str) -> bool:
    target = Path(server.directory) / "out"
    server.cli("download", job, "-d", str(target))
    (starts,) = target.rglob("starts")
    return starts.read_text() == "once\n"


def ours(engine: DockerEngine, uid: str) -> list[str]:
    return [str(one["Names"]) for one in engine.containers() if uid in str(one["Names"])]
