"""The status of an EphemeralAccelerationJob, as kept by the operator: its shape for the CRD, and the way to and from a Course."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from windlass.core.model.ephemeral import Course, EphemeralPhase
from windlass.core.model.ids import Millis
from windlass.wire.kube.names import Document, pod_name, volume_name
from windlass.wire.render import timestamp

MESSAGE_MAX = 1024


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class ConditionDocument(_Shape):
    type: str = Field(max_length=316)
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    last_transition_time: str = Field(json_schema_extra={"format": "date-time"})
    observed_generation: int | None = None


class StatusDocument(_Shape):
    phase: Literal["Pending", "Running", "Succeeded", "Failed"] | None = None
    reason: str | None = None
    message: str | None = None
    attempt: int | None = None
    pod_name: str | None = None
    pod_uid: str | None = Field(default=None, alias="podUID")
    volume_uid: str | None = Field(default=None, alias="volumeUID")
    node: str | None = None
    exit_code: int | None = None
    started_at: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    finished_at: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    retry_at: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    artifact_path: str | None = None
    """The volume with the artifacts; absent once that is gone."""
    log_name: str | None = None
    """The ConfigMap with the last run's output, gzipped."""
    observed_generation: int | None = None
    conditions: list[ConditionDocument] | None = None


def read_course(status: Document) -> Course:
    """Whoever may write a status may have written this one: nothing is taken to be as we would have left it."""
    return Course(
        phase=EphemeralPhase(status.get("phase", "Pending")),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        attempt=max(0, status.get("attempt", 0)),
        pod=status.get("podUID", ""),
        volume=status.get("volumeUID", ""),
        node=status.get("node", ""),
        exit_code=status.get("exitCode"),
        started_at=read_time(status.get("startedAt")),
        finished_at=read_time(status.get("finishedAt")),
        retry_at=read_time(status.get("retryAt")),
        log=status.get("logName", ""),
        is_volume_gone=bool(status.get("volumeUID")) and "artifactPath" not in status,
    )


def write_status(
    course: Course, name: str, *, claim: str = "", generation: int, before: Document, now: Millis
) -> Document:
    """What is empty is left out. `before` tells since when a condition holds."""
    given: Document = {
        "phase": course.phase.value,
        "reason": course.reason,
        "message": course.message[:MESSAGE_MAX],
        "attempt": course.attempt,
        "podName": pod_name(name, course.attempt) if course.attempt else None,
        "podUID": course.pod,
        "volumeUID": course.volume,
        "node": course.node,
        "exitCode": course.exit_code,
        "startedAt": _time(course.started_at),
        "finishedAt": _time(course.finished_at),
        "retryAt": _time(course.retry_at),
        "artifactPath": None if course.is_volume_gone else claim or volume_name(name),
        "logName": course.log,
        "observedGeneration": generation,
        "conditions": _conditions(course, before.get("conditions", ()), now, generation),
    }
    return {key: value for key, value in given.items() if value not in (None, "")}


def read_time(text: str | None) -> Millis | None:
    """None also for what is no time that we can count with: others write some of them."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    if at.tzinfo is None or not 1970 <= at.year < 9999:  # else it could not be written back
        return None
    return Millis(round(at.timestamp() * 1000))


def _conditions(course: Course, before: Sequence[Document], now: Millis, generation: int) -> list[Document]:
    """Always the same four, each with a reason, so that `kubectl wait --for=condition=` works from the first moment; where
    somebody admits, a fifth."""
    is_failed = course.phase is EphemeralPhase.FAILED
    told: dict[str, tuple[bool, str, str]] = {
        "Suspended": (course.reason == "Suspended", course.reason or "Pending", ""),
        "Started": (course.started_at is not None, "Started" if course.started_at else course.reason or "Pending", ""),
        "Complete": (course.phase is EphemeralPhase.SUCCEEDED, course.reason or "Pending", ""),
        "Failed": (is_failed, course.reason or "Pending", course.message if is_failed else ""),
    }
    is_held = course.reason == "AwaitingAdmission"
    if is_held or any(one.get("type") == "Admitted" for one in before):  # only where somebody admits
        told["Admitted"] = (not is_held, course.reason if is_held else "Released", course.message if is_held else "")
    return [
        _condition(kind, holds, reason, message, before, now, generation)
        for kind, (holds, reason, message) in told.items()
    ]


def _condition(
    kind: str, holds: bool, reason: str, message: str, before: Sequence[Document], now: Millis, generation: int
) -> Document:
    old: dict[str, Any] = next((one for one in before if one.get("type") == kind), {})
    status = "True" if holds else "False"
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:MESSAGE_MAX],
        "lastTransitionTime": since or timestamp(now / 1000),
        "observedGeneration": generation,
    }


def _time(at: Millis | None) -> str | None:
    return None if at is None else timestamp(at / 1000)
