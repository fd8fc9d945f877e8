"""What the admin of a cluster has decided is in every pod."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kube.binaries import has_all, kube_binaries
from tests.kube.lab import Lab
from tests.kube.operator import Operator
from tests.kube.parts import NODE


def test_the_settings_are_in_the_pod(lab: Lab, own_operator: Callable[..., Operator]) -> None:
    lab.cluster.kubectl(
        "label", "namespace", lab.namespace, "pod-security.kubernetes.io/enforce=privileged", "--overwrite"
    )
    sandbox = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "sandbox"}}
    lab.kubectl("apply", "-f", "-", stdin=json.dumps({**sandbox, "handler": "runc"}))
    own_operator(
        run_as_root="true",
        gpu_resource="amd.com/gpu",
        tolerations="spot,gpus=rare",
        gpu_tolerations="amd.com/gpu",
        node_selector="disk=fast,zone=a",
        runtime_class="sandbox",
        pull_secrets="hub,mirror",
        scratch_gib="3",
    ).start()
    lab.apply("set", command=["true"], resources={"gpu": 2, "cpu": "100m", "memory": "64Mi"})
    lab.wait_status("set", phase="Pending", reason="Unschedulable")
    spec = lab.wait_there("pod", "set-1")["spec"]
    assert not {"runAsNonRoot", "runAsUser", "runAsGroup"} & set(spec["securityContext"])
    limits = spec["containers"][0]["resources"]["limits"]
    assert (limits["amd.com/gpu"], limits["ephemeral-storage"]) == ("2", "3Gi")
    assert "nvidia.com/gpu" not in limits
    borne = {(one["key"], one["operator"], one.get("value")) for one in spec["tolerations"]}
    assert {("spot", "Exists", None), ("gpus", "Equal", "rare"), ("amd.com/gpu", "Exists", None)} <= borne
    assert spec["nodeSelector"] == {"disk": "fast", "zone": "a"}
    assert spec["runtimeClassName"] == "sandbox"
    assert spec["imagePullSecrets"] == [{"name": "hub"}, {"name": "mirror"}]


@pytest.fixture
def gpu_node(lab: Lab) -> Iterator[str]:
    """The node has a GPU, called as nobody else calls one, and a taint for who wants none; the name of both."""
    name = f"{lab.namespace}.test/gpu"
    path = f"/status/capacity/{name.replace('/', '~1')}"
    patch = ("patch", "node", NODE, "--subresource=status", "--type=json", "-p")
    lab.cluster.kubectl(*patch, json.dumps([{"op": "add", "path": path, "value": "1"}]))
    lab.cluster.kubectl("taint", "node", NODE, f"{name}=only:NoSchedule")
    yield name
    lab.cluster.kubectl("taint", "node", NODE, f"{name}-", check=False)
    lab.cluster.kubectl(*patch, json.dumps([{"op": "remove", "path": path}]))


def test_a_node_kept_for_gpu_jobs_takes_those_alone_and_who_is_kept_off_is_told(
    lab: Lab, own_operator: Callable[..., Operator], gpu_node: str
) -> None:
    gpu = {"gpu": 1, "cpu": "100m", "memory": "64Mi"}
    own = own_operator(gpu_resource=gpu_node).start()
    lab.apply("kept-off", command=["true"], resources=gpu)
    status = lab.wait_status("kept-off", phase="Pending", reason="Unschedulable")
    assert status["message"].startswith("a taint keeps it off (those that jobs with GPUs bear are the operator's")
    own.stop()
    own_operator(gpu_resource=gpu_node, gpu_tolerations=gpu_node).start()
    lab.apply("plain", command=["true"])
    lab.apply("gpu", command=["true"], resources=gpu)
    lab.wait_status("gpu", phase="Succeeded")
    status = lab.wait_status("plain", phase="Pending", reason="Unschedulable")
    assert "untolerated taint" in status["message"]
    lab.apply("second", command=["sleep", "300"], resources=gpu, graceSeconds=0)
    lab.wait_status("second", phase="Running")
    lab.apply("third", command=["true"], resources=gpu)
    status = lab.wait_status("third", phase="Pending", reason="Unschedulable")
    assert status["message"].startswith("no node that it may go to has a free GPU; --gpu 0 runs it on the CPU: 0/")


def test_programs_of_which_no_node_can_be_made_are_not_taken(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kube-apiserver", "etcd", "kubectl"):
        (tmp_path / name).touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert not has_all(tmp_path)
    assert kube_binaries() != tmp_path
