"""One cluster for all tests here, with the CRDs in it: an existing one when asked for, else our own. It ends with the last."""

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.binaries import can_have
from tests.kube.cluster import KubeCluster
from tests.kube.existing import ExistingCluster
from tests.kube.lab import Egpu, Lab
from tests.kube.operator import ROOT, Operator
from tests.parts import busybox
from tests.parts.waiting import wait_for

Cluster = KubeCluster | ExistingCluster
LEFT_OUT = "NO GO AND NO CLUSTER ON THIS MACHINE: the tests on Kubernetes are left out"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Skips are quiet, this is not: one line, however many they were."""
    left_out = [one for one in terminalreporter.getreports("skipped") if LEFT_OUT in str(one.longrepr)]
    if left_out:
        terminalreporter.write_sep("!", f"{LEFT_OUT} ({len(left_out)})", red=True, bold=True)


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if os.environ.get("USE_EXISTING_CLUSTER") == "true" and os.environ.get("KUBECONFIG"):
        yield ExistingCluster(Path(os.environ["KUBECONFIG"]), tmp_path_factory.mktemp("cluster"))
        return
    if not can_have():
        pytest.skip(LEFT_OUT)
    with KubeCluster() as running:
        yield running


@pytest.fixture(scope="package")
def installed(cluster: Cluster) -> Cluster:
    """With CRDs and the operator's rights, by the command that people use; the operator itself is each test's own."""
    said = Operator.say("operator", "install", f"--kubeconfig={cluster.kubeconfig}")
    assert "customresourcedefinition/ephemeralaccelerationjobs.windlass.dev applied" in said
    cluster.kubectl(
        "wait", "--for=condition=Established", "crd/ephemeralaccelerationjobs.windlass.dev", "--timeout=60s"
    )
    wait_for(lambda: "eaj" in cluster.kubectl("api-resources", "--cached=false"), 120, "the new kind to be known")
    # It would find no image to run; what runs in the tests has its rights and is started here.
    cluster.kubectl("--namespace=windlass-system", "delete", "deployment", "windlass-operator", "--wait=false")
    return cluster


@pytest.fixture(scope="package")
def common_operator(installed: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One for all tests that want any, with the rights of the Deployment's service account; started when first wanted."""
    common = Operator(installed, tmp_path_factory.mktemp("operator"))
    yield common
    common.close()


@pytest.fixture
def operator(common_operator: Operator) -> Operator:
    """It runs. Who kills operators starts an own one."""
    return common_operator.start()


@pytest.fixture
def lab(installed: Cluster) -> Iterator[Lab]:
    """A namespace of the test's own, under the restricted profile."""
    with Lab(installed, f"t-{secrets.token_hex(4)}") as namespace:
        yield namespace


@pytest.fixture
def own_operator(
    installed: Cluster, lab: Lab, tmp_path: Path, common_operator: Operator
) -> Iterator[Callable[..., Operator]]:
    """`own_operator(failpoints=…)`: an operator to be killed at will, with no other beside it."""
    common_operator.stop()
    made: list[Operator] = []

    def make(**options: Any) -> Operator:
        made.append(Operator(installed, tmp_path / f"operator-{len(made)}", namespace=lab.namespace, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def egpu(lab: Lab, tmp_path: Path) -> Egpu:
    """`egpu …` in the test's namespace and directory."""

    def call(*arguments: str, check: bool = True, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        home = ("--kubeconfig", str(lab.cluster.kubeconfig), "-n", lab.namespace)
        command = [sys.executable, "-c", "from windlass.boot.entry import egpu; egpu()", *home, *arguments]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src", "WINDLASS_SIDE_IMAGE": busybox.IMAGE}
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    return call
