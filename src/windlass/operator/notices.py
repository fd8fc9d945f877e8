"""What is told as Kubernetes events: from the course before and after a step."""

import hashlib
from collections.abc import Iterator

from msgspec import Struct

from windlass.core.lifecycle.ephemeral import PASSING
from windlass.core.model.ephemeral import Course, EphemeralPhase
from windlass.core.model.ids import Millis
from windlass.wire.kube.names import API_VERSION, KIND, OPERATOR, Document
from windlass.wire.render import timestamp

_QUIET = PASSING | {"", "PodDeleting"}


class Notice(Struct, frozen=True):
    reason: str
    message: str
    is_warning: bool = False


def notices(old: Course, new: Course) -> Iterator[Notice]:
    is_running = new.phase is EphemeralPhase.RUNNING
    has_begun = new.started_at is not None and old.started_at is None
    # A quick run, or a busy operator: its running is not seen, only that it began.
    if (is_running and old.phase is not new.phase) or (has_begun and not is_running):
        yield Notice("Started", f"run {new.attempt} started on {new.node}")
    if new.is_over and not old.is_over:
        is_failed = new.phase is EphemeralPhase.FAILED
        yield Notice(new.reason, new.message or f"run {new.attempt} succeeded", is_warning=is_failed)
    elif not new.is_over and new.reason != old.reason and new.reason not in _QUIET and new.reason != "Started":
        yield Notice(new.reason, new.message, is_warning=new.reason != "Suspended")


def failure(old: Course, new: Course) -> str:
    """Why a run has failed just now, whether it is tried again or not; nothing if none has."""
    has_ended = new.phase is EphemeralPhase.FAILED and not old.is_over
    is_tried_again = new.retry_at is not None and old.retry_at is None
    is_run = new.attempt > 0 and new.reason != "Cancelled"
    return new.reason if is_run and (has_ended or is_tried_again) else ""


def event(job: Document, notice: Notice, attempt: int, now: Millis) -> Document:
    """Named by what it says, so that an operator that died after posting it does not post it again."""
    metadata = job["metadata"]
    what = f"{metadata['uid']}/{attempt}/{notice.reason}/{notice.message}"
    at = timestamp(now / 1000)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.{hashlib.sha256(what.encode()).hexdigest()[:16]}"},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "type": "Warning" if notice.is_warning else "Normal",
        "reason": notice.reason,
        "message": notice.message[:1000],
        "source": {"component": OPERATOR},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
