"""`make bench-kube`: plain batch/v1 Jobs beside ours on the same node, in one run: fifty at once, and one alone when idle.

Ours make a volume first, keep the output and remove their pods within the time that is measured; a batch Job does neither.
"""

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import psutil
from tests.kube.cluster import KubeCluster
from tests.kube.operator import Operator
from tests.parts.busybox import IMAGE
from tests.parts.waiting import wait_for

from bench.report import Figure, at_least, at_most
from windlass.client.kube.api import JOBS, PODS, Kind, read_config
from windlass.client.kube.door import KubeDoor
from windlass.core.errors import WindlassError

AT_ONCE: Final = 50
ROUNDS: Final = 2
ALONE: Final = 10
PATIENCE_SECONDS: Final = 600
BATCH: Final = Kind("batch/v1", "jobs")
NAMESPACE: Final = "default"
AMOUNTS: Final = {"cpu": "10m", "memory": "16Mi"}


def main() -> list[Figure]:
    with KubeCluster() as cluster, TemporaryDirectory(prefix="wl-bench-") as folder:
        Operator.say("operator", "install", f"--kubeconfig={cluster.kubeconfig}")
        cluster.kubectl("--namespace=windlass-system", "delete", "deployment", "windlass-operator")
        with Operator(cluster, Path(folder), log_level="info", resync_seconds="30") as operator:
            door = KubeDoor(read_config(cluster.kubeconfig))
            with Witness(cluster) as witness:
                return measure(door, witness, operator)


def measure(door: KubeDoor, witness: "Witness", operator: Operator) -> list[Figure]:
    alone = sorted(one_alone(door, witness, number) for number in range(ALONE))
    theirs: list[Round] = []
    ours: list[Round] = []
    spent = Spent()
    for turn in range(ROUNDS):
        theirs.append(round_of(door, witness, BATCH, turn))
        before = spent_by(operator)
        ours.append(round_of(door, witness, JOBS, turn))
        spent += spent_by(operator) - before
    rates = max(one.rate for one in ours), max(one.rate for one in theirs)
    starts = min(one.start_seconds for one in ours), min(one.start_seconds for one in theirs)
    jobs = ROUNDS * AT_ONCE
    beside = "batch/v1"
    return [
        at_least(f"{AT_ONCE} jobs at once", *rates, 0.9, unit="/s", beside=beside),
        at_most("submit → pod Running, median of them", *starts, 1.3, unit="s", beside=beside),
        at_most("applied → pod created when idle, median", median(alone), 0.3, 1, unit="s", beside="goal"),
        only_shown("requests of the operator per job", spent.calls / jobs, f"{spent.calls / jobs:.1f}"),
        only_shown(
            "processor time of the operator per job", spent.seconds / jobs, f"{spent.seconds / jobs * 1000:.0f} ms"
        ),
    ]


class Round(NamedTuple):
    """Jobs a second until the last has ended, and the median from a submit to its pod's running."""

    rate: float
    start_seconds: float


@dataclass(frozen=True)
class Spent:
    """By the operator: requests to the API server, and processor time."""

    calls: float = 0
    seconds: float = 0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.calls + other.calls, self.seconds + other.seconds)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.calls - other.calls, self.seconds - other.seconds)


def spent_by(operator: Operator) -> Spent:
    times = psutil.Process(operator.pid).cpu_times()
    return Spent(operator.metric("windlass_operator_api_calls"), times.user + times.system)


def only_shown(what: str, ratio: float, words: str) -> Figure:
    return Figure(what=what, ours=words, ratio=ratio, wanted="only shown", is_met=True)


def one_alone(door: KubeDoor, witness: "Witness", number: int) -> float:
    began = time.perf_counter()
    name = f"alone-{number}"
    door.create(JOBS, ours(name), NAMESPACE)
    wait_for(lambda: name in witness.made, PATIENCE_SECONDS, f"the pod of {name}")
    wait_for(lambda: over(door, JOBS, name), PATIENCE_SECONDS, f"{name} to end")
    return witness.made[name] - began


def round_of(door: KubeDoor, witness: "Witness", kind: Kind, turn: int) -> Round:
    prefix = f"{'batch' if kind is BATCH else 'ours'}-{turn}"
    names = [f"{prefix}-{number}" for number in range(AT_ONCE)]
    make = plain if kind is BATCH else ours
    submitted: dict[str, float] = {}
    began = time.perf_counter()
    for name in names:
        submitted[name] = time.perf_counter()
        door.create(kind, make(name), NAMESPACE)
    wait_for(lambda: all_over(door, kind, prefix), PATIENCE_SECONDS, f"the jobs {prefix} to end")
    taken = time.perf_counter() - began
    started = [witness.ran[name] - submitted[name] for name in names if name in witness.ran]
    for name in names:
        found = door.get(kind, name, NAMESPACE)
        if found is not None:
            door.delete(kind, name, NAMESPACE, uid=found["metadata"]["uid"])
    wait_for(lambda: not door.list(PODS, NAMESPACE)[0], PATIENCE_SECONDS, "their pods to go")
    return Round(AT_ONCE / taken, median(started))


def ours(name: str) -> dict[str, Any]:
    spec = {"image": IMAGE, "command": ["sleep", "1"], "resources": {"gpu": 0, **AMOUNTS}}
    return {
        "apiVersion": "windlass.dev/v1",
        "kind": "EphemeralAccelerationJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def plain(name: str) -> dict[str, Any]:
    resources = {"requests": AMOUNTS, "limits": AMOUNTS}
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "1"], "resources": resources}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


def all_over(door: KubeDoor, kind: Kind, prefix: str) -> bool:
    found = [one for one in door.list(kind, NAMESPACE)[0] if one["metadata"]["name"].startswith(f"{prefix}-")]
    return all(is_over(one) for one in found)


def over(door: KubeDoor, kind: Kind, name: str) -> bool:
    found = door.get(kind, name, NAMESPACE)
    return found is not None and is_over(found)


def is_over(job: dict[str, Any]) -> bool:
    status = job.get("status", {})
    return status.get("phase") in ("Succeeded", "Failed") or bool(status.get("succeeded") or status.get("failed"))


class Witness:
    """A watch on pods of its own: when each job's first pod was there, and when it ran."""

    def __init__(self, cluster: KubeCluster) -> None:
        self._door = KubeDoor(read_config(cluster.kubeconfig))
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._is_over = False
        self.made: dict[str, float] = {}
        self.ran: dict[str, float] = {}

    def __enter__(self) -> "Witness":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True

    def _look(self) -> None:
        while not self._is_over:
            try:
                after = self._door.list(PODS, NAMESPACE)[1]
                for event in self._door.watch(PODS, NAMESPACE, after=after):
                    self._note(event["object"])
            except WindlassError:
                continue

    def _note(self, pod: dict[str, Any]) -> None:
        labels = pod["metadata"].get("labels", {})
        name = labels.get("windlass.dev/job") or labels.get("job-name", "")
        self.made.setdefault(name, time.perf_counter())
        if pod.get("status", {}).get("phase") in ("Running", "Succeeded"):
            self.ran.setdefault(name, time.perf_counter())


if __name__ == "__main__":
    from bench.report import show

    show("kube", main())
