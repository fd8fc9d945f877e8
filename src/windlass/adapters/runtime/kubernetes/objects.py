"""What a run and its volume become on a cluster: documents, with names from the ids, so that making one twice makes one.

Everything carries installation and node; nothing without both is ever listed, changed or removed. A secret's value is in no
object but a Secret that is made with the start, belongs to the run's object and goes at its end.
"""

import base64
import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.core.errors import Fault, Invalid
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import Millis, RunId, VolumeId
from windlass.core.model.job import JobKind
from windlass.core.model.run import Token
from windlass.core.model.secret import Credentials, Handed
from windlass.core.model.submission import Submission
from windlass.ports.runtime import VolumeWish
from windlass.wire.job import SECONDS_MAX
from windlass.wire.kube.errand import errand_of, write_errand
from windlass.wire.kube.names import (
    API_VERSION,
    ERRAND,
    INSTALLATION_LABEL,
    JOB_LABEL,
    KIND,
    NODE_LABEL,
    NODE_SELECTOR,
    PART_LABEL,
    RUN_LABEL,
    TENANT_LABEL,
    TOKEN_LABEL,
    VOLUME_LABEL,
    Document,
    owner,
)
from windlass.wire.names import is_dns_label, is_label_value
from windlass.wire.quantities import write_bytes
from windlass.wire.render import spec_document

NAME_MAX: Final = 50
"""What is made of a name by the operator and by us gets endings, and must still be a name."""


class Owner(Struct, frozen=True, kw_only=True):
    """An installation and one of its nodes. Only what carries both labels is ours."""

    installation: str
    node: str

    def __post_init__(self) -> None:
        check_label(self.installation, field="installation")
        check_label(self.node, field="node")

    @property
    def labels(self) -> dict[str, str]:
        return {INSTALLATION_LABEL: self.installation, NODE_LABEL: self.node}

    def owns(self, document: Document | None) -> bool:
        found = (document or {}).get("metadata", {}).get("labels", {})
        return all(found.get(key) == value for key, value in self.labels.items())

    def selector(self, **more: str) -> str:
        """The query that lists ours; answers are checked again by `owns`."""
        return ",".join(f"{key}={value}" for key, value in {**self.labels, **more}.items())


def object_name(run: RunId) -> str:
    return _name("run", run)


def claim_name(volume: VolumeId) -> str:
    return _name("volume", volume)


def handed_name(run: RunId) -> str:
    return f"{object_name(run)}-handed"


def login_name(run: RunId) -> str:
    return f"{object_name(run)}-login"


def run_object(assignment: Assignment, owned: Owner, handed: Handed) -> Document:
    """Suspended: the operator looks at it and makes no pod. That is what created and not started is here."""
    for value, field in ((assignment.run, "run"), (assignment.volume, "volume"), (assignment.tenant, "tenant")):
        check_label(value, field=field)
    errand = errand_of(
        assignment,
        claim=claim_name(assignment.volume),
        login=login_name(assignment.run) if handed.credentials is not None else "",
    )
    labels = {
        **owned.labels,
        RUN_LABEL: assignment.run,
        TOKEN_LABEL: str(assignment.token),
        VOLUME_LABEL: assignment.volume,
        TENANT_LABEL: assignment.tenant,
    }
    metadata = {
        "name": object_name(assignment.run),
        "labels": labels,
        "annotations": {ERRAND: write_errand(errand), f"{JOB_LABEL}-name": assignment.name},
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": _spec(assignment, handed)}


def _spec(assignment: Assignment, handed: Handed) -> Document:
    """The server's own business stays with the server: retries, webhooks, times-to-live, whom it waits for."""
    given = {name for name, _ in handed.variables}
    spec = replace(
        assignment.spec,
        env=tuple((name, value) for name, value in assignment.spec.env if name not in given),
        secret_env=(),
        secret_files=(),
        webhook="",
    )
    document = spec_document(
        Submission(
            spec=spec,
            kind=JobKind.EPHEMERAL if spec.model else JobKind.JOB,
            timeout_ms=_whole_seconds(assignment.timeout_ms),
            grace_ms=_whole_seconds(assignment.grace_ms) or Millis(0),
            run_ttl_ms=Millis(SECONDS_MAX * 1000),
            volume_ttl_ms=Millis(SECONDS_MAX * 1000),
            on_lost_node=assignment.on_lost_node,
            lost_after_ms=_whole_seconds(assignment.lost_after_ms) or Millis(0),
            node_labels=assignment.node_labels,
            is_suspended=True,
        )
    )
    secret = handed_name(assignment.run)
    if handed.variables:
        document["secretEnv"] = {
            name: {"secret": secret, "key": f"v{n}"} for n, (name, _) in enumerate(handed.variables)
        }
    if handed.files:
        document["secretFiles"] = {name: {"secret": secret, "key": f"f{n}"} for n, (name, _) in enumerate(handed.files)}
    return document


def secrets(run: RunId, uid: str, owned: Owner, handed: Handed) -> list[Document]:
    """For one start, of the object with that UID."""
    made = []
    values = {f"v{n}": value.encode() for n, (_, value) in enumerate(handed.variables)}
    values |= {f"f{n}": content for n, (_, content) in enumerate(handed.files)}
    if values:
        made.append(_secret(handed_name(run), run, uid, owned, "Opaque", values))
    if handed.credentials is not None:
        content = {".dockerconfigjson": _docker_config(handed.credentials)}
        made.append(_secret(login_name(run), run, uid, owned, "kubernetes.io/dockerconfigjson", content))
    return made


def volume_claim(volume: VolumeId, owned: Owner, labels: Mapping[str, str], wish: VolumeWish) -> Document:
    """Nobody's but ours: it has no owner and no date, and goes when we say so."""
    check_label(volume, field="volume")
    # Any value but an object's name: the operator hears of it then, and takes it for given.
    marks = {JOB_LABEL: volume, PART_LABEL: "volume", **labels, **owned.labels, VOLUME_LABEL: volume}
    body: Document = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": write_bytes(wish.size_bytes)}},
    }
    if wish.storage_class:
        body["storageClassName"] = wish.storage_class
    metadata: Document = {"name": claim_name(volume), "labels": marks}
    if wish.node_labels:
        metadata["annotations"] = {NODE_SELECTOR: msgspec.json.encode(dict(wish.node_labels)).decode()}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": body}


def selector_of(claim: Document) -> tuple[tuple[str, str], ...]:
    """Where the volume's job may run, and so the first pod that uses it: that may be the one that binds it to a node for good.
    Once it is bound, its own place says where a pod may be."""
    if claim.get("status", {}).get("phase") == "Bound":
        return ()
    text = claim["metadata"].get("annotations", {}).get(NODE_SELECTOR, "{}")
    return tuple(msgspec.json.decode(text, type=dict[str, str]).items())


def read_token(document: Document) -> Token | None:
    epoch, _, n = document["metadata"].get("labels", {}).get(TOKEN_LABEL, "").partition(".")
    return Token(int(epoch), int(n)) if epoch.isdecimal() and n.isdecimal() else None


def check_label(text: str, *, field: str) -> None:
    """Ids become label values, by which things are found again."""
    if not text or not is_label_value(text):
        message = f"{text[:200]!r} cannot be a label on a cluster"
        raise Invalid(message, code="invalid-container", faults=[Fault(field, message)])


def _name(what: str, text: str) -> str:
    name = f"{what}-{text}"
    if is_dns_label(name) and len(name) <= NAME_MAX:
        return name
    return f"{what}-{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def _whole_seconds(span: Millis | None) -> Millis | None:
    return None if span is None else Millis(-(-span // 1000) * 1000)


def _secret(name: str, run: RunId, uid: str, owned: Owner, kind: str, values: Mapping[str, bytes]) -> Document:
    metadata = {
        "name": name,
        "labels": {**owned.labels, RUN_LABEL: run},
        "ownerReferences": [owner(object_name(run), uid)],
    }
    data = {key: base64.b64encode(value).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data}


def _docker_config(credentials: Credentials) -> bytes:
    entry = {"username": credentials.username, "password": credentials.password}
    return msgspec.json.encode({"auths": {credentials.registry: entry}})
