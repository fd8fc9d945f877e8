"""Container jobs end to end beside raw Docker, in one run: throughput eight at once, and the way from submit to started.

The engine by itself and we take turns, and medians are compared: an engine has slow spells of its own.
"""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for

from bench.report import Figure, at_least, at_most
from bench.rest import rest
from windlass.adapters.runtime.docker.labels import RUN
from windlass.client.client import Client

AT_ONCE = 8
JOBS = 48
ROUNDS = 5
IDLE_STARTS = 25
IDLE_CPU = "1"
"""What a job gets that asks for nothing: the engine itself is slower to start what has a small share of a core."""
KEPT_SECONDS = 120  # beyond the last of the idle starts: a removal beside a start is not idle


def main() -> list[Figure]:
    with DockerEngine() as engine:
        engine.import_busybox()
        raw_round(engine, AT_ONCE)  # warm the engine before either is measured
        with WindlassServer(docker_host=engine.host) as server:
            our_round(server, engine, AT_ONCE)
            raw, ours, cpu = [], [], []
            for _ in range(ROUNDS):
                rest(server.pid, engine.pid)
                raw.append(raw_round(engine, JOBS))
                rest(server.pid, engine.pid)
                before = cpu_seconds(server.pid)
                ours.append(our_round(server, engine, JOBS))
                cpu.append((cpu_seconds(server.pid) - before) / JOBS * 1000)
            starts = [one_of_each(server, engine) for _ in range(IDLE_STARTS)]
    raw_start, our_start = (median(side) for side in zip(*starts, strict=True))
    what = f"container jobs end to end, 8 at once (turns {turns(ours)}, beside {turns(raw)})"
    return [
        at_least(what, median(ours), median(raw), 0.9, unit="/s", beside="raw Docker"),
        at_most("CPU of the server a job", median(cpu), 30, 1.0, unit="ms", beside="the figure set"),
        at_most(
            "submit → started when idle, over Docker's own",
            our_start - raw_start,
            50,
            1.0,
            unit="ms",
            beside="the figure set",
        ),
    ]


def raw_round(engine: DockerEngine, jobs: int) -> float:
    """Create, start, wait, logs and remove, eight at once: what a script around the engine would do. Containers a second."""
    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda _: raw_container(engine), range(jobs)))
    return jobs / (time.perf_counter() - began)


def raw_container(engine: DockerEngine) -> None:
    name = json.loads(engine.call("POST", "/volumes/create", body={}))["Name"]
    mounts = [{"Type": "volume", "Source": name, "Target": "/artifacts"}]
    container = engine.create("true", HostConfig={"Mounts": mounts, "Memory": 64 << 20, "NanoCpus": 250_000_000})
    engine.start_container(container)
    engine.wait(container)
    engine.logs(container)
    engine.remove_container(container)
    engine.call("DELETE", f"/volumes/{name}")


def turns(rates: list[float]) -> str:
    return " ".join(f"{rate:.1f}" for rate in rates)


def our_round(server: WindlassServer, engine: DockerEngine, jobs: int) -> float:
    """Submitted at once, run eight at a time by what they ask for; over when every container and record is done."""
    cores = psutil.cpu_count() or 2
    client = server.client()
    began = time.perf_counter()
    uids = [client.create(a_manifest(cpu=f"{cores * 1000 // AT_ONCE}m"))["metadata"]["uid"] for _ in range(jobs)]
    wait_for(lambda: all_over(client, uids), 300, "the jobs to end")
    wait_for(lambda: not engine.containers(label=[RUN]), 60, "the last containers to be removed")
    return jobs / (time.perf_counter() - began)


def all_over(client: Client, uids: list[str]) -> bool:
    page = client.page(limit=1, state=["PENDING", "SCHEDULED", "STARTING", "RUNNING"])
    return not page["items"]


def a_manifest(*, cpu: str) -> dict[str, Any]:
    resources = {"cpu": cpu, "memory": "64Mi"}
    spec = {"image": IMAGE, "command": ["true"], "resources": resources, "pvcTTLSecondsAfterFinished": 0}
    return {"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {}, "spec": spec}


def one_of_each(server: WindlassServer, engine: DockerEngine) -> tuple[float, float]:
    """What follows a job's end, in us and in the engine, must not slow the start that is measured next."""
    rest(server.pid, engine.pid)
    raw = raw_start_ms(engine)
    rest(server.pid, engine.pid)
    return raw, our_start_ms(server, engine)


def raw_start_ms(engine: DockerEngine) -> float:
    began = time.time()
    container = engine.create("true", HostConfig={"Memory": 64 << 20})
    engine.start_container(container)
    engine.wait(container)
    started = started_at(engine.inspect(container))
    engine.remove_container(container)
    return (started - began) * 1000


def our_start_ms(server: WindlassServer, engine: DockerEngine) -> float:
    """By the engine's own clock, in a container that is kept for us to read it."""
    client = server.client()
    manifest = a_manifest(cpu=IDLE_CPU)
    manifest["spec"]["ttlSecondsAfterFinished"] = KEPT_SECONDS
    began = time.time()
    uid = client.create(manifest)["metadata"]["uid"]
    wait_for(lambda: client.job(uid)["status"].get("finishedAt"), 60, "the job to end")
    return (started_at(engine.inspect(f"{uid}-1")) - began) * 1000


def started_at(inspected: dict[str, Any]) -> float:
    text = str(inspected["State"]["StartedAt"])
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


def cpu_seconds(pid: int) -> float:
    used = psutil.Process(pid).cpu_times()
    return used.user + used.system


if __name__ == "__main__":
    from bench.report import show

    show(f"containers ({Path(__file__).name})", main())
