"""An operator killed before or after any of its writes, or away while times run out: the next one brings the same end."""

from collections.abc import Callable

import pytest

from tests.kube.lab import Lab
from tests.kube.operator import Operator
from tests.parts.waiting import wait_for

PATCHES, WRITES = range(1, 7), range(1, 5)
EVERY = [f"operator.{when}_patch=kill@{n}" for n in PATCHES for when in ("before", "after")] + [
    f"operator.{when}_write=kill@{n}" for n in WRITES for when in ("before", "after")
]
TELLING = (  # around the decision to run, the pod itself, its end, and the deletions
    "operator.after_patch=kill@3",
    "operator.after_write=kill@2",
    "operator.before_patch=kill@5",
    "operator.before_write=kill@3",
)


def starts(lab: Lab, pod: str) -> int:
    """How often the kubelet started a container of that pod."""
    told = [one for one in lab.items("events") if one["involvedObject"]["name"] == pod]
    return sum(one.get("count") or 1 for one in told if one["reason"] == "Started")


def dies_and_its_successor_ends_the_job(lab: Lab, own_operator: Callable[..., Operator], failpoint: str) -> None:
    first = own_operator(failpoints=failpoint).start()
    lab.shell("told", "echo once", pvcTTLSecondsAfterFinished=1)
    wait_for(lambda: not first.is_running, 90, f"the operator to die at {failpoint}")
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
        lab.shell("left", "echo x", ttlSecondsAfterFinished=3, pvcTTLSecondsAfterFinished=3)
        lab.wait_status("left", phase="Succeeded")
        lab.kubectl("annotate", "eaj", "left", "seen=true")
    assert lab.get("pvc", "artifacts-left") is not None
    with own_operator():
        lab.wait_gone("pod", "left-1")
        lab.wait_gone("pvc", "artifacts-left")
    assert lab.status("left")["phase"] == "Succeeded"


def test_a_run_that_ended_while_no_operator_was_there_is_told_by_the_next(
    lab: Lab, own_operator: Callable[..., Operator]
) -> None:
    with own_operator():
        lab.shell("alone", "sleep 2; echo done; exit 7", graceSeconds=0)
        lab.wait_status("alone", phase="Running")
    wait_for(lambda: (lab.get("pod", "alone-1") or {})["status"]["phase"] == "Failed", 60, "the pod to end")
    with own_operator():
        status = lab.wait_status("alone", phase="Failed")
    assert (status["reason"], status["exitCode"], status["attempt"]) == ("ExitCode", 7, 1)
    assert lab.log("alone") == "done\n"
