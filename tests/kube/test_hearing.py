"""What the operator hears by its watches alone, with no safety net beside them."""

from collections.abc import Callable

from tests.kube.lab import DEADLINE, KINDS, Lab
from tests.kube.operator import Operator
from tests.parts.waiting import wait_for

TOO_LATE = str(10 * int(DEADLINE))
"""Seconds between two listings of everything."""
UNTIL_TOLD = "echo ready; while [ ! -e /artifacts/go ]; do sleep 0.2; done"


def test_a_pod_whose_label_was_taken_and_given_back_ends_its_job(
    lab: Lab, own_operator: Callable[..., Operator]
) -> None:
    """Taken, it is told as deleted: what comes after that is not known already."""
    own_operator(resync_seconds=TOO_LATE).start()
    lab.shell("it", UNTIL_TOLD)
    lab.wait_status("it", phase="Running")
    for label in (None, "it"):
        lab.door.merge(KINDS["pod"], "it-1", {"metadata": {"labels": {"windlass.dev/job": label}}}, lab.namespace)
        found = lab.get("pod", "it-1") or {}
        assert found["metadata"]["labels"].get("windlass.dev/job") == label
    lab.kubectl("exec", "it-1", "--", "touch", "/artifacts/go")
    wait_for(lambda: lab.status("it").get("phase") == "Succeeded", DEADLINE, "its end to be heard")
