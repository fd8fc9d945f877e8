"""The cluster itself: it runs pods, binds both kinds of volumes, and leaves nothing behind."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.kube.cluster import KubeCluster
from tests.kube.coredns import has_coredns
from tests.kube.lab import Lab
from tests.kube.operator import Operator
from tests.parts.waiting import wait_for

JOBS = "ephemeralaccelerationjobs.windlass.dev"


def test_the_node_is_ready_and_says_its_version(cluster: KubeCluster) -> None:
    assert "Ready" in cluster.kubectl("get", "nodes")
    assert "v1.36" in cluster.kubectl("version")


@pytest.mark.skipif(not has_coredns(), reason="NO COREDNS HERE, and it cannot be built")
def test_a_pod_finds_a_service_by_its_name(lab: Lab, operator: Operator) -> None:
    if not isinstance(lab.cluster, KubeCluster):
        pytest.skip("what names mean in somebody else's cluster is not ours to say")
    metadata = {"name": "answers"}
    ports = [{"port": 80}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(service))
    address = lab.kubectl("get", "service", "answers", "-o", "jsonpath={.spec.clusterIP}")
    name = f"answers.{lab.namespace}.svc.cluster.local"
    # It hears of a new service by a watch, so the first answer may still be that there is none.
    lab.shell("asks", f"cat /etc/resolv.conf; until nslookup -type=a {name}; do sleep 0.2; done", timeoutSeconds=100)
    lab.wait_status("asks", phase="Succeeded")
    said = lab.log("asks")
    assert f"search {lab.namespace}.svc.cluster.local" in said
    assert f"Address: {address}" in said.replace("Address 1:", "Address:")


@pytest.mark.soak
def test_a_light_control_plane_comes_up_and_leaves_nothing() -> None:
    with KubeCluster(light=True) as light:
        assert "default" in light.kubectl("get", "namespaces")
        directory, bridge = light.directory, light._slot.bridge if light._slot else ""
    assert not directory.exists()
    assert str(directory) not in Path("/proc/self/mountinfo").read_text()
    wait_for(lambda: not Path("/sys/class/net", bridge).exists(), 120, "the bridge to go")
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(directory) not in listed


def test_the_operator_is_installed_without_a_right_too_many(lab: Lab) -> None:
    who = "--as=system:serviceaccount:windlass-system:windlass-operator"
    for allowed in (
        ("create", "pods"),
        ("patch", JOBS, "--subresource=status"),
        ("delete", "pvc"),
        ("get", "pods", "--subresource=log"),
    ):
        assert lab.kubectl("auth", "can-i", *allowed, who).strip() == "yes", allowed
    for denied in (
        ("get", "secrets"),
        ("list", "configmaps"),
        ("create", "pods", "--subresource=exec"),
        ("update", JOBS),
        ("delete", JOBS),
    ):
        assert lab.kubectl("auth", "can-i", *denied, who, check=False).strip().startswith("no"), denied
