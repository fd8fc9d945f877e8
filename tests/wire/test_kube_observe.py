"""What is read from a pod as its kubelet shows it."""

import pytest

from windlass.core.model.ephemeral import PodSeen, PodState
from windlass.wire.kube.names import JOB_LABEL, Document, owner
from windlass.wire.kube.observe import see_pod, see_volume

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
    assert see_pod(pod, "it", "j").state is seen


def gone(phase: str, ended: str | None, *, disruption: str = "", code: int = 0, **more: str) -> PodSeen:
    """A pod that was deleted at 00:01:00, with half a minute to end in."""
    state = {"terminated": {"exitCode": code, "startedAt": BEGAN, "finishedAt": ended}}
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": disruption}] if disruption else []
    status = {"phase": phase, "containerStatuses": [{"state": state}], "conditions": conditions, **more}
    going = {"deletionTimestamp": "2026-01-01T00:01:30Z", "deletionGracePeriodSeconds": 30}
    return see_pod({"metadata": {"uid": "u", "name": "p", **going}, "spec": {}, "status": status}, "it", "j")


BEFORE, AT_ONCE, LATER = "2026-01-01T00:00:59Z", "2026-01-01T00:01:00Z", "2026-01-01T00:01:05Z"
ENDS: dict[str, tuple[PodSeen, tuple[PodState, str, int | None]]] = {
    "one that had succeeded has": (gone("Succeeded", BEFORE), (PodState.SUCCEEDED, "Completed", 0)),
    "one that had failed has": (gone("Failed", BEFORE, code=3), (PodState.FAILED, "ExitCode", 3)),
    "one that gave in has not succeeded": (gone("Succeeded", LATER), (PodState.FAILED, "PodDeleted", None)),
    "nor one that did so at once": (gone("Succeeded", AT_ONCE), (PodState.FAILED, "PodDeleted", None)),
    "one that was killed for it": (gone("Failed", LATER, code=137), (PodState.FAILED, "PodDeleted", 137)),
    "one that never began": (gone("Failed", None, code=137), (PodState.FAILED, "PodDeleted", 137)),
    "a drain": (gone("Succeeded", LATER, disruption="EvictionByEvictionAPI"), (PodState.FAILED, "Evicted", None)),
    "a taint, and its node tells of the end": (
        gone("Succeeded", LATER, disruption="DeletionByTaintManager"),
        (PodState.FAILED, "Evicted", None),
    ),
    "a taint, and its node does not": (
        gone("Failed", None, disruption="DeletionByTaintManager", code=137),
        (PodState.FAILED, "NodeLost", 137),
    ),
    "a timeout stays one": (
        gone("Failed", LATER, code=143, reason="DeadlineExceeded"),
        (PodState.FAILED, "DeadlineExceeded", 143),
    ),
}


@pytest.mark.parametrize(("pod", "expected"), ENDS.values(), ids=ENDS.keys())
def test_what_a_pod_that_was_deleted_has_come_to(pod: PodSeen, expected: tuple[PodState, str, int | None]) -> None:
    assert (pod.state, pod.reason, pod.exit_code) == expected


LEFT: dict[str, tuple[str, str, bool]] = {
    "its own stays": ("it", "j", False),
    "that of a job before it is collected": ("it", "old", True),
    "that of a job of another name stays": ("other", "old", False),
}


@pytest.mark.parametrize(("name", "uid", "is_going"), LEFT.values(), ids=LEFT.keys())
def test_what_a_job_before_it_has_left_is_on_its_way_out(name: str, uid: str, is_going: bool) -> None:
    labelled = {"uid": "u", "name": "x", "labels": {JOB_LABEL: "it"}, "ownerReferences": [owner(name, uid)]}
    assert see_volume({"metadata": labelled}, "it", "j", waits_for_pod=False).is_going is is_going
    assert see_pod({"metadata": labelled}, "it", "j").is_going is is_going


ORPHANS: dict[str, tuple[Document, bool]] = {
    "one of a job of its name, and nobody's now": ({"labels": {JOB_LABEL: "it"}}, True),
    "one that is somebody's": ({"labels": {JOB_LABEL: "it"}, "ownerReferences": [{"kind": "Job", "uid": "x"}]}, False),
    "one of a job of another name": ({"labels": {JOB_LABEL: "other"}}, False),
    "one that never was ours": ({}, False),
}


@pytest.mark.parametrize(("metadata", "is_left"), ORPHANS.values(), ids=ORPHANS.keys())
def test_a_pod_is_left_when_it_was_made_for_the_name_and_is_nobodys(metadata: Document, is_left: bool) -> None:
    seen = see_pod({"metadata": {"uid": "u", "name": "it-1", **metadata}}, "it", "j")
    assert (seen.is_left, seen.is_foreign, seen.name) == (is_left, True, "it-1")


@pytest.mark.parametrize(
    ("code", "words"), [(3, "exit code 3"), (137, "exit code 137 (SIGKILL)"), (255, "exit code 255")]
)
def test_an_exit_code_is_said_as_on_every_runtime(code: int, words: str) -> None:
    ended = {"terminated": {"exitCode": code, "startedAt": BEGAN, "finishedAt": BEGAN}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": ended}]}
    seen = see_pod({"metadata": {"uid": "u", "name": "p"}, "spec": {}, "status": status}, "it", "j")
    assert (seen.reason, seen.message, seen.exit_code) == ("ExitCode", words, code)
