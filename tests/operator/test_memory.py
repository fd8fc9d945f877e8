"""What the operator remembers of namespaces: whose jobs have to be looked at when one changes hands."""

from typing import Any

from windlass.operator.memory import Memory
from windlass.wire.kube.names import TENANT_LABEL


def a_namespace(name: str, version: int, tenant: str = "") -> dict[str, Any]:
    labels = {TENANT_LABEL: tenant} if tenant else {}
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version), "labels": labels}}


def test_jobs_are_looked_at_when_their_namespace_becomes_anothers_or_nobodys() -> None:
    memory = Memory()
    for namespace in ("lab", "elsewhere"):
        memory.jobs.put({"metadata": {"name": "it", "namespace": namespace, "uid": namespace}})
    changes = [
        (None, a_namespace("lab", 1, "acme"), []),
        ("MODIFIED", a_namespace("lab", 2, "acme"), []),
        ("MODIFIED", a_namespace("lab", 3), ["lab"]),
        ("MODIFIED", a_namespace("lab", 4, "other"), ["lab"]),
    ]
    for kind, namespace, concerned in changes:
        found = [job["metadata"]["namespace"] for job in memory.heard_namespace(kind, namespace)]
        assert found == concerned, namespace
