"""SIGKILL between a worker's record and the act it asks for: none is lost, none is left over, its jobs end."""

import pytest

from tests.chaos.test_failpoints import armed
from tests.e2e.server import WindlassServer
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
        wait_for(lambda: _state(server) == "SUCCEEDED", 90, "the job to end")
        wait_for(lambda: _workers(server) == 0, 90, "the worker to be given back")
        assert list((server.data / "node" / "slices").iterdir()) == []
        nodes = server.cli("get", "nodes", "-o", "json").json()["items"]
        assert [node["pool"] for node in nodes] == ["local"]


def _state(server: WindlassServer) -> str:
    return str(server.cli("get", "job", "one", "-o", "json").json()["status"]["state"])


def _workers(server: WindlassServer) -> int:
    return len(server.cli("pools", "show", "grow", "-o", "json").json()["status"]["workers"])
