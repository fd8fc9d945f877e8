"""Everything the operator needs in a cluster: CRDs, its rights and no more, and its one pod.

One replica that is recreated, not rolled: safety comes from preconditions on every write, not from an election, but two of
them would ask for everything twice.
"""

from collections.abc import Mapping
from typing import Final

from windlass.wire.kube.crd import ephemeral_crd
from windlass.wire.kube.names import GROUP, NAMESPACE, OPERATOR, PLURAL, Document

PORT: Final = 8086
_RUN: Final = ("windlass", "operator", "run", "--state", "/tmp")  # noqa: S108 - the one place it may write to
_LABELS: Final = {"app.kubernetes.io/name": OPERATOR, "app.kubernetes.io/managed-by": "windlass"}

RULES: Final[tuple[Document, ...]] = (
    {"apiGroups": [GROUP], "resources": [PLURAL], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [GROUP], "resources": [f"{PLURAL}/status"], "verbs": ["patch"]},
    # To patch them, because that is what lifting a scheduling gate is.
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {
        "apiGroups": [""],
        "resources": ["persistentvolumeclaims"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    },
    # To read back its own; it may list none, so it learns of no other's.
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"]},
    # To hear of volumes that a kubelet was refused.
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch", "create", "patch"]},
    {"apiGroups": [""], "resources": ["nodes", "namespaces"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["get", "list"]},
)

SERVER: Final = "windlass-server"
SERVER_RULES: Final[tuple[Document, ...]] = (
    {"apiGroups": [""], "resources": ["nodes", "namespaces"], "verbs": ["get", "list", "watch"]},
    # Of tenants' namespaces: what waits there to be admitted, and what came of it.
    {"apiGroups": [GROUP], "resources": [PLURAL], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
)
"""In the whole cluster, of a server that has it as a pool."""
RUNS: Final = "windlass-server-runs"
RUN_RULES: Final[tuple[Document, ...]] = (
    {
        "apiGroups": [GROUP],
        "resources": [PLURAL],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    },
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "create", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods/exec", "pods/attach"], "verbs": ["get", "create"]},
    {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list", "create", "delete"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "patch", "delete"]},
)
"""In the namespace of its runs, which is its alone."""


def crds() -> list[Document]:
    return [ephemeral_crd()]


def everything(
    image: str, *, namespace: str = NAMESPACE, environment: Mapping[str, str] | None = None
) -> list[Document]:
    """In the order in which they are applied."""
    return [*crds(), *rights(namespace), deployment(image, namespace, environment or {})]


def rights(namespace: str) -> list[Document]:
    rbac = "rbac.authorization.k8s.io"
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {**_LABELS, **restricted}}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(namespace)},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": _metadata(), "rules": list(RULES)},
        *_server_roles(f"{rbac}/v1"),
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": _metadata(),
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": OPERATOR},
            "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": namespace}],
        },
    ]


def _server_roles(api_version: str) -> list[Document]:
    """Bound by the admin, to whoever the server logs in as: nobody has them by being installed."""
    return [
        {
            "apiVersion": api_version,
            "kind": "ClusterRole",
            "metadata": {**_metadata(), "name": name},
            "rules": list(rules),
        }
        for name, rules in ((SERVER, SERVER_RULES), (RUNS, RUN_RULES))
    ]


def deployment(image: str, namespace: str, environment: Mapping[str, str]) -> Document:
    container: Document = {
        "name": "operator",
        "image": image,
        "command": [*_RUN, "--host", "0.0.0.0", "--port", str(PORT)],  # noqa: S104 - probes reach it so
        "env": [{"name": name, "value": value} for name, value in sorted(environment.items())],
        "ports": [{"name": "http", "containerPort": PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 20, "failureThreshold": 3},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],  # noqa: S108 - the one place it may write to
    }
    pod: Document = {
        "metadata": {"labels": dict(_LABELS)},
        "spec": {
            "serviceAccountName": OPERATOR,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"}}],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(namespace),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app.kubernetes.io/name": OPERATOR}},
            "template": pod,
        },
    }


def _metadata(namespace: str = "") -> Document:
    metadata: Document = {"name": OPERATOR, "labels": dict(_LABELS)}
    return {**metadata, "namespace": namespace} if namespace else metadata
