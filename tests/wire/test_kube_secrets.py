"""Secrets of jobs on Kubernetes: references to the cluster's own, in the pod and in the CRD; never a value."""

from typing import Any

import pytest

from windlass.core.errors import Invalid
from windlass.wire.job import read_manifest
from windlass.wire.kube.crd import ephemeral_crd
from windlass.wire.kube.pod import PodPolicy, run_pod


def read(**spec: Any) -> Any:
    document = {"apiVersion": "windlass.dev/v1", "kind": "EphemeralAccelerationJob", "spec": {"image": "a:1", **spec}}
    return read_manifest(document, runtime="container")


def test_a_pod_refers_to_secrets_and_holds_none() -> None:
    asked = read(
        env={"PLAIN": "p", "A": {"secret": "hub"}},
        secretEnv={"B": {"secret": "hub", "key": "token"}},
        secretFiles={"conf": {"secret": "app", "key": "config"}},
    )
    body = run_pod("job", "uid", 1, asked, PodPolicy())["spec"]
    (container,) = body["containers"]
    variables = {one["name"]: one.get("valueFrom", {}).get("secretKeyRef") or one["value"] for one in container["env"]}
    assert (variables["A"], variables["B"]) == ({"name": "hub", "key": "value"}, {"name": "hub", "key": "token"})
    assert (variables["PLAIN"], variables["WINDLASS_SECRETS"]) == ("p", "/run/secrets")
    assert {"name": "secrets", "mountPath": "/run/secrets", "readOnly": True} in container["volumeMounts"]
    (volume,) = [one for one in body["volumes"] if one["name"] == "secrets"]
    source = {"secret": {"name": "app", "items": [{"key": "config", "path": "conf"}]}}
    assert volume["projected"] == {"defaultMode": 0o400, "sources": [source]}


def test_a_job_without_secrets_has_no_place_for_them() -> None:
    body = run_pod("job", "uid", 1, read(), PodPolicy())["spec"]
    assert [one["name"] for one in body["volumes"]] == ["artifacts"]
    assert "WINDLASS_SECRETS" not in {one["name"] for one in body["containers"][0]["env"]}


def test_the_crd_says_what_each_place_may_hold() -> None:
    version = ephemeral_crd()["spec"]["versions"][0]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert fields["env"]["additionalProperties"]["type"] == "string"
    for name in ("secretEnv", "secretFiles"):
        reference = fields[name]["additionalProperties"]
        assert (reference["type"], reference["required"]) == ("object", ["secret"])
        assert set(reference["properties"]) == {"secret", "key"}
        assert fields[name]["x-kubernetes-validations"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"env": {"A": "x"}, "secretEnv": {"A": {"secret": "hub"}}}, "spec.secretEnv.A"),
        ({"env": {"A": {"secret": "hub"}}, "secretEnv": {"A": {"secret": "hub"}}}, "spec.secretEnv.A"),
        ({"secretEnv": {"A": "x"}}, "spec.secretEnv.A"),
        ({"secretEnv": {"A=B": {"secret": "hub"}}}, "spec.secretEnv"),
        ({"secretEnv": ["A"]}, "spec.secretEnv"),
    ],
)
def test_a_variable_is_said_once_and_by_its_name(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(**spec)
    assert [fault.field for fault in refused.value.faults] == [field]
