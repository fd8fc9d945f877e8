"""What the admin of a cluster has decided is in every pod."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kube.binaries import has_all, kube_binaries
from tests.kube.lab import Lab
from tests.kube.operator import Operator


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
    assert {("spot", "Exists", None), ("gpus", "Equal", "rare")} <= borne
    assert spec["nodeSelector"] == {"disk": "fast", "zone": "a"}
    assert spec["runtimeClassName"] == "sandbox"
    assert spec["imagePullSecrets"] == [{"name": "hub"}, {"name": "mirror"}]


def test_programs_of_which_no_node_can_be_made_are_not_taken(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kube-apiserver", "etcd", "kubectl"):
        (tmp_path / name).touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert not has_all(tmp_path)
    assert kube_binaries() != tmp_path
