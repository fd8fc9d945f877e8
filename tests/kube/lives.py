"""Four lives of a job, each to its end under operators that may be killed: how it begins, what is done to it, how it must end."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.kube.lab import DEADLINE, ENDS, Lab
from tests.kube.operator import Operator
from tests.parts.waiting import wait_for
from windlass.client.kube.api import CLAIMS, JOBS

End = dict[str, Any]


class Reign:
    """One operator after the other: when the first dies, its successor takes over."""

    def __init__(self, first: Operator, follow: Callable[[], Operator]) -> None:
        self.now = first.start()
        self._follow = follow
        self.has_died = False

    def until(self, fact: Callable[[], object], what: str) -> None:
        wait_for(lambda: fact() or not self.now.is_running, DEADLINE, what)
        if not self.now.is_running:
            assert not self.has_died, "the successor died too"
            self.has_died = True
            self.now = self._follow().start()
        wait_for(fact, DEADLINE, what)


@dataclass(frozen=True)
class Life:
    begin: Callable[[Lab, str], None]
    reason: str
    attempts: int = 1
    said: str = "once\n"
    is_cancelled: bool = False

    def live(self, lab: Lab, name: str, reign: Reign) -> End:
        self.begin(lab, name)
        if self.is_cancelled:
            reign.until(lambda: said_so_far(lab, name) == self.said, f"{name} to say its line")
            cancel = {"metadata": {"annotations": {"windlass.dev/cancel": "true"}}}
            lab.door.merge(JOBS, name, cancel, lab.namespace)
        reign.until(lambda: lab.status(name).get("phase") in ENDS, f"{name} to end")
        reign.until(lambda: is_clean(lab, name), f"nothing but its log to be left of {name}")
        return end_of(lab, name)

    @property
    def end(self) -> End:
        """As it must be, whoever dies on the way."""
        pods = range(1, self.attempts + 1)
        return {
            "reason": self.reason,
            "attempt": self.attempts,
            "said": [self.said] * self.attempts,
            "starts": [1] * self.attempts,
            "left": [f"{{}}-{n}-log" for n in pods],
            "artifactPath": None,
        }


def end_of(lab: Lab, name: str) -> End:
    status = lab.status(name)
    attempts = range(1, status["attempt"] + 1)
    kept = [one["metadata"]["name"] for one in lab.items("configmaps")]
    return {
        "reason": status["reason"],
        "attempt": status["attempt"],
        "said": [lab.log(name, attempt) for attempt in attempts],
        "starts": [starts(lab, f"{name}-{attempt}") for attempt in attempts],
        "left": sorted(f"{{}}{one.removeprefix(name)}" for one in kept if one.startswith(f"{name}-")),
        "artifactPath": status.get("artifactPath"),
    }


def is_clean(lab: Lab, name: str) -> bool:
    """And noted so: the last write of a life tells that its volume is gone."""
    pods = [one for one in lab.items("pods") if one["metadata"]["name"].startswith(f"{name}-")]
    return not pods and lab.get("pvc", f"artifacts-{name}") is None and "artifactPath" not in lab.status(name)


def starts(lab: Lab, pod: str) -> int:
    """How often the kubelet started a container of that pod; it tells a moment after it did."""

    def told() -> int:
        events = [one for one in lab.items("events") if one["involvedObject"]["name"] == pod]
        return sum(one.get("count") or 1 for one in events if one["reason"] == "Started")

    return wait_for(told, DEADLINE, f"the kubelet to tell that it started {pod}")


def said_so_far(lab: Lab, name: str) -> str:
    return lab.kubectl("logs", f"{name}-1", check=False)


def plain(lab: Lab, name: str) -> None:
    lab.shell(name, "echo once; sleep 1", pvcTTLSecondsAfterFinished=1)


def adopted(lab: Lab, name: str) -> None:
    metadata = {
        "name": f"artifacts-{name}",
        "labels": {"windlass.dev/job": name, "windlass.dev/part": "volume"},
        "annotations": {"windlass.dev/expires-at": "2999-01-01T00:00:00Z"},
    }
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    lab.door.create(CLAIMS, document, lab.namespace)
    plain(lab, name)


def retried(lab: Lab, name: str) -> None:
    lab.shell(name, "echo once; sleep 1; [ $WINDLASS_ATTEMPT = 2 ]", retries=1, pvcTTLSecondsAfterFinished=1)


def endless(lab: Lab, name: str) -> None:
    lab.shell(name, "echo once; sleep 300", graceSeconds=0, pvcTTLSecondsAfterFinished=1)


LIVES = {
    "plain": Life(plain, "Completed"),
    "adopted": Life(adopted, "Completed"),
    "retried": Life(retried, "Completed", attempts=2),
    "cancelled": Life(endless, "Cancelled", is_cancelled=True),
}
