"""What is read from a pod as its kubelet shows it."""

import pytest

from windlass.core.model.ephemeral import PodState
from windlass.wire.kube.names import Document
from windlass.wire.kube.observe import see_pod

BEGAN = "2026-01-01T00:00:00Z"
ENDED: Document = {"terminated": {"exitCode": 0, "startedAt": BEGAN, "finishedAt": BEGAN}}
STATES: dict[str, tuple[str, Document, PodState]] = {
    "its container is being made": ("Pending", {"waiting": {"reason": "ContainerCreating"}}, PodState.WAITING),
    "its container runs": ("Running", {"running": {"startedAt": BEGAN}}, PodState.RUNNING),
    "its container has ended, and nobody says why yet": ("Running", ENDED, PodState.RUNNING),
    "it has ended": ("Succeeded", ENDED, PodState.SUCCEEDED),
}


@pytest.mark.parametrize(("phase", "state", "seen"), STATES.values(), ids=STATES.keys())
def test_a_pod_never_goes_back_to_waiting(phase: str, state: Document, seen: PodState) -> None:
    status = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
    pod = {"metadata": {"uid": "u", "name": "p"}, "spec": {}, "status": status}
    assert see_pod(pod, "j").state is seen
