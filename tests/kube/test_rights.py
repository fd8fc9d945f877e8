"""Where the operator's namespaces are named it has its rights there, the server has its own there, and both none elsewhere."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.lab import Lab
from tests.kube.operator import Operator
from tests.kube.served import ACCOUNT, ClusterServer, bind
from windlass.client.kube.api import CLAIMS, JOBS, PODS, Kind, read_config
from windlass.client.kube.door import KubeDoor
from windlass.core.errors import Denied
from windlass.wire.kube.install import GUESTS

OPERATOR = "system:serviceaccount:windlass-system:windlass-operator"
NAMESPACED = (
    "pods",
    "pods/log",
    "persistentvolumeclaims",
    "configmaps",
    "events",
    "secrets",
    JOBS.plural,
    f"{JOBS.plural}/status",
)
REVIEWS = Kind("authorization.k8s.io/v1", "subjectaccessreviews", is_namespaced=False)
WRITES = ("create", "patch", "update", "delete")


@pytest.fixture
def other(installed: Any, lab: Lab) -> Iterator[Lab]:
    """A namespace that nobody has named."""
    with Lab(installed, f"{lab.namespace}-other") as namespace:
        yield namespace


@pytest.fixture
def runs(installed: Any, lab: Lab) -> Iterator[Lab]:
    """The server's own, beside the tenant's."""
    with Lab(installed, f"{lab.namespace}-runs") as namespace:
        yield namespace


@pytest.fixture
def narrow(installed: Any, lab: Lab, common_operator: Operator) -> Iterator[None]:
    """Installed for `lab` alone. Afterwards for all again, which takes the roles there back."""
    common_operator.stop()
    install(lab, "--set", f"namespaces={lab.namespace}")
    yield
    assert f"role/windlass-operator in {lab.namespace} taken back" in install(lab)
    assert lab.kubectl("get", "role", "windlass-operator", "--ignore-not-found") == ""


def install(lab: Lab, *options: str) -> str:
    said = Operator.say("operator", "install", f"--kubeconfig={lab.cluster.kubeconfig}", *options)
    lab.cluster.kubectl("--namespace=windlass-system", "delete", "deployment", "windlass-operator", "--wait=false")
    return said


def may(lab: Lab, who: str, verb: str, what: str) -> bool:
    resource, _, sub = what.partition("/")
    asked = {"namespace": lab.namespace, "verb": verb, "resource": resource, "subresource": sub}
    if resource == JOBS.plural:
        asked["group"] = "windlass.dev"
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    answer = lab.door.create(REVIEWS, {**review, "spec": {"user": who, "resourceAttributes": asked}}, "")
    return bool(answer["status"]["allowed"])


def has_any(lab: Lab, who: str) -> list[tuple[str, str]]:
    return [(verb, what) for what in NAMESPACED for verb in (*WRITES, "get", "list") if may(lab, who, verb, what)]


def refused(config: Path, lab: Lab) -> None:
    """By real calls, not only by what the API server says of itself."""
    door = KubeDoor(read_config(config))
    try:
        for kind in (JOBS, PODS, CLAIMS):
            for namespace in (lab.namespace, ""):
                with pytest.raises(Denied):
                    door.list(kind, namespace)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine"}, "spec": {"containers": []}}
        with pytest.raises(Denied):
            door.create(PODS, pod, lab.namespace)
    finally:
        door.close()


@pytest.mark.usefixtures("narrow")
def test_an_operator_of_one_namespace_runs_a_job_there_and_is_refused_in_another(
    lab: Lab, other: Lab, tmp_path: Path
) -> None:
    other.shell("elsewhere", "true")
    with Operator(lab.cluster, tmp_path, namespace=lab.namespace) as operator:
        lab.shell("here", "echo mine > /artifacts/out; echo said", ttlSecondsAfterFinished=0)
        lab.wait_status("here", phase="Succeeded")
        lab.wait_gone("pod", "here-1")
        assert lab.log("here") == "said\n"
        assert "Completed" in lab.events("here")
        assert operator.metric("windlass_operator_reconcile_errors_total") == 0
        assert "forbidden" not in operator.log.read_text()
    assert (other.status("elsewhere"), other.items("pods")) == ({"phase": "Pending"}, [])
    assert may(lab, OPERATOR, "create", "pods")
    assert not may(lab, OPERATOR, "get", "secrets")
    assert has_any(other, OPERATOR) == []
    assert not any(may(other, OPERATOR, verb, what) for verb in WRITES for what in ("nodes", "namespaces"))
    refused(tmp_path / "kubeconfig", other)


@pytest.mark.usefixtures("narrow")
def test_a_server_has_its_runs_in_the_named_namespace_and_is_refused_in_another(
    lab: Lab, other: Lab, tmp_path: Path
) -> None:
    who = f"system:serviceaccount:{lab.namespace}:{ACCOUNT}"
    with Operator(lab.cluster, tmp_path, namespace=lab.namespace), ClusterServer(lab, cpu="64") as server:
        assert server.run("there", "echo from a pod").out == "from a pod\n"
        assert server.job("there")["state"] == "SUCCEEDED"
        assert has_any(other, who) == []
        assert not may(other, who, "get", "namespaces")
        refused(server.data / "kubeconfig", other)


@pytest.mark.usefixtures("narrow")
def test_a_server_admits_what_is_in_a_named_tenants_namespace_and_is_refused_in_another(
    lab: Lab, other: Lab, runs: Lab, tmp_path: Path
) -> None:
    named = f"{lab.namespace},{runs.namespace}"
    install(lab, "--set", f"namespaces={named}")
    lab.kubectl("label", "namespace", lab.namespace, "windlass.dev/tenant=local")
    bind(lab, GUESTS, server_of=runs)
    who = f"system:serviceaccount:{runs.namespace}:{ACCOUNT}"
    with ClusterServer(runs, cpu="64", tenants=True, tenant_namespaces=[lab.namespace]) as server:
        said = server.cli("doctor", check=False).out
        key = next(line.split()[-1] for line in said.splitlines() if "release key" in line)
        with Operator(lab.cluster, tmp_path, namespace=named, release_key=key):
            lab.shell("guest", "echo mine")
            lab.wait_status("guest", phase="Succeeded")
            assert server.run("own", "echo from a pod").out == "from a pod\n"
            assert not may(lab, who, "create", JOBS.plural)
            assert not may(lab, who, "create", "pods")
            assert has_any(other, who) == []
            assert "forbidden" not in server.log.read_text()


def test_an_install_for_a_namespace_that_is_not_there_takes_nothing_from_who_is_at_work(
    lab: Lab, operator: Operator
) -> None:
    def rules() -> Any:
        return json.loads(lab.cluster.kubectl("get", "clusterrole", "windlass-operator", "-o", "json"))["rules"]

    before = rules()
    with pytest.raises(AssertionError, match="there is no namespace nothere; nothing was applied"):
        install(lab, "--set", f"namespaces={lab.namespace},nothere")
    assert rules() == before
    assert lab.kubectl("get", "role", "--ignore-not-found") == ""
    lab.shell("goes-on", "true")
    lab.wait_status("goes-on", phase="Succeeded")


def test_an_install_takes_back_a_servers_roles_too_where_nobody_has_bound_them(
    lab: Lab, other: Lab, common_operator: Operator
) -> None:
    common_operator.stop()
    install(lab, "--set", f"namespaces={lab.namespace},{other.namespace}")
    bind(other, GUESTS, server_of=lab)
    said = install(lab)
    assert f"role/{GUESTS} in {lab.namespace} taken back" in said
    assert f"role/{GUESTS} in {other.namespace} left: rolebinding/{GUESTS} gives it to somebody" in said
    assert lab.kubectl("get", "roles,rolebindings", "--ignore-not-found") == ""
    kept = other.kubectl("get", "roles,rolebindings", "-o", "name").split()
    assert [one.partition("/")[2] for one in kept] == [GUESTS, GUESTS]
