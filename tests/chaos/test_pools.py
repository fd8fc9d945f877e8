"""SIGKILL between a worker's record and the act it asks for: none is lost, none is left over, its jobs end."""

import secrets
from pathlib import Path

import pytest

from tests.chaos.test_failpoints import armed
from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for

POOL = """
apiVersion: windlass.dev/v1
kind: Pool
metadata: {name: grow}
spec:
  kind: dynamic
  scaling:
    max: 1
    worker: {cpu: 200m, memory: 64Mi}
    triggers: [{measure: depth, up: 1, down: 0, target: 1}]
    cooldownUp: 0
    cooldownDown: 0
---
apiVersion: windlass.dev/v1
kind: Job
metadata: {name: one}
spec: {command: ["true"], pool: grow, resources: {cpu: 100m, memory: 16Mi}}
"""


@pytest.mark.parametrize(
    "place",
    ["scale.after_commit_before_act", "scale.after_commit_before_act@2", "scale.after_end_before_forget"],
    ids=["asked", "ending", "ended"],
)
def test_a_worker_survives_a_server_killed_between_its_record_and_the_act(place: str) -> None:
    with WindlassServer(environ=armed(place)) as server:
        server.cli("apply", "-f", "-", input=POOL, check=False)
        wait_for(lambda: not server.is_running, 120, f"the server to die at {place}")
        server.extra = {}
        server.start()
        server.cli("apply", "-f", "-", input=POOL)
        wait_for(lambda: _state(server) == "SUCCEEDED", 180, "the job to end")
        wait_for(lambda: _workers(server) == 0, 180, "the worker to be given back")
        assert list((server.data / "node" / "slices").iterdir()) == []
        nodes = server.cli("get", "nodes", "-o", "json").json()["items"]
        assert [node["pool"] for node in nodes] == ["local"]


LASTING = """
apiVersion: windlass.dev/v1
kind: Pool
metadata: {name: %(pool)s}
spec:
  kind: dynamic
  scaling:
    max: 1
    worker: {cpu: 200m, memory: 64Mi}
    triggers: [{measure: depth, up: 1, down: 0, target: 1}]
    cooldownUp: 0
    cooldownDown: 0
---
apiVersion: windlass.dev/v1
kind: Job
metadata: {name: %(job)s}
spec: {image: "%(image)s", command: [sleep, "3600"], pool: %(pool)s, resources: {cpu: 100m, memory: 16Mi}}
"""


@pytest.mark.docker
def test_a_killed_server_leaves_no_cgroup_of_a_slice_behind_whether_it_comes_back_or_is_purged(
    docker_engine: DockerEngine,
) -> None:
    pool = f"p{secrets.token_hex(4)}"
    with WindlassServer(docker_host=docker_engine.host) as server:
        server.cli("apply", "-f", "-", input=LASTING % {"pool": pool, "job": "one", "image": IMAGE})
        wait_for(lambda: _state(server) == "RUNNING", 180, "the job to run")
        assert _cgroups(pool)
        server.kill()
        server.start()
        wait_for(lambda: _workers(server, pool) == 1, 180, "the slice to come back")
        assert (_state(server), bool(_cgroups(pool))) == ("RUNNING", True), "adopted where it was"
        server.cli("cancel", "one")
        wait_for(lambda: _workers(server, pool) == 0, 180, "the worker to be given back")
        assert _cgroups(pool) == []
        server.cli("apply", "-f", "-", input=LASTING % {"pool": pool, "job": "two", "image": IMAGE})
        wait_for(lambda: _state(server, "two") == "RUNNING", 180, "the next to run")
        assert _cgroups(pool)
        server.kill()
        server.cli("down", "--purge", "--yes")
        assert _cgroups(pool) == []


def _cgroups(pool: str) -> list[Path]:
    """Of its workers, in any hierarchy: nobody else has a pool of that name."""
    top = Path("/sys/fs/cgroup")
    return [*top.glob(f"*/windlass-*/*{pool}-*"), *top.glob(f"windlass-*/*{pool}-*")]


def _state(server: WindlassServer, job: str = "one") -> str:
    return server.state_of(job)


def _workers(server: WindlassServer, pool: str = "grow") -> int:
    return len(server.cli("pools", "show", pool, "-o", "json").json()["status"]["workers"])
