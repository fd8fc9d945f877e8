"""The operator as it is meant to live: installed by its own command, in a pod, under the restricted profile."""

import pytest

from tests.kube.cluster import KubeCluster
from tests.kube.lab import Lab
from tests.kube.operator import Operator
from tests.kube.operator_image import IMAGE, operator_archive


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_installed_operator_becomes_ready_and_runs_a_job(
    cluster: KubeCluster, lab: Lab, common_operator: Operator
) -> None:
    if not isinstance(cluster, KubeCluster):
        pytest.skip("there is no registry to bring the image to somebody else's cluster")
    common_operator.stop()
    cluster.serve()
    cluster.import_image(operator_archive())
    Operator.say(
        "operator", "install", f"--kubeconfig={cluster.kubeconfig}", "--image", IMAGE, "--set", "resync_seconds=5"
    )
    try:
        rolled = ("rollout", "status", "deployment/windlass-operator", "--timeout=110s")
        assert "successfully rolled out" in cluster.kubectl(*rolled, namespace="windlass-system")
        lab.shell("inside", "echo from a pod")
        lab.wait_status("inside", phase="Succeeded")
        assert lab.log("inside") == "from a pod\n"
        lab.wait_gone("pod", "inside-1")
    except AssertionError as failed:
        said = cluster.kubectl("logs", "deployment/windlass-operator", namespace="windlass-system", check=False)
        shown = cluster.kubectl("describe", "pods", namespace="windlass-system", check=False)
        raise AssertionError(f"{failed}\n{said}\n{shown[-3000:]}") from None
    finally:
        cluster.kubectl("delete", "deployment", "windlass-operator", namespace="windlass-system")
