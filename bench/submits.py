"""Durable submits through the API beside the bare floor, in one run: single and in bulk, alike and all different.

The floor and we take turns, and the medians are compared: whatever else the machine does hits both. A turn begins when the one
before has come to rest, our scribe included: it is nobody's handicap. A spec seen before is not judged again, which helps loops and
sweeps; the figures with every spec different are for those it does not help.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from tests.e2e.server import WindlassServer
from tests.parts.ports import free_port
from tests.parts.waiting import wait_for

from bench.load import MARK
from bench.report import Figure, at_least
from bench.rest import rest

CLIENTS = 64
REQUESTS = 6_000
ROUNDS = 7
BULK_ITEMS = 1000
BULKS = 8
BULK_CLIENTS = 2

Measured = dict[str, Any]


def a_manifest(seed: str = "1") -> dict[str, Any]:
    spec = {
        "command": ["true"],
        "env": {"SEED": seed, "MODE": "fast"},
        "resources": {"cpu": 1, "memory": "256Mi"},
        "suspend": True,
    }
    metadata = {"labels": {"team": "vision", "stage": "bench"}}
    return {"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def main() -> list[Figure]:
    rounds: defaultdict[str, list[Measured]] = defaultdict(list)
    with floor() as floor_url, WindlassServer() as server:
        for number in range(ROUNDS):
            for name, measured in _one_round(floor_url, server, number):
                rounds[name].append(measured)
    assert all(set(one["statuses"]) == {"201"} for some in rounds.values() for one in some), rounds
    floor_rate, floor_p99 = _median(rounds["floor"], "per_second"), _median(rounds["floor"], "p99") * 1000
    figures = []
    for name, what in (("alike", "durable submits, 64 clients"), ("different", "the same, every spec different")):
        p99 = _median(rounds[name], "p99") * 1000
        what = f"{what} (p99 {p99:.0f} ms, the floor's {floor_p99:.0f} ms)"
        figures.append(at_least(what, _median(rounds[name], "per_second"), floor_rate, 0.40, unit="/s", beside="floor"))
    for name, what in (
        ("bulk alike", "jobs in bulk requests of 1,000"),
        ("bulk different", "the same, every spec different"),
    ):
        jobs = _median(rounds[name], "per_second") * BULK_ITEMS
        figures.append(at_least(what, jobs, 20_000, 1.0, unit="/s", beside="the figure set"))
    return figures


def _one_round(floor_url: str, server: WindlassServer, number: int) -> Iterator[tuple[str, Measured]]:
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    rest(server.pid)
    yield "floor", load(floor_url, "/", {}, a_manifest(), REQUESTS)
    rest(server.pid)
    yield "alike", load(server.url, "/api/v1/jobs", headers, a_manifest(), REQUESTS)
    rest(server.pid)
    yield "different", load(server.url, "/api/v1/jobs", headers, a_manifest(f"{number}-{MARK}"), REQUESTS)
    bulks = {
        "bulk alike": [a_manifest() for _ in range(BULK_ITEMS)],
        "bulk different": [a_manifest(f"{number}-{item}-{MARK}") for item in range(BULK_ITEMS)],
    }
    for name, items in bulks.items():
        rest(server.pid)
        yield name, load(server.url, "/api/v1/jobs/bulk", headers, {"items": items}, BULKS, clients=BULK_CLIENTS)


def _median(rounds: list[Measured], what: str) -> float:
    return median(one[what] for one in rounds)


def load(
    url: str,
    path: str,
    headers: dict[str, str],
    body: Any,
    requests: int,
    clients: int = CLIENTS,
    per_second: float = 0,
) -> Measured:
    done = subprocess.run(
        [sys.executable, "-m", "bench.load", url, path, str(clients), str(requests), str(per_second)],
        input=json.dumps({"headers": headers, "body": json.dumps(body)}),
        capture_output=True,
        text=True,
        check=True,
    )
    measured: Measured = json.loads(done.stdout)
    return measured


@contextmanager
def floor() -> Iterator[str]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="floor-") as directory:
        process = subprocess.Popen([sys.executable, "-m", "bench.floor", str(Path(directory) / "floor.db"), str(port)])
        try:
            wait_for(lambda: _answers(port), 20, "the floor to listen")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(10)


def _answers(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    from bench.report import show

    began = time.perf_counter()
    show("submits", main())
    print(f"  took {time.perf_counter() - began:.0f} s")
