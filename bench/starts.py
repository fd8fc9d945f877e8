"""How quickly things begin: the command line, a server with a full queue, a page out of many jobs, a decision on its way out."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from statistics import median
from typing import Any

from tests.chaos.clients import post
from tests.e2e.server import WindlassServer
from tests.parts.waiting import wait_for

from bench.report import Figure, at_most

RUNS = 25
QUEUED, FINISHED = 10_000, 1_000
LISTED = 100_000
BULK = 1000


def main() -> list[Figure]:
    with WindlassServer() as server:
        return [command_line(server), *restart(server), page(server)]


def command_line(server: WindlassServer) -> Figure:
    """`windlass get jobs` less the server's time, beside a bare interpreter."""
    environ = {**os.environ, **server.variables()}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    windlass = str(server.command()[0])
    bare, ours, answers = [], [], []
    client = server.client()
    for _ in range(RUNS):
        bare.append(timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True, env=environ)))
        ours.append(
            timed(lambda: subprocess.run([windlass, "get", "jobs"], check=True, env=environ, capture_output=True))
        )
        answers.append(timed(lambda: client.page(limit=100)))
    own = (median(ours) - median(answers)) * 1000
    return at_most("start of `windlass get jobs`", own, median(bare) * 1000, 8, unit="ms", beside="python3 -c pass")


def restart(server: WindlassServer) -> list[Figure]:
    """Serving again with 10,000 queued and 1,000 finished jobs."""
    submit(server, a_manifest(["true"]), FINISHED)
    client = server.client()
    wait_for(
        lambda: not client.page(limit=1, state=["PENDING", "SCHEDULED", "STARTING", "RUNNING"])["items"], 300, "the end"
    )
    submit(server, a_manifest(["true"], suspend=True), QUEUED)
    server.kill()
    began = time.perf_counter()
    server.start()
    post(server, "/api/v1/jobs", json.dumps(a_manifest(["true"], suspend=True)).encode(), {})
    taken = time.perf_counter() - began
    what = f"serving after a kill, {QUEUED:,} queued and {FINISHED:,} finished"
    return [at_most(what, taken, 3, 1.0, unit="s", beside="the figure set")]


def page(server: WindlassServer) -> Figure:
    submit(server, a_manifest(["true"], suspend=True), LISTED - QUEUED)
    client = server.client()
    wait_for(lambda: jobs_listed(server) >= LISTED, 300, f"the read model to hold {LISTED:,} jobs")
    times = [timed(lambda: client.page(limit=100)) for _ in range(RUNS)]
    taken = median(times) * 1000
    return at_most(f"a page of 100 out of {LISTED:,} jobs", taken, 50, 1.0, unit="ms", beside="the figure set")


def jobs_listed(server: WindlassServer) -> float:
    """As the read model has them, by the server's own measure."""
    asked = urllib.request.Request(f"{server.url}/metrics", headers={"Authorization": f"Bearer {server.token}"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("windlass_jobs{"))


def submit(server: WindlassServer, manifest: dict[str, Any], count: int) -> None:
    body = json.dumps({"items": [manifest] * BULK}).encode()
    for _ in range(count // BULK):
        status, answer = post(server, "/api/v1/jobs/bulk", body, {})
        assert status == 201, answer


def a_manifest(command: list[str], *, suspend: bool = False) -> dict[str, Any]:
    spec = {
        "command": command,
        "resources": {"cpu": "10m", "memory": "8Mi"},
        "suspend": suspend,
        "pvcTTLSecondsAfterFinished": 0,
    }
    return {"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {}, "spec": spec}


def timed(act: Any) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


if __name__ == "__main__":
    from bench.report import show

    show("starts", main())
