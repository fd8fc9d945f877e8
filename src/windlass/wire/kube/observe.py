"""From the pod and the claim that Kubernetes shows to what the step wants to know. Here failures are told apart."""

from typing import Final

from windlass.core.model.ephemeral import Owner, PodSeen, PodState, VolumeSeen
from windlass.core.model.exit_code import with_signal
from windlass.core.model.ids import Millis
from windlass.wire.kube.names import (
    BESIDE,
    HOLD,
    INSTALLATION_LABEL,
    JOB_LABEL,
    PART_LABEL,
    Document,
    owner_name,
    owner_uid,
)
from windlass.wire.kube.status import read_time

_PULL: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed"})
_NO_IMAGE: Final = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_UNDER_WAY: Final = frozenset({"ContainerCreating", "PodInitializing"})
MOUNT_FAILED: Final = "FailedMount"
_NOT_YET_KNOWN: Final = "no relationship found between node"
_BEGUN: Final = frozenset({"running", "terminated"})
"""States of a container that has begun. A kubelet tells of its end a second before it tells of the pod's, which alone has the
reason: until then the run is neither over nor waiting."""
_OVER: Final = ("Succeeded", "Failed")
_REFUSED: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


def see_pod(
    pod: Document, job: str, job_uid: str, *, is_node_silent: bool = False, is_put_off: bool = False
) -> PodSeen:
    metadata, status = pod["metadata"], pod.get("status", {})
    state, reason, message, exit_code = _state(pod)
    ended = _ended_container(status)
    return PodSeen(
        uid=metadata["uid"],
        name=metadata.get("name", ""),
        state=state,
        reason=reason,
        message=message,
        exit_code=exit_code,
        node=pod.get("spec", {}).get("nodeName", ""),
        placed_at=read_time(_scheduled(status).get("lastTransitionTime") or metadata.get("creationTimestamp"))
        or Millis(0),
        started_at=_started_at(status),
        finished_at=read_time(ended.get("finishedAt")),
        deadline_ms=_deadline(pod),
        is_foreign=owner_uid(pod) != job_uid,
        is_left=metadata.get("labels", {}).get(JOB_LABEL) == job and not metadata.get("ownerReferences"),
        is_going=_is_going(pod, job, job_uid),
        is_stuck=state is PodState.WAITING and reason in ("ImagePull", "CreateFailed"),
        is_hopeless=_waiting(status).get("reason") in _NO_IMAGE,
        is_node_silent=is_node_silent,
        is_held=HOLD in _gates(pod),
        is_put_off=is_put_off,
    )


def is_beside(pod: Document) -> bool:
    """Whether a client made it beside a job's volume. A server's is not meant, which comes back for it."""
    metadata = pod["metadata"]
    marks = metadata.get("labels", {})
    is_ours = JOB_LABEL in marks and marks.get(PART_LABEL) in BESIDE and not metadata.get("ownerReferences")
    return is_ours and INSTALLATION_LABEL not in marks


def left_since(pod: Document) -> Millis | None:
    """Since when a pod that a client made beside a volume has ended and is still there; None when it is no such pod. The
    client removes it, unless it was killed: then it holds the volume, which cannot go."""
    metadata, status = pod["metadata"], pod.get("status", {})
    if not is_beside(pod) or "deletionTimestamp" in metadata or status.get("phase") not in _OVER:
        return None
    changed = (read_time(one.get("lastTransitionTime")) for one in status.get("conditions", []))
    told = [read_time(_ended_container(status).get("finishedAt")), read_time(metadata.get("creationTimestamp"))]
    return max((at for at in (*told, *changed) if at is not None), default=Millis(0))


def tells_of_a_race(event: Document) -> bool:
    """Whether a kubelet's event says that it asked for a pod's volume before the API server's authorizer had heard that the
    pod is on its node. It takes that for any other refusal and leaves the pod alone for ten seconds."""
    return event.get("reason") == MOUNT_FAILED and _NOT_YET_KNOWN in event.get("message", "")


def see_volume(claim: Document, job: str, job_uid: str, *, waits_for_pod: bool, missing_class: str = "") -> VolumeSeen:
    metadata = claim["metadata"]
    return VolumeSeen(
        uid=metadata["uid"],
        owner=_owner(claim, job, job_uid),
        is_bound=claim.get("status", {}).get("phase") == "Bound",
        waits_for_pod=waits_for_pod,
        missing_class=missing_class,
        is_going=_is_going(claim, job, job_uid),
    )


def _is_going(document: Document, job: str, job_uid: str) -> bool:
    """Also when nobody has said so yet: a job that had this one's name and another UID is gone, and the cluster collects what
    was its."""
    is_left = owner_uid(document) not in ("", job_uid) and owner_name(document) == job
    return is_left or "deletionTimestamp" in document["metadata"]


def _owner(claim: Document, job: str, job_uid: str) -> Owner:
    if claim["metadata"].get("labels", {}).get(JOB_LABEL) != job:
        return Owner.THEIRS
    holder = owner_uid(claim)
    if not holder:
        return Owner.UNCLAIMED
    return Owner.OURS if holder == job_uid else Owner.ANOTHERS


def _state(pod: Document) -> tuple[PodState, str, str, int | None]:
    status = pod.get("status", {})
    phase = status.get("phase")
    if phase in _OVER:
        is_cut_short = _is_cut_short(pod)
        if phase == "Succeeded" and not is_cut_short:
            return PodState.SUCCEEDED, "Completed", "", 0
        reason, message, code = _failure(status, is_cut_short=is_cut_short)
        return PodState.FAILED, reason, message, code
    if phase == "Running" and not _container(status).get("state", {}).keys().isdisjoint(_BEGUN):
        return PodState.RUNNING, "", "", None
    reason, message = _why_waiting(pod)
    return PodState.WAITING, reason, message, None


def _is_cut_short(pod: Document) -> bool:
    """Whether it was told to go before it had ended: what it then ended with says how it took that, not what came of it.
    Both times are whole seconds; who ended in the very second is taken to have been told."""
    metadata = pod["metadata"]
    gone_at = read_time(metadata.get("deletionTimestamp"))
    if gone_at is None:
        return False  # or ours, and that came after its end
    told_at = gone_at - 1000 * int(metadata.get("deletionGracePeriodSeconds") or 0)
    ended_at = read_time(_ended_container(pod.get("status", {})).get("finishedAt"))
    return not ended_at or ended_at >= told_at


def _failure(status: Document, *, is_cut_short: bool) -> tuple[str, str, int | None]:
    """The pod's own reason comes first: an evicted container looks as if it had merely been killed."""
    ended = _ended_container(status)
    code = ended.get("exitCode")
    words = status.get("message", "")
    match status.get("reason"):
        case "DeadlineExceeded":
            return "DeadlineExceeded", "it ran longer than its timeout", code
        case "Evicted":
            return "Evicted", words or "the node needed its room", code
        case "NodeLost" | "NodeShutdown" | "Terminated":
            return "NodeLost", words or "its node was lost", code
        case "UnexpectedAdmissionError" | "OutOfcpu" | "OutOfmemory" | "OutOfpods" | "NodeAffinity" as told:
            return "NodeRefused", words or str(told), code
    disruption: Document = next((one for one in status.get("conditions", []) if one["type"] == "DisruptionTarget"), {})
    if disruption.get("status") == "True" and (is_cut_short or not ended):
        is_lost = disruption.get("reason") in ("DeletionByTaintManager", "DeletionByPodGC")
        is_told = bool(read_time(ended.get("finishedAt")))  # by its node, which then is not lost
        return "NodeLost" if is_lost and not is_told else "Evicted", disruption.get("message", ""), code or None
    if is_cut_short:
        return "PodDeleted", "its pod was deleted while it ran", code or None
    return _container_failure(ended, code)


def _container_failure(ended: Document, code: int | None) -> tuple[str, str, int | None]:
    match ended.get("reason"):
        case "OOMKilled":
            return "OOMKilled", "it used more memory than its limit", code
        case "StartError" | "ContainerCannotRun":
            return "StartFailed", _first_line(ended.get("message", "")), code
        case "ContainerStatusUnknown":
            return "NodeLost", "its node came back without it", code
    return "ExitCode", f"exit code {'unknown' if code is None else with_signal(code)}", code


def _why_waiting(pod: Document) -> tuple[str, str]:
    status = pod.get("status", {})
    waiting = _waiting(status)
    reason, message = waiting.get("reason", ""), _first_line(waiting.get("message", ""))
    if reason in _PULL or reason in _NO_IMAGE:
        return "ImagePull", message or reason
    if reason in _REFUSED:
        return "CreateFailed", message or reason
    scheduled = _scheduled(status)
    if gates := _gates(pod) - {HOLD}:
        return "SchedulingGated", f"something else holds its pod back: {', '.join(sorted(gates))}"
    if (
        scheduled.get("status") == "False" and scheduled.get("reason") != "SchedulingGated"
    ):  # a gate that is gone by now
        return scheduled.get("reason", "Unschedulable"), scheduled.get("message", "")
    if reason in _UNDER_WAY or not reason:
        return "Starting", message
    return reason, message


def _deadline(pod: Document) -> Millis | None:
    seconds = pod.get("spec", {}).get("activeDeadlineSeconds")
    return None if seconds is None else Millis(1000 * int(seconds))


def _scheduled(status: Document) -> Document:
    found: Document = next((one for one in status.get("conditions", []) if one["type"] == "PodScheduled"), {})
    return found


def _gates(pod: Document) -> set[str]:
    return {str(gate["name"]) for gate in pod.get("spec", {}).get("schedulingGates") or ()}


def _container(status: Document) -> Document:
    found = status.get("containerStatuses") or [{}]
    first: Document = found[0]
    return first


def _waiting(status: Document) -> Document:
    waiting: Document = _container(status).get("state", {}).get("waiting") or {}
    return waiting


def _ended_container(status: Document) -> Document:
    ended: Document = _container(status).get("state", {}).get("terminated") or {}
    return ended


def _started_at(status: Document) -> Millis | None:
    state = _container(status).get("state", {})
    began = (state.get("running") or state.get("terminated") or {}).get("startedAt")
    return read_time(began) or None  # the epoch: it never did


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:500]
