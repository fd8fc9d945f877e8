"""An operator killed before or after any of its writes, or away while times run out: the next one brings the same end."""

import time
from collections.abc import Callable
from datetime import datetime

import pytest

from tests.kube.lab import DEADLINE, Lab
from tests.kube.operator import Operator
from tests.parts.waiting import wait_for

# What every job has at least: decided, pod noted, over, volume gone; and claim, pod, its release, both deletions.
PATCHES, WRITES = range(1, 5), range(1, 6)
EVERY = [f"operator.{when}_patch=kill@{n}" for n in PATCHES for when in ("before", "after")] + [
    f"operator.{when}_write=kill@{n}" for n in WRITES for when in ("before", "after")
]
UNTIL_TOLD = "while [ ! -e /artifacts/go ]; do sleep 0.2; done"
TELLING = (  # after the decision to run, after the pod itself, before its release, before the last word, before a deletion
    "operator.after_patch=kill@1",
    "operator.after_write=kill@2",
    "operator.before_write=kill@3",
    "operator.before_patch=kill@4",
    "operator.before_write=kill@4",
)


def starts(lab: Lab, pod: str) -> int:
    """How often the kubelet started a container of that pod; it tells a moment after it did."""

    def told() -> int:
        events = [one for one in lab.items("events") if one["involvedObject"]["name"] == pod]
        return sum(one.get("count") or 1 for one in events if one["reason"] == "Started")

    return wait_for(told, DEADLINE, f"the kubelet to tell that it started {pod}")


def dies_and_its_successor_ends_the_job(lab: Lab, own_operator: Callable[..., Operator], failpoint: str) -> None:
    first = own_operator(failpoints=failpoint).start()
    lab.shell("told", "echo once", pvcTTLSecondsAfterFinished=1)
    wait_for(lambda: not first.is_running, 180, f"the operator to die at {failpoint}")
    with own_operator():
        status = lab.wait_status("told", phase="Succeeded")
        lab.wait_gone("pod", "told-1")
        lab.wait_gone("pvc", "artifacts-told")
    assert (status["attempt"], status["exitCode"], lab.log("told")) == (1, 0, "once\n")
    assert starts(lab, "told-1") == 1
    assert lab.items("pods") == []


@pytest.mark.parametrize("failpoint", TELLING)
def test_an_operator_killed_at_a_telling_moment_leaves_the_same_end(
    lab: Lab, own_operator: Callable[..., Operator], failpoint: str
) -> None:
    dies_and_its_successor_ends_the_job(lab, own_operator, failpoint)


def test_a_pod_that_vanishes_before_it_was_noted_has_not_run_and_is_made_again(
    lab: Lab, own_operator: Callable[..., Operator]
) -> None:
    first = own_operator(failpoints="operator.after_write=kill@2").start()
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


@pytest.mark.soak
@pytest.mark.parametrize("failpoint", EVERY)
def test_an_operator_killed_at_any_write_leaves_the_same_end(
    lab: Lab, own_operator: Callable[..., Operator], failpoint: str
) -> None:
    dies_and_its_successor_ends_the_job(lab, own_operator, failpoint)


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
