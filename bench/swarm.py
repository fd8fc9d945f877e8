"""`make bench-swarm`: Docker Swarm on the same engine beside us, in one run: container jobs end to end, eight at once."""

import json
from time import perf_counter
from typing import Any

from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.ports import free_port
from tests.parts.waiting import wait_for

from bench.containers import AT_ONCE, JOBS, our_round, raw_round
from bench.report import Figure, at_least

ROUNDS = 3
PATIENCE_SECONDS = 300
JOBS_SINCE = "v1.41"
"""Of the engine's API: before it a service has no jobs."""


def main() -> list[Figure]:
    """Swarm runs one replicated job of as many tasks, each with the limits our jobs have.

    It leaves finished containers lying until it sees fit; ours are removed within the time that is measured.
    """
    with DockerEngine(live_restore=False) as engine:
        engine.import_busybox()
        raw_round(engine, AT_ONCE)
        join_alone(engine)
        with WindlassServer(docker_host=engine.host) as server:
            our_round(server, engine, AT_ONCE)
            pairs = [(swarm_round(engine, JOBS), our_round(server, engine, JOBS)) for _ in range(ROUNDS)]
    theirs, ours = (max(side) for side in zip(*pairs, strict=True))
    return [at_least("container jobs end to end, 8 at once", ours, theirs, 1.0, unit="/s", beside="Docker Swarm")]


def join_alone(engine: DockerEngine) -> None:
    """A swarm of this one engine, on loopback."""
    port = free_port()
    body = {"ListenAddr": f"127.0.0.1:{port}", "AdvertiseAddr": f"127.0.0.1:{port}", "DataPathAddr": "127.0.0.1"}
    engine.call("POST", "/swarm/init", body=body)


def swarm_round(engine: DockerEngine, jobs: int) -> float:
    began = perf_counter()
    service = json.loads(engine.call("POST", "/services/create", body=a_service(jobs), version=JOBS_SINCE))["ID"]
    wait_for(lambda: completed(engine, service) == jobs, PATIENCE_SECONDS, "the tasks of the service to complete")
    engine.call("DELETE", f"/services/{service}")
    taken = perf_counter() - began
    for left in containers_of(engine, service):
        engine.remove_container(left)
    return jobs / taken


def a_service(jobs: int) -> dict[str, Any]:
    container = {
        "Image": IMAGE,
        "Command": ["true"],
        "Mounts": [{"Type": "volume", "Target": "/artifacts"}],
        "CapabilityDrop": ["ALL"],
    }
    limits = {"NanoCPUs": 250_000_000, "MemoryBytes": 64 << 20}
    return {
        "Name": "bench",
        "TaskTemplate": {
            "ContainerSpec": container,
            "Resources": {"Limits": limits},
            "RestartPolicy": {"Condition": "none"},
        },
        "Mode": {"ReplicatedJob": {"MaxConcurrent": AT_ONCE, "TotalCompletions": jobs}},
    }


def completed(engine: DockerEngine, service: str) -> int:
    tasks = json.loads(engine.call("GET", "/tasks", query={"filters": {"service": [service]}}))
    return sum(task["Status"]["State"] == "complete" for task in tasks)


def containers_of(engine: DockerEngine, service: str) -> list[str]:
    query = {"all": True, "filters": {"label": [f"com.docker.swarm.service.id={service}"]}}
    return [found["Id"] for found in json.loads(engine.call("GET", "/containers/json", query=query))]


if __name__ == "__main__":
    from bench.report import show

    show("swarm", main())
