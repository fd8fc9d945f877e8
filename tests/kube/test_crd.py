"""The CRD on a real API server: the same manifest goes in, and what is wrong is refused with its field named."""

import json
from typing import Any

import pytest

from tests.kube.lab import Lab
from windlass.core.errors import Invalid
from windlass.wire.job import read_manifest


def test_a_short_manifest_gets_every_default(lab: Lab) -> None:
    lab.apply("plain", resources=None, suspend=True)
    found = lab.get("eaj", "plain")
    assert found is not None
    spec = found["spec"]
    assert spec["resources"] == {"cpu": "1", "memory": "512Mi", "gpu": 1}
    assert (spec["model"], spec["input"]) == ("resnet50", {"type": "image", "path": "/artifacts/input.jpg"})
    assert (spec["ttlSecondsAfterFinished"], spec["pvcTTLSecondsAfterFinished"]) == (0, 3600)
    assert (spec["pvcSize"], spec["lostAfter"], spec["retries"]) == ("1Gi", 600, 0)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a negative time-to-live": ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished"),
    "too many retries": ({"retries": 101}, "spec.retries"),
    "a size that is no size": ({"pvcSize": "plenty"}, "spec.pvcSize"),
    "memory with a shell in it": ({"resources": {"memory": "1Gi; reboot"}}, "spec.resources.memory"),
    "half a GPU": ({"resources": {"gpu": 0.5}}, "spec.resources.gpu"),
    "a path that climbs out": ({"input": {"path": "/artifacts/../etc/passwd"}}, "spec.input.path"),
    "a path elsewhere": ({"output": {"path": "/etc/passwd"}}, "spec.output.path"),
    "a variable with a bad name": ({"env": {"A=B": "x"}}, "spec.env"),
    "a secret file that is a path": ({"secretFiles": {"../x": {"secret": "a"}}}, "spec.secretFiles"),
    "a reference to no secret": ({"secretEnv": {"A": {"key": "k"}}}, "spec.secretEnv"),
    "a reference in the place of a text": ({"env": {"A": {"secret": "a"}}}, "spec.env"),
    "a node label of ours": ({"nodeSelector": {"windlass.dev/job": "x"}}, "spec.nodeSelector"),
    "a storage class that is a path": ({"storageClass": "../../x"}, "spec.storageClass"),
    "a storage class with a part that is empty": ({"storageClass": "gp3..csi"}, "spec.storageClass"),
    "a storage class of too long a name": ({"storageClass": "x" * 254}, "spec.storageClass"),
    "an unknown answer to a lost node": ({"onLostNode": "panic"}, "spec.onLostNode"),
    "an image that is a sentence": ({"image": "Not An Image"}, "spec.image"),
    "an image that is an option": ({"image": "--privileged"}, "spec.image"),
    "an image with a shell behind it": ({"image": "busybox;reboot"}, "spec.image"),
    "a digest that is none": ({"image": "busybox@sha256:abc"}, "spec.image"),
    "a model that is a path": ({"model": "../etc"}, "spec.model"),
    "a webhook that is a file": ({"webhook": {"url": "file:///etc/passwd"}}, "spec.webhook.url"),
    "a field that does not exist": ({"privileged": True}, "privileged"),
    "a text where a truth value is meant": ({"suspend": "no"}, "spec.suspend"),
}


def test_a_storage_class_whose_name_has_dots_is_taken(lab: Lab) -> None:
    assert lab.apply("dotted", suspend=True, storageClass="gp3.csi.example.com") == ""


@pytest.mark.parametrize(("spec", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_both_validators_refuse_with_the_field_named(
    lab: Lab, request: pytest.FixtureRequest, spec: dict[str, Any], field: str
) -> None:
    said = lab.apply("bad", check=False, **spec)
    assert field in said
    assert lab.get("eaj", "bad") is None
    if "a reference in the place of a text" not in str(request.node.name):  # elsewhere a variable may be one
        assert field in faults_of_the_validator(spec)


LEFT_TO_THE_VALIDATOR: dict[str, tuple[dict[str, Any], str]] = {
    "too long a repository's name: the expression does not count": ({"image": f"a/{'x' * 300}"}, "spec.image"),
    "too little memory: of a number and a text only the form is compared": (
        {"resources": {"memory": "1"}},
        "spec.resources.memory",
    ),
    "too short a silence, as a text: likewise": ({"lostAfter": "1s"}, "spec.lostAfter"),
    "a variable in both places: a rule over both costs more than the API server grants": (
        {"env": {"A": "x"}, "secretEnv": {"A": {"secret": "a"}}},
        "spec.secretEnv",
    ),
}
"""What the schema lets pass and the operator ends as `Invalid`, and why."""


@pytest.mark.parametrize(("spec", "field"), LEFT_TO_THE_VALIDATOR.values(), ids=LEFT_TO_THE_VALIDATOR.keys())
def test_what_the_schema_cannot_say_the_validator_does(lab: Lab, spec: dict[str, Any], field: str) -> None:
    assert lab.apply("bad", suspend=True, **spec) == ""
    assert field in faults_of_the_validator(spec)


def faults_of_the_validator(spec: dict[str, Any]) -> str:
    """In the fields' own names, as a server answers."""
    document = {"apiVersion": "windlass.dev/v1", "kind": "EphemeralAccelerationJob", "metadata": {"name": "bad"}}
    with pytest.raises(Invalid) as refused:
        read_manifest({**document, "spec": {"image": "busybox", **spec}}, runtime="container")
    return " ".join(fault.field for fault in refused.value.faults)


@pytest.mark.parametrize("name", ["a.b", "x" * 64])
def test_a_name_that_is_no_dns_label_is_refused(lab: Lab, name: str) -> None:
    assert "DNS label" in lab.apply(name, check=False)


@pytest.mark.parametrize(
    ("name", "field", "made_with", "changed_to"),
    [
        ("fixed-image", "image", {}, {"image": "another/image:2"}),
        ("fixed-resources", "resources", {}, {"resources": {"gpu": 0, "cpu": "77m", "memory": "64Mi"}}),
        ("fixed-size", "pvcSize", {}, {"pvcSize": "2Gi"}),
        ("fixed-model", "model", {}, {"model": "another"}),
        ("fixed-class-added", "storageClass", {}, {"storageClass": "late"}),
        ("fixed-class-removed", "storageClass", {"storageClass": "late"}, {}),
        ("fixed-class-changed", "storageClass", {"storageClass": "late"}, {"storageClass": "standard"}),
    ],
)
def test_what_a_job_is_cannot_be_changed_under_way(
    lab: Lab, name: str, field: str, made_with: dict[str, Any], changed_to: dict[str, Any]
) -> None:
    lab.apply(name, suspend=True, **made_with)
    said = lab.apply(name, check=False, suspend=True, **changed_to)
    assert f"{field} is fixed once the job is made" in said


def test_what_a_job_is_may_be_said_again_while_the_rest_changes(lab: Lab) -> None:
    lab.apply("same", suspend=True, storageClass="late")
    lab.apply("same", suspend=True, storageClass="late", ttlSecondsAfterFinished=77)
    job = lab.get("eaj", "same")
    assert job is not None
    assert job["spec"]["ttlSecondsAfterFinished"] == 77


def test_kubectl_itself_names_the_field(lab: Lab) -> None:
    spec = {"image": "x", "retries": -1, "privileged": True}
    metadata = {"name": "bad"}
    job = {"apiVersion": "windlass.dev/v1", "kind": "EphemeralAccelerationJob", "metadata": metadata, "spec": spec}
    said = lab.kubectl("apply", "-f", "-", stdin=json.dumps(job), check=False)
    assert 'unknown field "spec.privileged"' in said or "spec.retries" in said


def test_the_list_shows_phase_and_reason(lab: Lab) -> None:
    lab.apply("shown", suspend=True)
    heading = lab.kubectl("get", "eaj").splitlines()[0].split()
    assert heading == ["NAME", "PHASE", "REASON", "ATTEMPT", "AGE"]
