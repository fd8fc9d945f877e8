"""`make bench-slurm`: Slurm on one node beside us, in one run: durable submits, no-op jobs end to end, and submit → start.

Slurm is tuned for latency (tests/parts/slurm.py). Both have eight slots; both run plain processes. They take turns, after one that
warms both and does not count, and medians are compared: whatever else the machine does hits both. A turn begins when the other side
has come to rest: what Slurm still writes down, and what our scribe still takes in, is nobody's handicap.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from tests.e2e.server import WindlassServer
from tests.parts.slurm import Slurm
from tests.parts.waiting import wait_for

from bench.report import Figure, at_least, at_most
from bench.rest import rest
from bench.submits import Measured, a_manifest, load

SLOTS = 8
ROUNDS = 5
SUBMITS = 300
"""Of Slurm's in a turn, by eight `sbatch` at once; each is a process of its own, as its users start it."""
REQUESTS = 6_000
NO_OP_ROUNDS = 3
NO_OPS = 160
LATENCIES = 15
PATIENCE_SECONDS = 120


def main() -> list[Figure]:
    with Slurm(SLOTS) as slurm, WindlassServer() as server, tempfile.TemporaryDirectory(prefix="bench-") as directory:
        stamps = Path(directory)
        return [*submits(slurm, server), *no_ops(slurm, server, stamps), *latency(slurm, server, stamps)]


def submits(slurm: Slurm, server: WindlassServer) -> list[Figure]:
    """Held jobs on both sides: accepted and kept, not started."""
    theirs, ours, half = list[float](), list[float](), list[float]()
    for number in range(ROUNDS + 1):
        rest(server.pid, *slurm.pids)
        their_rate = sbatches(slurm)
        rest(server.pid, *slurm.pids)
        whole = posts(server, REQUESTS)
        rest(server.pid, *slurm.pids)
        slow = posts(server, REQUESTS // 2, per_second=whole["per_second"] / 2)
        if number:  # the first warms both
            theirs.append(their_rate)
            ours.append(whole["per_second"])
            half.append(slow["p99"])
    what = f"durable submits, 64 clients (turns {turns(ours)}, beside {turns(theirs)})"
    return [
        at_least(what, median(ours), median(theirs), 10, unit="/s", beside="sbatch, eight at once,"),
        at_most("p99 of a submit at half that load", median(half) * 1000, 50, 1, unit="ms", beside="the figure set"),
    ]


def sbatches(slurm: Slurm) -> float:
    """Held jobs a second. They are gone again before the next turn."""
    began = time.perf_counter()
    with ThreadPoolExecutor(SLOTS) as pool:
        list(pool.map(lambda _: sbatch(slurm, "true", "--hold"), range(SUBMITS)))
    rate = SUBMITS / (time.perf_counter() - began)
    slurm.run("scancel", "--user=root")
    return rate


def posts(server: WindlassServer, requests: int, *, per_second: float = 0) -> Measured:
    """Ours stay: every turn finds the World fuller than the one before."""
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    measured = load(server.url, "/api/v1/jobs", headers, a_manifest(), requests, per_second=per_second)
    assert set(measured["statuses"]) == {"201"}, measured
    return measured


def turns(rates: list[float]) -> str:
    return " ".join(f"{rate:,.0f}" for rate in rates)


def no_ops(slurm: Slurm, server: WindlassServer, stamps: Path) -> list[Figure]:
    """From the first submit to the last end, eight submitters on both sides."""
    theirs, ours = list[float](), list[float]()
    for number in range(NO_OP_ROUNDS):
        rest(server.pid, *slurm.pids)
        theirs.append(throughput(lambda stamp: sbatch(slurm, f"touch {stamp}"), stamps, f"slurm-{number}"))
        rest(server.pid, *slurm.pids)
        ours.append(throughput(lambda stamp: post(server, ["touch", stamp]), stamps, f"ours-{number}"))
    return [
        at_least("no-op jobs end to end, plain processes", median(ours), median(theirs), 4, unit="/s", beside="Slurm")
    ]


def throughput(submit: Callable[[str], object], stamps: Path, turn: str) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(SLOTS) as pool:
        list(pool.map(submit, (f"{stamps}/{turn}-{n}" for n in range(NO_OPS))))
    wait_for(lambda: len(list(stamps.glob(f"{turn}-*"))) == NO_OPS, PATIENCE_SECONDS, f"{turn}: every job to run")
    return NO_OPS / (time.perf_counter() - began)


def latency(slurm: Slurm, server: WindlassServer, stamps: Path) -> list[Figure]:
    """Idle, one job at a time: from before its submit until its own first act."""

    def theirs(stamp: Path) -> object:
        return sbatch(slurm, f"date +%s%N > {stamp}.new && mv {stamp}.new {stamp}")

    def ours(stamp: Path) -> object:
        return post(server, ["sh", "-c", f"date +%s%N > {stamp}.new && mv {stamp}.new {stamp}"])

    pairs = [
        (started_after(theirs, stamps / f"theirs-{n}"), started_after(ours, stamps / f"mine-{n}"))
        for n in range(LATENCIES)
    ]
    their_median, our_median = (median(side) * 1000 for side in zip(*pairs, strict=True))
    return [at_most("submit → start when idle, median", our_median, their_median, 0.2, unit="ms", beside="Slurm")]


def started_after(submit: Callable[[Path], object], stamp: Path) -> float:
    began = time.time()
    submit(stamp)
    wait_for(stamp.exists, PATIENCE_SECONDS, "the job to start")
    return int(stamp.read_text()) / 1e9 - began


def sbatch(slurm: Slurm, line: str, *flags: str) -> None:
    command = ["sbatch", "--quiet", "--ntasks=1", "--output=/dev/null", *flags, f"--wrap={line}"]
    subprocess.run(command, env=slurm.environment, cwd=slurm.directory, check=True)


def post(server: WindlassServer, command: list[str]) -> Any:
    spec = {"command": command, "resources": {"cpu": "10m", "memory": "16Mi"}}
    return server.client().create({"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {}, "spec": spec})


if __name__ == "__main__":
    from bench.report import show

    show("slurm", main())
