"""`make bench-kube`: plain batch/v1 Jobs beside ours on the same node, in one run: fifty at once, and by turns one alone when idle.

What is compared keeps its pods on both sides, as a plain batch Job does; ours make a volume besides. So that it can be told what
the operator costs and what a volume does, two more pairs take their turns and are only shown: both removing their pods at the
end, as ours do by default; and batch Jobs with a pod as ours has it, volume and all. A turn begins when the machine has come to
rest, and medians are compared.

All is heard by watches: asking for a list of jobs ten times a second took the API server five times as long for ours as for
batch Jobs, and was a sixth of all it did.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
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

from bench.report import Figure, at_least, at_most, only_shown
from bench.rest import machine_rests
from windlass.client.kube.api import CLAIMS, JOBS, PODS, Kind, read_config
from windlass.client.kube.door import KubeDoor
from windlass.core.errors import WindlassError
from windlass.operator.reconcile import read_wish
from windlass.wire.kube.pod import VOLUME, PodPolicy, run_pod
from windlass.wire.kube.volume import claim

AT_ONCE: Final = 50
ROUNDS: Final = 3
ALONE: Final = 10
KEPT_SECONDS: Final = 3600
PATIENCE_SECONDS: Final = 600
BATCH: Final = Kind("batch/v1", "jobs")
NAMESPACE: Final = "default"
AMOUNTS: Final = {"cpu": "35m", "memory": "16Mi"}
"""Of both sides, as a limit: what fifty at once can have of two cores. With less, a container waits for its own limit while it is
set up: seconds at 10m."""
ALONE_AMOUNTS: Final = {"cpu": "1", "memory": "16Mi"}
"""Of both sides: one alone waits for no limit of its own."""


def main() -> list[Figure]:
    with KubeCluster() as cluster, TemporaryDirectory(prefix="wl-bench-") as folder:
        Operator.say("operator", "install", f"--kubeconfig={cluster.kubeconfig}")
        cluster.kubectl("--namespace=windlass-system", "delete", "deployment", "windlass-operator")
        with Operator(cluster, Path(folder), log_level="info", resync_seconds="30") as operator:
            door = KubeDoor(read_config(cluster.kubeconfig))
            with Witness(cluster) as witness:
                return measure(door, witness, operator)


def measure(door: KubeDoor, witness: "Witness", operator: Operator) -> list[Figure]:
    alone = [
        {name: one_alone(door, witness, name, number) for name in ("batch", "ours-gone")} for number in range(ALONE)
    ]
    rounds: defaultdict[str, list[Round]] = defaultdict(list)
    spent = Spent()
    for turn in range(ROUNDS):
        for name, (kind, make) in SIDES.items():
            before = spent_by(operator)
            rounds[name].append(round_of(door, witness, f"{name}-{turn}", kind, make))
            if name == "ours":
                spent += spent_by(operator) - before
    jobs = ROUNDS * AT_ONCE
    ours_, theirs = rounds["ours"], rounds["batch"]
    return [
        at_least(
            f"{AT_ONCE} jobs at once (turns {turns(ours_)}, beside {turns(theirs)})",
            rate(ours_),
            rate(theirs),
            0.9,
            unit="/s",
            beside="batch/v1",
        ),
        at_most("submit → pod Running, median of them", start(ours_), start(theirs), 1.3, unit="s", beside="batch/v1"),
        at_most(
            "submit → pod Running when idle, median",
            median(turn["ours-gone"].ran for turn in alone),
            median(turn["batch"].ran for turn in alone),
            1.3,
            unit="s",
            beside="batch/v1",
        ),
        at_most(
            "applied → pod created when idle, median",
            median(turn["ours-gone"].made for turn in alone),
            0.3,
            1,
            unit="s",
            beside="goal",
        ),
        *shown("both with pods that go at the end", rounds["ours-gone"], rounds["batch-gone"]),
        *shown("beside batch Jobs with a pod and a volume like ours", ours_, rounds["batch-alike"]),
        told("requests of the operator per job", spent.calls / jobs, f"{spent.calls / jobs:.1f}"),
        told("processor time of the operator per job", spent.seconds / jobs, f"{spent.seconds / jobs * 1000:.0f} ms"),
    ]


def rate(rounds: list["Round"]) -> float:
    return median(one.rate for one in rounds)


def start(rounds: list["Round"]) -> float:
    return median(one.start_seconds for one in rounds)


def turns(rounds: list["Round"]) -> str:
    return " ".join(f"{one.rate:.2f}" for one in rounds)


def shown(how: str, ours_: list["Round"], theirs: list["Round"]) -> list[Figure]:
    what = f"{AT_ONCE} jobs at once, {how}"
    return [
        only_shown(what, rate(ours_), rate(theirs), unit="/s", beside="batch/v1"),
        only_shown(f"submit → pod Running, {how}", start(ours_), start(theirs), unit="s", beside="batch/v1"),
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


def told(what: str, ratio: float, words: str) -> Figure:
    return Figure(what=what, ours=words, ratio=ratio, wanted="only shown", is_met=True)


class Alone(NamedTuple):
    """From a submit to its pod's being there, and to its running."""

    made: float
    ran: float


def one_alone(door: KubeDoor, witness: "Witness", side: str, number: int) -> Alone:
    kind, make = SIDES[side]
    name = f"alone-{side}-{number}"
    job = make(name, amounts=ALONE_AMOUNTS)
    began = time.perf_counter()
    door.create(kind, job, NAMESPACE)
    wait_for(lambda: name in witness.over, PATIENCE_SECONDS, f"{name} to end")
    return Alone(witness.made[name] - began, witness.ran[name] - began)


def round_of(door: KubeDoor, witness: "Witness", prefix: str, kind: Kind, make: Callable[..., dict[str, Any]]) -> Round:
    names = [f"{prefix}-{number}" for number in range(AT_ONCE)]
    machine_rests()
    submitted: dict[str, float] = {}
    began = time.perf_counter()
    for name in names:
        submitted[name] = time.perf_counter()
        door.create(kind, make(name), NAMESPACE)
    wait_for(lambda: all(name in witness.over for name in names), PATIENCE_SECONDS, f"the jobs {prefix} to end")
    taken = max(witness.over[name] for name in names) - began
    started = [witness.ran[name] - submitted[name] for name in names if name in witness.ran]
    for name in names:
        found = door.get(kind, name, NAMESPACE)
        if found is not None:
            door.delete(kind, name, NAMESPACE, uid=found["metadata"]["uid"])
    wait_for(lambda: is_clear(door), PATIENCE_SECONDS, "their pods and volumes to go")
    return Round(AT_ONCE / taken, median(started))


def is_clear(door: KubeDoor) -> bool:
    """But for those that were alone."""
    left = (*door.list(CLAIMS, NAMESPACE)[0], *door.list(PODS, NAMESPACE)[0])
    return all(one["metadata"]["name"].startswith(("artifacts-alone-", "alone-")) for one in left)


def ours(name: str, *, amounts: Mapping[str, str] = AMOUNTS, kept_seconds: int = KEPT_SECONDS) -> dict[str, Any]:
    spec = {
        "image": IMAGE,
        "command": ["sleep", "1"],
        "resources": {"gpu": 0, **amounts},
        "ttlSecondsAfterFinished": kept_seconds,
    }
    return {
        "apiVersion": "windlass.dev/v1",
        "kind": "EphemeralAccelerationJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def ours_gone(name: str, *, amounts: Mapping[str, str] = AMOUNTS) -> dict[str, Any]:
    return ours(name, amounts=amounts, kept_seconds=0)


def plain(name: str, *, amounts: Mapping[str, str] = AMOUNTS) -> dict[str, Any]:
    resources = {"requests": dict(amounts), "limits": dict(amounts)}
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "1"], "resources": resources}
    return batch(name, {"restartPolicy": "Never", "containers": [container]})


def plain_gone(name: str) -> dict[str, Any]:
    job = plain(name)
    job["spec"]["ttlSecondsAfterFinished"] = 0
    return job


def like_ours(name: str) -> dict[str, Any]:
    """The very pod that the operator would make, with a claim of its own that goes with it; nobody holds or notes it."""
    _, asked = read_wish(ours(name), "")
    spec = dict(run_pod(name, "", 1, asked, PodPolicy())["spec"])
    del spec["schedulingGates"]
    template = {"spec": claim(name, asked.spec)["spec"]}
    spec["volumes"] = [{"name": VOLUME, "ephemeral": {"volumeClaimTemplate": template}}]
    return batch(name, spec)


def batch(name: str, pod: dict[str, Any]) -> dict[str, Any]:
    spec = {"template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


SIDES: Final = {
    "batch": (BATCH, plain),
    "ours": (JOBS, ours),
    "batch-gone": (BATCH, plain_gone),
    "ours-gone": (JOBS, ours_gone),
    "batch-alike": (BATCH, like_ours),
}


def is_over(job: dict[str, Any]) -> bool:
    status = job.get("status", {})
    return status.get("phase") in ("Succeeded", "Failed") or bool(status.get("succeeded") or status.get("failed"))


class Witness:
    """Watches of its own: when each job's first pod was there, when it ran, and when the job was over."""

    def __init__(self, cluster: KubeCluster) -> None:
        self._cluster = cluster
        self._is_over = False
        self.made: dict[str, float] = {}
        self.ran: dict[str, float] = {}
        self.over: dict[str, float] = {}

    def __enter__(self) -> "Witness":
        for kind, note in ((PODS, self._note_pod), (JOBS, self._note_job), (BATCH, self._note_job)):
            threading.Thread(target=self._look, args=(kind, note), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True

    def _look(self, kind: Kind, note: Callable[[dict[str, Any]], None]) -> None:
        door = KubeDoor(read_config(self._cluster.kubeconfig))
        while not self._is_over:
            try:
                found, after = door.list(kind, NAMESPACE)
                for one in found:
                    note(one)
                for event in door.watch(kind, NAMESPACE, after=after):
                    note(event["object"])
            except WindlassError:
                continue

    def _note_pod(self, pod: dict[str, Any]) -> None:
        labels = pod["metadata"].get("labels", {})
        name = labels.get("windlass.dev/job") or labels.get("job-name", "")
        self.made.setdefault(name, time.perf_counter())
        if pod.get("status", {}).get("phase") in ("Running", "Succeeded"):
            self.ran.setdefault(name, time.perf_counter())

    def _note_job(self, job: dict[str, Any]) -> None:
        if is_over(job):
            self.over.setdefault(job["metadata"]["name"], time.perf_counter())


if __name__ == "__main__":
    from bench.report import show

    show("kube", main())
