"""The page on Kubernetes says all there is to say of settings, reasons and rights, and nothing that is not so."""

import re

import yaml
from tests.docs.markdown import ROOT, rows
from tests.kube.operator import Operator

from windlass.operator.settings import OperatorSettings

PAGE = ROOT / "docs" / "guides" / "kubernetes.md"
TOLD_IN = ("core/lifecycle/ephemeral.py", "wire/kube/observe.py", "operator/acting.py")


def test_every_setting_is_described_with_its_default() -> None:
    described = {row[0].strip("`"): row[1].strip("`") for row in rows(PAGE, "operator setting")}
    expected = {
        name: "–"
        if field.default in ("", ())
        else str(field.default).lower()
        if field.annotation is bool
        else str(field.default)
        for name, field in OperatorSettings.model_fields.items()
    }
    assert described == expected


def test_every_reason_is_described() -> None:
    described = set(re.findall(r"`([A-Z]\w+)`", " ".join(row[0] for row in rows(PAGE, "reason of a job"))))
    sources = [(ROOT / "src/windlass" / path).read_text() for path in TOLD_IN]
    given = {
        word
        for source in sources
        for word in re.findall(
            r'(?:return |_finish\(course, |_waits\(course, |now, |reason=|else )"([A-Z][A-Za-z]+)"', source
        )
    }
    assert given - described == set()
    assert {word for word in described if not any(f'"{word}"' in source for source in sources)} == set()


def test_the_manifest_is_whole_and_gives_no_power_over_the_cluster() -> None:
    documents = list(yaml.safe_load_all(Operator.say("operator", "manifest", "--image", "x/y:1", "--set", "user=2000")))
    kinds = [one["kind"] for one in documents]
    assert kinds == [
        "CustomResourceDefinition",
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRole",
        "ClusterRole",
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
    ]
    roles = {one["metadata"]["name"]: one["rules"] for one in documents if one["kind"] == "ClusterRole"}
    assert set(roles) == {"windlass-operator", "windlass-server", "windlass-server-runs", "windlass-server-guests"}
    everything = [rule for rules in roles.values() for rule in rules]
    assert not any("*" in rule[part] for rule in everything for part in ("apiGroups", "resources", "verbs"))
    assert documents[7]["roleRef"]["name"] == "windlass-operator"  # those of a server are bound to nobody
    rules = roles["windlass-operator"]
    assert not any("secrets" in rule["resources"] for rule in rules)
    deployment = documents[-1]["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    container = deployment["template"]["spec"]["containers"][0]
    assert {"name": "WINDLASS_OPERATOR_USER", "value": "2000"} in container["env"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


def test_where_namespaces_are_named_nothing_is_written_or_read_in_any_other() -> None:
    asked = ("operator", "manifest", "-n", "ops", "--set", "namespaces=lab, vision,lab")
    documents = list(yaml.safe_load_all(Operator.say(*asked)))
    of_cluster = {one["metadata"]["name"]: one["rules"] for one in documents if one["kind"] == "ClusterRole"}
    assert set(of_cluster) == {"windlass-operator", "windlass-server"}
    rules = [rule for rules in of_cluster.values() for rule in rules]
    assert {verb for rule in rules for verb in rule["verbs"]} <= {"get", "list", "watch"}
    assert {kind for rule in rules for kind in rule["resources"]} == {"nodes", "namespaces", "storageclasses"}
    within = [(one["kind"], one["metadata"]["namespace"]) for one in documents if one["kind"].startswith("Role")]
    assert within == [(kind, name) for name in ("lab", "vision") for kind in [*["Role"] * 3, "RoleBinding"]]
    for one in documents:
        if one["kind"] == "RoleBinding":
            assert (one["roleRef"]["kind"], one["roleRef"]["name"]) == ("Role", "windlass-operator")
            assert one["subjects"] == [{"kind": "ServiceAccount", "name": "windlass-operator", "namespace": "ops"}]
