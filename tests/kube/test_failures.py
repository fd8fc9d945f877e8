"""What goes wrong on a real cluster ends in a phase, a reason and a message that a person understands."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kube.cluster import KubeCluster
from tests.kube.lab import DEADLINE, Lab
from tests.kube.operator import Operator
from tests.kube.parts import NODE
from tests.parts import busybox
from tests.parts.waiting import wait_for
from windlass.client.kube.api import NODES, PODS
from windlass.core.errors import WindlassError


def failed(operator: Operator, reason: str) -> float:
    """Runs, as its metrics count them."""
    return operator.metric("windlass_operator_runs_failed_total", f'reason="{reason}"')


def wait_counted(operator: Operator, reason: str, before: float, runs: int = 1) -> None:
    """It counts when it has written."""
    wait_for(lambda: failed(operator, reason) == before + runs, DEADLINE, f"{runs} more to have failed by {reason}")


def test_a_failed_run_is_retried_as_a_new_pod_and_tells_its_last_lines(lab: Lab, operator: Operator) -> None:
    before = failed(operator, "ExitCode")
    lab.shell("flaky", 'echo "attempt $WINDLASS_ATTEMPT"; exit 3', retries=1)
    status = lab.wait_status("flaky", phase="Failed")
    assert (status["reason"], status["exitCode"], status["attempt"]) == ("ExitCode", 3, 2)
    assert status["message"] == "exit code 3; its last lines:\nattempt 2"
    assert (lab.log("flaky", 1), lab.log("flaky", 2)) == ("attempt 1\n", "attempt 2\n")
    for pod in ("flaky-1", "flaky-2"):
        lab.wait_gone("pod", pod)
    wait_counted(operator, "ExitCode", before, runs=2)


def test_too_much_memory_is_told_as_such(lab: Lab, operator: Operator) -> None:
    before = failed(operator, "OOMKilled")
    lab.apply("greedy", command=["dd", "if=/dev/zero", "of=/dev/null", "bs=256M"])
    assert lab.wait_status("greedy", phase="Failed")["reason"] == "OOMKilled"
    wait_counted(operator, "OOMKilled", before)


def test_a_run_that_exceeds_its_timeout_is_ended(lab: Lab, operator: Operator) -> None:
    before = failed(operator, "DeadlineExceeded")
    lab.apply("slow", command=["sleep", "300"], timeoutSeconds=2, graceSeconds=0, retries=3)
    status = lab.wait_status("slow", phase="Failed")
    assert (status["reason"], status["attempt"]) == ("DeadlineExceeded", 1)
    wait_counted(operator, "DeadlineExceeded", before)


def test_an_image_that_is_nowhere_fails_with_the_pulls_own_words(lab: Lab, operator: Operator) -> None:
    before = failed(operator, "ImagePull")
    lab.apply("imageless", image="127.0.0.1:9/nowhere:1")
    status = lab.wait_status("imageless", phase="Failed")
    assert status["reason"] == "ImagePull"
    assert "127.0.0.1:9/nowhere:1" in status["message"]
    lab.wait_gone("pod", "imageless-1")
    wait_counted(operator, "ImagePull", before)


def test_a_command_that_is_not_there_cannot_start(lab: Lab, operator: Operator) -> None:
    lab.apply("typo", command=["/bin/ehco", "hello"])
    status = lab.wait_status("typo", phase="Failed")
    assert status["reason"] == "StartFailed"
    assert "/bin/ehco" in status["message"]
    assert "startedAt" not in status


def test_what_only_the_validator_knows_to_be_wrong_ends_the_job_with_the_field_named(
    lab: Lab, operator: Operator
) -> None:
    lab.apply("odd", image=f"registry/{'x' * 300}")
    status = lab.wait_status("odd", phase="Failed")
    assert status["reason"] == "Invalid"
    assert status["message"].startswith("spec.image: ")
    assert lab.items("pods") == []


def test_a_gpu_that_no_node_has_is_waited_for_and_said_so(lab: Lab, operator: Operator) -> None:
    lab.apply("hungry", command=["true"], resources={"gpu": 1, "cpu": "100m", "memory": "64Mi"})
    status = lab.wait_status("hungry", phase="Pending", reason="Unschedulable")
    assert "nvidia.com/gpu" in status["message"]
    assert "--gpu 0" in status["message"]
    assert operator.metric("windlass_operator_jobs_pending", 'reason="Unschedulable"') >= 1
    give = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "1"}]
    lab.cluster.kubectl("patch", "node", NODE, "--subresource=status", "--type=json", "-p", json.dumps(give))
    lab.wait_status("hungry", phase="Succeeded")


def test_a_quota_that_is_used_up_is_waited_for(lab: Lab, operator: Operator) -> None:
    lab.kubectl("create", "quota", "none", "--hard=pods=0")
    lab.shell("patient", "true")
    status = lab.wait_status("patient", phase="Pending", reason="QuotaExceeded")
    assert "exceeded quota: none" in status["message"]
    lab.kubectl("delete", "quota", "none")
    assert lab.wait_status("patient", phase="Succeeded")["attempt"] == 1


def test_a_volume_that_the_quota_does_not_grant_is_waited_for_too_and_said(lab: Lab, operator: Operator) -> None:
    lab.kubectl("create", "quota", "none", "--hard=persistentvolumeclaims=0")
    lab.shell("roomless", "true")
    status = lab.wait_status("roomless", phase="Pending", reason="QuotaExceeded")
    assert "exceeded quota: none" in status["message"]
    wait_for(lambda: "QuotaExceeded" in lab.events("roomless"), DEADLINE, "what is told after it is written")
    lab.kubectl("delete", "quota", "none")
    assert lab.wait_status("roomless", phase="Succeeded")["attempt"] == 1


def test_a_pod_deleted_while_it_runs_is_a_failed_run_and_never_a_silent_second_one(
    lab: Lab, operator: Operator
) -> None:
    lab.apply("once", command=["sleep", "300"], graceSeconds=0)
    lab.wait_status("once", phase="Running")
    lab.kubectl("delete", "pod", "once-1", "--grace-period=0", "--force")
    status = lab.wait_status("once", phase="Failed")
    assert (status["reason"], status["attempt"]) == ("PodDeleted", 1)
    assert lab.items("pods") == []


def test_a_run_that_gives_in_when_its_pod_is_deleted_has_not_succeeded(lab: Lab, operator: Operator) -> None:
    wait = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    lab.shell("polite", f'[ "$WINDLASS_ATTEMPT" = 2 ] && exit 0; {wait}', retries=1)
    lab.wait_status("polite", phase="Running")
    lab.kubectl("delete", "pod", "polite-1", "--wait=false")
    assert lab.wait_status("polite", phase="Succeeded")["attempt"] == 2
    assert "PodDeleted" in lab.events("polite")


def test_a_job_made_again_waits_for_what_the_one_before_it_has_left(lab: Lab, operator: Operator) -> None:
    lab.apply("again", command=["sleep", "300"], graceSeconds=3)
    old = lab.wait_status("again", phase="Running")
    lab.kubectl("delete", "eaj", "again")
    lab.shell("again", "true")
    assert lab.wait_status("again", phase="Succeeded")["volumeUID"] != old["volumeUID"]


def test_a_log_is_kept_beside_one_that_a_job_before_it_has_left(lab: Lab, operator: Operator) -> None:
    lab.shell("orphaned", "echo first")
    lab.wait_status("orphaned", phase="Succeeded")
    lab.wait_gone("pod", "orphaned-1")
    lab.kubectl("delete", "eaj", "orphaned", "--cascade=orphan")
    lab.shell("orphaned", "echo second")
    kept = lab.wait_status("orphaned", phase="Succeeded")["logName"]
    assert kept.startswith("orphaned-1-log-")
    assert lab.wait_there("configmap", kept)["data"]["tail"] == "second"
    assert lab.log("orphaned") == "first\n"


def test_an_end_written_by_hand_ends_the_run(lab: Lab, operator: Operator) -> None:
    lab.apply("forged", command=["sleep", "300"], graceSeconds=0)
    lab.wait_status("forged", phase="Running")
    forged = json.dumps({"status": {"phase": "Succeeded", "reason": "Forged"}})
    lab.kubectl("patch", "eaj", "forged", "--subresource=status", "--type=merge", "-p", forged)
    lab.wait_gone("pod", "forged-1")
    assert "finishedAt" in lab.status("forged")


def test_a_volume_deleted_before_the_run_is_not_made_anew(lab: Lab, operator: Operator) -> None:
    lab.shell("robbed", "true", suspend=True)
    lab.wait_status("robbed", reason="Suspended")
    lab.kubectl("delete", "pvc", "artifacts-robbed")
    status = lab.wait_status("robbed", phase="Failed")
    assert status["reason"] == "VolumeLost"
    assert lab.items("pvc") == []


def test_a_cancelled_job_ends_at_once_and_keeps_what_it_printed(lab: Lab, operator: Operator) -> None:
    lab.shell("doomed", "echo so far; sleep 300", graceSeconds=0)
    lab.wait_status("doomed", phase="Running")
    wait_for(lambda: "so far" in lab.kubectl("logs", "doomed-1"), 120, "its first line")
    lab.kubectl("annotate", "eaj", "doomed", "windlass.dev/cancel=true")
    status = lab.wait_status("doomed", phase="Failed")
    assert (status["reason"], lab.log("doomed")) == ("Cancelled", "so far\n")
    lab.wait_gone("pod", "doomed-1")


def test_a_pod_of_somebody_else_with_the_name_is_left_alone(lab: Lab, operator: Operator) -> None:
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    tight = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "c", "image": busybox.IMAGE, "command": ["sleep", "300"], "securityContext": tight}
    spec = {"containers": [container], "securityContext": security, "terminationGracePeriodSeconds": 0}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "twin-1"}, "spec": spec}
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    lab.shell("twin", "true")
    assert lab.wait_status("twin", phase="Failed")["reason"] == "PodNameTaken"
    assert lab.get("pod", "twin-1") is not None


def test_a_pod_that_a_job_of_the_name_has_left_is_waited_for_and_left_alone(lab: Lab, operator: Operator) -> None:
    lab.shell("kept", "sleep 300", graceSeconds=0)
    lab.wait_status("kept", phase="Running")
    left = lab.wait_there("pod", "kept-1")["metadata"]["uid"]
    lab.kubectl("delete", "eaj", "kept", "--cascade=orphan")
    lab.shell("kept", "echo anew")
    status = lab.wait_status("kept", phase="Pending", reason="PodNameTaken")
    assert "kubectl delete pod kept-1" in status["message"]
    assert lab.wait_there("pod", "kept-1")["metadata"]["uid"] == left
    lab.kubectl("delete", "pod", "kept-1")
    assert lab.wait_status("kept", phase="Succeeded")["attempt"] == 1


@pytest.fixture
def far_node(lab: Lab) -> Iterator[str]:
    """A node with nobody behind it: what a test says of its pods no kubelet contradicts, and it answers nothing."""
    name = f"far-{lab.namespace}"
    made = lab.door.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, "")
    yield name
    lab.door.delete(NODES, name, "", uid=made["metadata"]["uid"])


def run_on(lab: Lab, node: str, job: str, **spec: Any) -> None:
    """A job whose pod runs there, or so it seems."""
    lab.apply(job, command=["sleep", "300"], nodeSelector={"kubernetes.io/hostname": node}, **spec)
    wait_for(lambda: lab.status(job).get("podUID"), DEADLINE, "its pod")
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"{job}-1"}, "target": target}

    def bind() -> bool:
        """Not as long as its gate is there."""
        try:
            lab.door.call("POST", PODS.path(lab.namespace, f"{job}-1", "binding"), binding)
        except WindlassError:
            return False
        return True

    wait_for(bind, DEADLINE, "the pod to take its node")
    container = {"name": "main", "image": "x", "imageID": "", "ready": True, "restartCount": 0}
    container["state"] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    say_of_pod(lab, f"{job}-1", phase="Running", containerStatuses=[container])
    lab.wait_status(job, phase="Running")


def say_of_pod(lab: Lab, pod: str, **status: Any) -> None:
    lab.kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))


def test_an_evicted_pod_is_told_in_the_nodes_own_words(lab: Lab, operator: Operator, far_node: str) -> None:
    before = failed(operator, "Evicted")
    run_on(lab, far_node, "pushed")
    words = "The node was low on resource: memory. Container main was using 5Gi, request is 1Gi."
    say_of_pod(lab, "pushed-1", phase="Failed", reason="Evicted", message=words, containerStatuses=[])
    status = lab.wait_status("pushed", phase="Failed")
    assert (status["reason"], status["message"], status["attempt"]) == ("Evicted", words, 1)
    wait_for(lambda: "Evicted" in lab.events("pushed"), DEADLINE, "what is told after it is written")
    wait_counted(operator, "Evicted", before)


def test_a_node_that_does_not_answer_is_said_and_when_it_takes_the_pod_along_it_was_lost(
    lab: Lab, operator: Operator, far_node: str
) -> None:
    before = failed(operator, "NodeLost")
    run_on(lab, far_node, "stranded", retries=0)
    status = lab.wait_status("stranded", phase="Running", reason="NodeNotReady")
    assert status["message"] == f"node {far_node} does not answer; the run is neither ended nor started again"
    # As the cluster does when it gives a node up.
    lab.kubectl("delete", "pod", "stranded-1", "--grace-period=0", "--force")
    status = lab.wait_status("stranded", phase="Failed")
    assert (status["reason"], status["message"]) == ("NodeLost", f"node {far_node} was lost, and its pod with it")
    assert lab.items("pods") == []
    wait_counted(operator, "NodeLost", before)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_node_that_is_removed_ends_its_run_and_a_retry_is_made(lab: Lab, operator: Operator, far_node: str) -> None:
    run_on(lab, far_node, "moved", retries=1, onLostNode="move", lostAfter=10)
    lab.kubectl("delete", "node", far_node)
    status = lab.wait_status("moved", attempt=2, deadline=300)  # the cluster's own sweep comes by every so often
    assert status["phase"] == "Pending"
    wait_for(lambda: "NodeLost" in lab.events("moved"), DEADLINE, "what is told after it is written")


@pytest.mark.soak
def test_a_silent_node_is_said_and_its_run_neither_ended_nor_doubled(
    lab: Lab, operator: Operator, cluster: KubeCluster
) -> None:
    if not isinstance(cluster, KubeCluster):
        pytest.skip("a node of somebody else's cluster is not stopped")
    lab.shell("steady", "while [ ! -e /artifacts/go ]; do sleep 0.2; done", graceSeconds=0)
    lab.wait_status("steady", phase="Running")
    volume = next((cluster.directory / "volumes").glob(f"pvc-{lab.status('steady')['volumeUID']}"))
    cluster.kubelet.pause()
    try:
        status = lab.wait_status("steady", phase="Running", reason="NodeNotReady")
        assert NODE in status["message"]
        (volume / "go").touch()
    finally:
        cluster.kubelet.resume()
    assert lab.wait_status("steady", phase="Succeeded")["attempt"] == 1
