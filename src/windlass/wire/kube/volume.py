"""The claim that holds a job's artifacts, and the ConfigMap that holds what a run printed."""

import base64

from windlass.core.model.job import JobSpec
from windlass.wire.kube.names import ATTEMPT_LABEL, EXPIRES, Document, labels, owner, volume_name
from windlass.wire.quantities import write_bytes

LOG_KEY = "log.gz"


def claim(job: str, spec: JobSpec, *, uid: str = "", expires_at: str = "") -> Document:
    """Owned by the job with `uid`; or nobody's yet, and then it goes at `expires_at`."""
    metadata: Document = {"name": volume_name(job), "labels": labels(job, "volume")}
    if uid:
        metadata["ownerReferences"] = [owner(job, uid)]
    if expires_at:
        metadata["annotations"] = {EXPIRES: expires_at}
    body: Document = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": write_bytes(spec.volume_size_bytes)}},
    }
    if spec.storage_class:
        body["storageClassName"] = spec.storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": body}


def sealed_log(name: str, job: str, uid: str, attempt: int, packed: bytes, tail: str) -> Document:
    metadata = {
        "name": name,
        "labels": {**labels(job, "log"), ATTEMPT_LABEL: str(attempt)},
        "ownerReferences": [owner(job, uid)],
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "binaryData": {LOG_KEY: base64.b64encode(packed).decode()},
        "data": {"tail": tail},
    }
