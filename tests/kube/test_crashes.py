"""An operator killed before or after any of its writes, or away while times run out: the next one brings the same end."""

import time
from collections.abc import Callable
from datetime import datetime

import pytest

from tests.kube.lab import Lab
from tests.kube.lives import LIVES, Reign, starts
from tests.kube.operator import Operator
from tests.parts.waiting import wait_for
from windlass.client.kube.api import CLAIMS

UNTIL_TOLD = "while [ ! -e /artifacts/go ]; do sleep 0.2; done"
TELLING = (  # after a decision, at a log, at an event, at an adoption, at a retry, at a cancel's last words and deletions
    ("plain", "operator.after_patch=kill@1"),
    ("plain", "operator.before_write.configmaps=kill"),
    ("plain", "operator.after_write.events=kill"),
    ("adopted", "operator.after_write.persistentvolumeclaims=kill"),
    ("retried", "operator.after_write.pods=kill@4"),
    ("cancelled", "operator.before_write.pods=kill@3"),
)
WRITING = ('method="POST"', 'method="PATCH"', 'method="DELETE"')
LAST = 2
"""Writes at the end of a life that another order of events may spare."""


@pytest.mark.parametrize(("life", "failpoint"), TELLING)
def test_an_operator_killed_at_a_telling_moment_leaves_the_same_end(
    lab: Lab, own_operator: Callable[..., Operator], life: str, failpoint: str
) -> None:
    reign = Reign(own_operator(failpoints=failpoint), own_operator)
    end = LIVES[life].live(lab, "told", reign)
    assert (reign.has_died, end) == (True, LIVES[life].end)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("life", LIVES)
def test_an_operator_killed_at_any_write_leaves_the_same_end(
    lab: Lab, own_operator: Callable[..., Operator], life: str, capsys: pytest.CaptureFixture[str]
) -> None:
    undisturbed = Reign(own_operator(), own_operator)
    assert LIVES[life].live(lab, "calm", undisturbed) == LIVES[life].end
    writes = int(sum(undisturbed.now.metric("windlass_operator_api_calls", method) for method in WRITING))
    undisturbed.now.stop()
    deaths = 0
    for n in range(1, writes + 1):
        for when in ("before", "after"):
            reign = Reign(own_operator(failpoints=f"operator.{when}_write=kill@{n}"), own_operator)
            assert LIVES[life].live(lab, f"{when}-{n}", reign) == LIVES[life].end, f"killed {when} write {n}"
            deaths += reign.has_died
            reign.now.stop()
    with capsys.disabled():
        print(f"\n{life}: {writes} writes undisturbed, killed {deaths} times of {2 * writes}, each time the same end")
    assert deaths >= 2 * (writes - LAST)


def test_an_operator_killed_at_a_sweep_leaves_the_volume_to_the_next(
    lab: Lab, own_operator: Callable[..., Operator]
) -> None:
    metadata = {
        "name": "artifacts-never",
        "labels": {"windlass.dev/job": "never", "windlass.dev/part": "volume"},
        "annotations": {"windlass.dev/expires-at": "2020-01-01T00:00:00Z"},
    }
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    lab.door.create(CLAIMS, document, lab.namespace)
    reign = Reign(own_operator(failpoints="operator.before_write=kill"), own_operator)
    reign.until(lambda: lab.get("pvc", "artifacts-never") is None, "the volume to go")
    assert reign.has_died


def test_a_pod_that_vanishes_before_it_was_noted_has_not_run_and_is_made_again(
    lab: Lab, own_operator: Callable[..., Operator]
) -> None:
    first = own_operator(failpoints="operator.after_write.pods=kill").start()
    lab.shell("gap", "echo once", pvcTTLSecondsAfterFinished=1)
    wait_for(lambda: not first.is_running, 90, "the operator to die after making the pod")
    made = lab.wait_there("pod", "gap-1")
    assert made["spec"]["schedulingGates"] == [{"name": "windlass.dev/hold"}]
    assert "podUID" not in lab.status("gap")
    lab.kubectl("delete", "pod", "gap-1")
    with own_operator():
        status = lab.wait_status("gap", phase="Succeeded")
    assert status["podUID"] != made["metadata"]["uid"]
    assert (status["attempt"], starts(lab, "gap-1"), lab.log("gap")) == (1, 1, "once\n")


def test_times_to_live_that_ran_out_while_no_operator_was_there_are_served_by_the_next(
    lab: Lab, own_operator: Callable[..., Operator]
) -> None:
    with own_operator():
        lab.shell("left", UNTIL_TOLD, graceSeconds=0, ttlSecondsAfterFinished=4, pvcTTLSecondsAfterFinished=4)
        lab.wait_status("left", phase="Running")
    lab.kubectl("exec", "left-1", "--", "touch", "/artifacts/go")
    wait_for(lambda: ended_seconds_ago(lab, "left-1") > 5, 180, "the times to run out")
    with own_operator():
        lab.wait_gone("pod", "left-1")
        lab.wait_gone("pvc", "artifacts-left")
    assert lab.status("left")["phase"] == "Succeeded"


def ended_seconds_ago(lab: Lab, pod: str) -> float:
    """Also 0 while it runs; much when it is gone, which it may be on a machine that took its time."""
    found = lab.get("pod", pod)
    if found is None:
        return 3600
    state = found["status"].get("containerStatuses", [{}])[0].get("state", {})
    at = state.get("terminated", {}).get("finishedAt")
    return time.time() - datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp() if at else 0


def test_a_run_that_ended_while_no_operator_was_there_is_told_by_the_next(
    lab: Lab, own_operator: Callable[..., Operator]
) -> None:
    with own_operator():
        lab.shell("alone", f"{UNTIL_TOLD}; echo done; exit 7", graceSeconds=0)
        lab.wait_status("alone", phase="Running")
    lab.kubectl("exec", "alone-1", "--", "touch", "/artifacts/go")
    wait_for(lambda: ended_seconds_ago(lab, "alone-1") > 0, 120, "the pod to end")
    with own_operator():
        status = lab.wait_status("alone", phase="Failed")
    assert (status["reason"], status["exitCode"], status["attempt"]) == ("ExitCode", 7, 1)
    assert lab.log("alone") == "done\n"
