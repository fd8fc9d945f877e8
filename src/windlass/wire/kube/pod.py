"""The pods made for a job: of the run itself and of the short-lived ones around its volume. All fit the restricted profile.

What an admin may loosen is in the policy; nothing in a job's manifest can.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from windlass.core.model.job import JobSpec, OnLostNode
from windlass.core.model.submission import Submission
from windlass.core.model.variables import identity, preset
from windlass.wire.kube.errand import Errand
from windlass.wire.kube.names import (
    ATTEMPT_LABEL,
    CONTAINER,
    HOLD,
    KUEUE_LABEL,
    Document,
    labels,
    owner,
    pod_name,
    volume_name,
)
from windlass.wire.names import ARTIFACTS
from windlass.wire.quantities import write_bytes, write_cpu

NOT_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
VOLUME: Final = "artifacts"
SECRETS: Final = "/run/secrets"
SECRETS_VOLUME: Final = "secrets"
SECRETS_MODE: Final = 0o400
SCRATCH_ASKED_BYTES: Final = 64 << 20
"""What a run is reckoned to write outside its volume when a place is sought for it."""


class PodPolicy(Struct, frozen=True, kw_only=True):
    """What the admin of the cluster has decided for all jobs."""

    gpu_resource: str = "nvidia.com/gpu"
    may_run_as_root: bool = False
    """Images then run as the user they name. Off: as `user`, whatever they name."""
    user: int = 1000
    group: int = 1000
    scratch_bytes: int = 10 << 30
    """How much a run may write outside its volume."""
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Document, ...] = ()
    gpu_tolerations: tuple[Document, ...] = ()
    """Borne by runs that ask for GPUs, and by pods beside a volume, which may be of such a run and on its node."""
    runtime_class: str = ""
    pull_secrets: tuple[str, ...] = ()


def run_pod(
    job: str, uid: str, attempt: int, asked: Submission, policy: PodPolicy, errand: Errand | None = None
) -> Document:
    spec = asked.spec
    container: Document = {
        "name": CONTAINER,
        "image": spec.image,
        "env": [*_secret_variables(spec), *_plain(_environment(job, uid, attempt, asked, errand))],
        "resources": _resources(asked, policy),
        "securityContext": _container_security(),
        "volumeMounts": [{"name": VOLUME, "mountPath": ARTIFACTS}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if spec.command:
        container["command"] = [_literal(word) for word in spec.command]
    if spec.workdir:
        container["workingDir"] = spec.workdir
    if spec.wants_terminal:
        container |= {"stdin": True, "tty": True}
    elif spec.wants_input:
        container |= {"stdin": True, "stdinOnce": True}  # its end is the end of whoever is attached
    body = _pod_spec(errand.claim if errand else volume_name(job), container, policy) | {
        "terminationGracePeriodSeconds": asked.grace_ms // 1000,
        "tolerations": [*policy.tolerations, *_gpu_tolerations(asked, policy), *_lost_node_tolerations(asked)],
        "nodeSelector": {**dict(asked.node_labels), **dict(policy.node_selector)},
        "schedulingGates": [{"name": HOLD}],
    }
    if spec.secret_files:
        container["volumeMounts"].append({"name": SECRETS_VOLUME, "mountPath": SECRETS, "readOnly": True})
        body["volumes"].append(_secret_files(spec))
    if asked.timeout_ms is not None:
        body["activeDeadlineSeconds"] = asked.timeout_ms // 1000
    if errand is not None and errand.login:
        body["imagePullSecrets"] = [{"name": errand.login}, *body.get("imagePullSecrets", ())]
    if errand is not None and errand.is_guarded:
        container["imagePullPolicy"] = "Always"
    marks = {**labels(job, "run"), ATTEMPT_LABEL: str(attempt)}
    if spec.queue_name:
        marks[KUEUE_LABEL] = spec.queue_name
    return _pod(pod_name(job, attempt), marks, body, owner(job, uid))


def _plain(variables: Sequence[tuple[str, str]]) -> list[Document]:
    return [{"name": name, "value": _literal(value)} for name, value in variables]


def _literal(text: str) -> str:
    """Kubernetes puts variables in the place of `$(NAME)`, and one `$` in that of two; what was asked for is what arrives."""
    return text.replace("$", "$$")


def _secret_variables(spec: JobSpec) -> list[Document]:
    """By reference only: the values are the cluster's Secrets, and we never see them."""
    return [
        {"name": one.name, "valueFrom": {"secretKeyRef": {"name": one.secret, "key": one.key}}}
        for one in spec.secret_env
    ]


def _secret_files(spec: JobSpec) -> Document:
    sources = [
        {"secret": {"name": one.secret, "items": [{"key": one.key, "path": one.name}]}} for one in spec.secret_files
    ]
    return {"name": SECRETS_VOLUME, "projected": {"defaultMode": SECRETS_MODE, "sources": sources}}


def side_pod(
    name: str,
    job: str,
    part: str,
    image: str,
    command: Sequence[str],
    policy: PodPolicy,
    *,
    mount: str = ARTIFACTS,
    seconds: int = 3600,
    with_terminal: bool = False,
    owned_by: Document | None = None,
    claim: str = "",
    more_labels: Mapping[str, str] | None = None,
) -> Document:
    """A pod beside the job's own, with its volume at `mount`: upload, copy-file, debug. It ends by itself after `seconds`."""
    container: Document = {
        "name": CONTAINER,
        "image": image,
        "command": [_literal(word) for word in command],
        "workingDir": mount,
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "64Mi"},
        },
        "securityContext": _container_security(),
        "volumeMounts": [{"name": VOLUME, "mountPath": mount}],
    }
    if with_terminal:
        container |= {"stdin": True, "tty": True}
    body = _pod_spec(claim or volume_name(job), container, policy) | {
        "activeDeadlineSeconds": seconds,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [*policy.tolerations, *policy.gpu_tolerations],
        "nodeSelector": dict(policy.node_selector),
    }
    return _pod(name, {**labels(job, part), **(more_labels or {})}, body, owned_by)


def _pod(name: str, marks: dict[str, str], body: Document, owned_by: Document | None) -> Document:
    metadata: Document = {"name": name, "labels": marks}
    if owned_by:
        metadata["ownerReferences"] = [owned_by]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def _pod_spec(claim: str, container: Document, policy: PodPolicy) -> Document:
    security: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": policy.group}
    security["fsGroupChangePolicy"] = "OnRootMismatch"
    if not policy.may_run_as_root:
        security |= {"runAsNonRoot": True, "runAsUser": policy.user, "runAsGroup": policy.group}
    body: Document = {
        "restartPolicy": "Never",  # a retry is a new pod
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": security,
        "containers": [container],
        "volumes": [{"name": VOLUME, "persistentVolumeClaim": {"claimName": claim}}],
    }
    if policy.runtime_class:
        body["runtimeClassName"] = policy.runtime_class
    if policy.pull_secrets:
        body["imagePullSecrets"] = [{"name": name} for name in policy.pull_secrets]
    return body


def _container_security() -> Document:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "privileged": False}


def _resources(asked: Submission, policy: PodPolicy) -> Document:
    needs = asked.spec.needs
    amounts = {"cpu": write_cpu(needs.cpu_millis), "memory": write_bytes(needs.memory_bytes)}
    if needs.gpus:
        amounts[policy.gpu_resource] = str(needs.gpus)
    limits = {**amounts, "ephemeral-storage": write_bytes(policy.scratch_bytes)}
    # Said, or it would be the limit: then a node with a hundred gigabytes of disk would have room for ten runs.
    scratch = {"ephemeral-storage": write_bytes(min(SCRATCH_ASKED_BYTES, policy.scratch_bytes))}
    return {"requests": {**amounts, **scratch}, "limits": limits}


def _environment(job: str, uid: str, attempt: int, asked: Submission, errand: Errand | None) -> list[tuple[str, str]]:
    """The job's own variables, then ours, which it cannot override. A server's run is told who it is there."""
    spec = asked.spec
    told = (
        identity(errand.job, errand.run, errand.attempt, errand.index, errand.count)
        if errand
        else identity(uid, pod_name(job, attempt), attempt)
    )
    ours = {
        "HOME": "/tmp",  # noqa: S108 - the user has no home in a foreign image
        **dict(spec.env),
        **told,
        **(preset(spec) if errand is None or errand.has_preset else {}),
    }
    if spec.secret_files:
        ours["WINDLASS_SECRETS"] = SECRETS
    return list(ours.items())


def _gpu_tolerations(asked: Submission, policy: PodPolicy) -> tuple[Document, ...]:
    """Nodes with GPUs are often shut to all but those who want one."""
    return policy.gpu_tolerations if asked.spec.needs.gpus else ()


def _lost_node_tolerations(asked: Submission) -> list[Document]:
    """`wait`: never taken away from a silent node. Else the cluster deletes the pod after `lostAfter`."""
    wish = asked.on_lost_node or (OnLostNode.MOVE if asked.retries else OnLostNode.WAIT)
    bound = {} if wish is OnLostNode.WAIT else {"tolerationSeconds": asked.lost_after_ms // 1000}
    return [{"key": key, "operator": "Exists", "effect": "NoExecute", **bound} for key in NOT_READY]
