"""A kubelet that asked for a volume too early is told to ask again, by exactly the rights that the operator has."""

from typing import Any

from tests.kube.lab import DEADLINE, KINDS, Lab
from tests.kube.operator import Operator
from tests.parts.waiting import wait_for
from windlass.wire.kube.names import NUDGE

WORDS = (
    "Unable to attach or mount volumes: unmounted volumes=[artifacts]: persistentvolumeclaims is forbidden: "
    "no relationship found between node 'node1' and this object"
)


def say(lab: Lab, pod: dict[str, Any], message: str, name: str) -> None:
    """As the pod's kubelet would."""
    of = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    document = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", **of},
        "type": "Warning",
        "reason": "FailedMount",
        "message": message,
    }
    lab.door.create(KINDS["event"], document, lab.namespace)


def test_a_pod_whose_kubelet_lost_the_race_is_nudged_and_no_other(lab: Lab, operator: Operator) -> None:
    pods = {}
    for name in ("early", "broken"):  # no node has so many cores: they wait for as long as one likes
        lab.apply(name, command=["true"], resources={"gpu": 0, "cpu": "4000", "memory": "64Mi"})
        lab.wait_status(name, reason="Unschedulable")
        pods[name] = lab.wait_there("pod", f"{name}-1")
    say(lab, pods["broken"], "MountVolume.SetUp failed: no such device", "broken.1")
    say(lab, pods["early"], WORDS, "early.1")

    def is_nudged(name: str) -> bool:
        return NUDGE in (lab.get("pod", f"{name}-1") or {})["metadata"].get("annotations", {})

    wait_for(lambda: is_nudged("early"), DEADLINE, "the pod to be nudged")
    assert not is_nudged("broken")
    assert lab.status("early")["attempt"] == 1
