"""Everything the operator needs in a cluster: CRDs, its rights and no more, and its one pod.

One replica that is recreated, not rolled: safety comes from preconditions on every write, not from an election, but two of
them would ask for everything twice.
"""

from collections.abc import Mapping, Sequence
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
)
"""In every namespace that it watches."""
CLUSTER_RULES: Final[tuple[Document, ...]] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["get"]},
)
"""Of what lies in no namespace: to look at, and no more."""

SERVER: Final = "windlass-server"
SERVER_RULES: Final[tuple[Document, ...]] = ({"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},)
"""In the whole cluster, of a server that has it as a pool: what there is to give out."""
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
GUESTS: Final = "windlass-server-guests"
GUEST_RULES: Final[tuple[Document, ...]] = (
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    {"apiGroups": [GROUP], "resources": [PLURAL], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
)
"""In tenants' namespaces, of a server that admits what waits there: whose they are, and what came of it."""
FIND_RULES: Final[tuple[Document, ...]] = ({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]},)
"""To find tenants' namespaces where none are named."""
_RBAC: Final = "rbac.authorization.k8s.io"


def crds() -> list[Document]:
    return [ephemeral_crd()]


def everything(
    image: str,
    *,
    namespace: str = NAMESPACE,
    environment: Mapping[str, str] | None = None,
    watched: Sequence[str] = (),
) -> list[Document]:
    """In the order in which they are applied. `watched` are the namespaces that have to be there; none: all."""
    return [*crds(), *rights(namespace, watched), deployment(image, namespace, environment or {})]


def rights(namespace: str, watched: Sequence[str] = ()) -> list[Document]:
    """Where namespaces are named the operator writes in these alone, and reads in no other."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    within = [document for one in dict.fromkeys(watched) for document in _within(one, namespace)]
    shared = [] if watched else [_role(RUNS, RUN_RULES), _role(GUESTS, (*GUEST_RULES, *FIND_RULES))]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {**_LABELS, **restricted}}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(namespace)},
        _role(OPERATOR, CLUSTER_RULES if watched else (*RULES, *CLUSTER_RULES)),
        _role(SERVER, SERVER_RULES),
        *shared,
        _binding(namespace),
        *within,
    ]


def _within(watched: str, operator_namespace: str) -> list[Document]:
    """A server's roles are bound by the admin, to whoever it logs in as: nobody has them by being installed."""
    return [
        _role(OPERATOR, RULES, watched),
        _role(RUNS, RUN_RULES, watched),
        _role(GUESTS, GUEST_RULES, watched),
        _binding(operator_namespace, watched),
    ]


def _role(name: str, rules: Sequence[Document], namespace: str = "") -> Document:
    kind = "Role" if namespace else "ClusterRole"
    metadata = {**_metadata(namespace), "name": name}
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)}


def _binding(operator_namespace: str, namespace: str = "") -> Document:
    prefix = "" if namespace else "Cluster"
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{prefix}RoleBinding",
        "metadata": _metadata(namespace),
        "roleRef": {"apiGroup": _RBAC, "kind": f"{prefix}Role", "name": OPERATOR},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": operator_namespace}],
    }


def is_left(binding: Document, namespace: str, documents: Sequence[Document]) -> bool:
    """Whether a RoleBinding is one that an earlier install gave the operator of this namespace, and this one does not."""
    metadata = binding["metadata"]
    given = {one["metadata"].get("namespace") for one in documents if one["kind"] == "RoleBinding"}
    is_ours = any(
        (who.get("name"), who.get("namespace")) == (OPERATOR, namespace) for who in binding.get("subjects", ())
    )
    return is_ours and metadata["name"] == OPERATOR and metadata["namespace"] not in given


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
