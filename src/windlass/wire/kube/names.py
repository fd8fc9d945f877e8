"""Names, labels and annotations on Kubernetes. Whatever we make carries the job's label; we touch nothing without it."""

from typing import Any, Final

GROUP: Final = "windlass.dev"
VERSION: Final = "v1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "EphemeralAccelerationJob"
PLURAL: Final = "ephemeralaccelerationjobs"
SHORT: Final = "eaj"

JOB_LABEL: Final = f"{GROUP}/job"
"""The name of the job a pod, volume or log belongs to."""
PART_LABEL: Final = f"{GROUP}/part"
"""`run`, `volume`, `log`, or one of a pod beside a volume."""
BESIDE: Final = frozenset({"upload", "copy", "download", "debug"})
"""Parts of the pods that a client makes and removes again; nobody owns them."""
ATTEMPT_LABEL: Final = f"{GROUP}/attempt"
INSTALLATION_LABEL: Final = f"{GROUP}/installation"
NODE_LABEL: Final = f"{GROUP}/node"
"""With the installation: whose a server's things are. It touches nothing without both."""
RUN_LABEL: Final = f"{GROUP}/run"
TOKEN_LABEL: Final = f"{GROUP}/token"
"""The run's fencing token, `epoch.n`."""
VOLUME_LABEL: Final = f"{GROUP}/volume"
TENANT_LABEL: Final = f"{GROUP}/tenant"
KUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"

HOLD: Final = f"{GROUP}/hold"
"""The scheduling gate on a run's pod until its UID is in the job's status."""
NUDGE: Final = f"{GROUP}/nudge"
"""Annotation on a run's pod: changed when its node is to look at it again at once."""
CANCEL: Final = f"{GROUP}/cancel"
"""Annotation on the job: `true`, it is to end."""
UPLOAD: Final = f"{GROUP}/upload"
"""Annotation on a suspended job: its client sends files and releases it when they are all there."""
_YES: Final = frozenset({"true", "yes", "1"})
EXPIRES: Final = f"{GROUP}/expires-at"
"""Annotation on a volume that is nobody's: when it goes, RFC 3339."""
NODE_SELECTOR: Final = f"{GROUP}/node-selector"
"""Annotation on a volume that a Windlass server made: its job's nodeSelector, as JSON, for the pods beside it."""

ERRAND: Final = f"{GROUP}/errand"
"""Annotation on a job that a Windlass server made: the run it stands for (see `errand`)."""

GUEST_JOB: Final = f"{GROUP}/admitted-as"
"""Annotation on a job of a tenant's namespace: the id of the server's job that stands for it."""
RELEASE: Final = f"{GROUP}/release"
"""Annotation on a job of a tenant's namespace: the server's signature (see `release`)."""
ADMISSION: Final = f"{GROUP}/admission"
"""And what the server says of it while it waits, for people."""

OPERATOR: Final = "windlass-operator"
"""The field manager of what we write, and the name of our deployment, service account and roles."""
NAMESPACE: Final = "windlass-system"
CONTAINER: Final = "main"

Document = dict[str, Any]


def volume_name(job: str) -> str:
    return f"artifacts-{job}"


def pod_name(job: str, attempt: int) -> str:
    return f"{job}-{attempt}"


def log_name(job: str, attempt: int) -> str:
    return f"{job}-{attempt}-log"


def spare_log_name(job: str, attempt: int, uid: str) -> str:
    """Where the first name is taken by another's, such as one that a job before it has left."""
    return f"{log_name(job, attempt)}-{uid[:8]}"


def labels(job: str, part: str) -> dict[str, str]:
    return {
        JOB_LABEL: job,
        PART_LABEL: part,
        "app.kubernetes.io/managed-by": "windlass",
    }


def owner(name: str, uid: str) -> Document:
    """The reference that lets Kubernetes remove the thing with its job."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def is_cancelled(job: Document) -> bool:
    """Whether it is to end: `cancel=false` and an empty value ask for nothing."""
    return str(job["metadata"].get("annotations", {}).get(CANCEL, "")).strip().lower() in _YES


def owner_uid(document: Document) -> str:
    """The UID of the job that controls it; empty when none does."""
    return str(_controller(document).get("uid", ""))


def owner_name(document: Document) -> str:
    return str(_controller(document).get("name", ""))


def _controller(document: Document) -> Document:
    for reference in document.get("metadata", {}).get("ownerReferences", []):
        if reference.get("kind") == KIND and reference.get("controller"):
            found: Document = reference
            return found
    return {}
