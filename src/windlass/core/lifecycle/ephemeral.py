"""What to do next for one ephemeral job on Kubernetes: a pure function of what is wished, how far it is, what is seen, and now.

The operator writes the new course first and only then acts. Every action may be repeated: it names a UID it was judged by, or
makes something whose name can exist once. So a crash between any two of them leads to the same end.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.model.ephemeral import (
    Course,
    EphemeralPhase,
    Owner,
    PodSeen,
    PodState,
    Refused,
    Seen,
    VolumeSeen,
    Wish,
)
from windlass.core.model.ids import Millis
from windlass.core.model.job import OnLostNode

PATIENCE_MS: Final = Millis(120_000)
"""How long a pod may wait for an image that is not there."""
RETRY_FIRST_MS: Final = 1_000
RETRY_MAX_MS: Final = 60_000
REFUSED_AGAIN_MS: Final = 5_000
LEAVING_AGAIN_MS: Final = 5_000
"""What is not ours is not watched: whether it is gone is asked for."""

PASSING: Final = frozenset({"VolumePending", "Starting"})
"""What a job that goes well waits for, mostly for less than a second."""

AWAITS_UPLOAD: Final = (
    "it waits for its upload; if that was broken off, delete it, or upload its files again (windlass cp) and release it"
)
VOLUME_GONE: Final = "its volume was deleted while it ran: what it wrote there is lost"
_FINAL: Final = frozenset({"DeadlineExceeded", "Cancelled", "VolumeLost"})
"""Ends that no retry follows."""


class CreateVolume(Struct, frozen=True):
    pass


class AdoptVolume(Struct, frozen=True):
    uid: str


class DeleteVolume(Struct, frozen=True):
    uid: str


class CreatePod(Struct, frozen=True):
    attempt: int


class ReleasePod(Struct, frozen=True):
    """Let it run. Only now, so that a pod whose UID is not in the course has never run, whoever deleted it."""

    attempt: int
    uid: str


class NudgePod(Struct, frozen=True):
    """Let its node look at it again now. It changes nothing of the run: any change of the pod does it."""

    attempt: int
    uid: str


class DeletePod(Struct, frozen=True):
    attempt: int
    uid: str


class SealLog(Struct, frozen=True):
    attempt: int


Action = CreateVolume | AdoptVolume | DeleteVolume | CreatePod | ReleasePod | NudgePod | DeletePod | SealLog


class Step(Struct, frozen=True, kw_only=True):
    course: Course
    actions: tuple[Action, ...] = ()
    wake_at: Millis | None = None
    """Look again then, even if nothing is heard."""


def step(wish: Wish, course: Course, seen: Seen, now: Millis, *, patience_ms: Millis = PATIENCE_MS) -> Step:
    if course.is_over:
        return _clean_up(wish, course, seen, now)
    if wish.fault:
        return _finish(course, "Invalid", wish.fault, at=now)
    if course.attempt and course.retry_at is None:
        return _drive(wish, course, seen, now, patience_ms)
    return _begin(wish, course, seen, now)


def is_passing(old: Course, new: Course) -> bool:
    """Whether the change only tells of something that mostly passes by itself. Nothing hangs on its being written: the next
    look finds the same, or what came of it."""
    told = replace(
        old, reason=new.reason, message=new.message, node=new.node, volume=new.volume, started_at=new.started_at
    )
    return new == told != old and new.reason in PASSING


# — before a run —


def _begin(wish: Wish, course: Course, seen: Seen, now: Millis) -> Step:
    if wish.is_cancelled:
        return _finish(course, "Cancelled", "cancelled before it ran", at=now)
    volume = seen.volume
    if volume is None and not course.volume and not wish.is_volume_given:
        if seen.refused is not None:
            return _refused(course, seen.refused, now)
        return Step(course=_waits(course, "VolumePending", "its volume is being made"), actions=(CreateVolume(),))
    if volume is not None and volume.is_going and _is_of_one_before(wish, course, volume):
        words = "a volume of its name, which is not its own, is being deleted; its own is made when that is gone"
        return Step(course=_waits(course, "VolumePending", words), wake_at=Millis(now + LEAVING_AGAIN_MS))
    if volume is None or volume.is_going or course.volume not in ("", volume.uid):
        return _finish(course, "VolumeLost", "its volume was deleted before it ran; what was uploaded is gone", at=now)
    if volume.owner is Owner.ANOTHERS:
        words = "a volume of its name belongs to another job; delete that, or choose another name"
        return _finish(course, "VolumeTaken", words, at=now)
    first: list[Action] = [AdoptVolume(volume.uid)] if volume.owner is Owner.UNCLAIMED else []
    if seen.pod is not None and not seen.pod.is_foreign and not seen.pod.is_going:
        first.append(DeletePod(course.attempt, seen.pod.uid))  # of the run that failed; its log is kept
    return _wait_or_start(wish, replace(course, volume=volume.uid), volume, tuple(first), now)


def _is_of_one_before(wish: Wish, course: Course, volume: VolumeSeen) -> bool:
    """Neither noted as its own, nor made for it, nor given to it: nothing of this job's was ever in there."""
    return not course.volume and volume.owner is not Owner.OURS and not wish.is_volume_given


def _wait_or_start(wish: Wish, course: Course, volume: VolumeSeen, first: tuple[Action, ...], now: Millis) -> Step:
    if wish.is_suspended and not course.attempt:
        words = AWAITS_UPLOAD if wish.awaits_upload else "it starts when spec.suspend is false"
        return Step(course=_waits(course, "Suspended", words), actions=first)
    if wish.held:
        return Step(course=_waits(course, "AwaitingAdmission", wish.held), actions=first)
    if not volume.is_bound and not volume.waits_for_pod and not wish.is_volume_given:
        return Step(course=_waits(course, "VolumePending", _why_unbound(volume)), actions=first)
    if course.retry_at is not None and now < course.retry_at:
        return Step(course=course, actions=first, wake_at=course.retry_at)
    if first:  # before it is begun: once it is, nobody comes back to what failed here
        return Step(course=_waits(course, "Starting", ""), actions=first)
    begun = replace(
        _waits(course, "Starting", ""),
        attempt=course.attempt + 1,
        pod="",
        node="",
        exit_code=None,
        retry_at=None,
    )
    return Step(course=begun, actions=(CreatePod(begun.attempt),))


def _why_unbound(volume: VolumeSeen) -> str:
    words = "its volume is not bound yet"
    return f"{words}: there is no storage class {volume.missing_class}" if volume.missing_class else words


# — during a run —


def _drive(wish: Wish, course: Course, seen: Seen, now: Millis, patience_ms: Millis) -> Step:
    pod = seen.pod
    if pod is None:
        return _without_pod(wish, course, seen, now)
    if pod.is_foreign:
        return _with_a_foreign_pod(wish, course, pod, now)
    if course.pod not in ("", pod.uid):
        return _end_run(
            wish, course, seen, now, "PodDeleted", "its pod was deleted while it ran, and another put there"
        )
    course = replace(course, pod=pod.uid, node=pod.node, started_at=course.started_at or pod.started_at)
    if pod.state in (PodState.SUCCEEDED, PodState.FAILED):
        return _ended(wish, course, seen, pod, now)
    if wish.is_cancelled:
        return _stop(wish, course, seen, pod, now, "Cancelled", "cancelled on request")
    if pod.is_going:
        return _going(wish, course, seen, pod, now)
    if pod.state is PodState.WAITING and _lost_volume(course, seen):
        return _stop(wish, course, seen, pod, now, "VolumeLost", "its volume was deleted before it ran")
    if pod.is_hopeless or (pod.is_stuck and now >= pod.placed_at + patience_ms):
        return _stop(wish, course, seen, pod, now, pod.reason, pod.message)
    if pod.is_held:
        return Step(course=course, actions=(ReleasePod(course.attempt, pod.uid),))
    if pod.is_put_off and pod.state is PodState.WAITING:
        return Step(course=_under_way(wish, course, pod), actions=(NudgePod(course.attempt, pod.uid),))
    return Step(course=_under_way(wish, course, pod), wake_at=_patience_end(pod, patience_ms))


def _with_a_foreign_pod(wish: Wish, course: Course, pod: PodSeen, now: Millis) -> Step:
    """What goes, or was left by a job of this name, is waited for: never deleted, because somebody may have meant to keep it."""
    is_passing_by = (pod.is_going or pod.is_left) and not course.pod
    if not is_passing_by:
        words = f"pod {pod.name} belongs to somebody else; delete that, or choose another name"
        return _finish(course, "PodNameTaken", words, at=now)
    if wish.is_cancelled:
        return _finish(course, "Cancelled", "cancelled before it ran", at=now)
    if pod.is_going:
        reason = "Starting"
        words = "a pod of its name, which is not its own, is being deleted; its own is made when that is gone"
    else:
        reason = "PodNameTaken"
        words = f"pod {pod.name} was left by a job of its name that was deleted without it (--cascade=orphan); "
        words += f"its own is made when that is gone: kubectl delete pod {pod.name}"
    return Step(course=_waits(course, reason, words), wake_at=Millis(now + LEAVING_AGAIN_MS))


def _without_pod(wish: Wish, course: Course, seen: Seen, now: Millis) -> Step:
    if course.pod and seen.is_node_silent:
        return _end_run(wish, course, seen, now, "NodeLost", f"node {course.node} was lost, and its pod with it")
    if course.pod:
        return _end_run(wish, course, seen, now, "PodDeleted", "its pod was deleted while it ran")
    if wish.is_cancelled:
        return _finish(course, "Cancelled", "cancelled before it ran", at=now)
    if wish.held:  # whoever wrote the attempt into the status, no pod is made
        return Step(course=_waits(course, "AwaitingAdmission", wish.held))
    if seen.refused is None:
        return Step(course=course, actions=(CreatePod(course.attempt),))
    return _refused(course, seen.refused, now)


def _refused(course: Course, refused: Refused, now: Millis) -> Step:
    if refused.is_final:
        return _finish(course, refused.reason, refused.message, at=now)
    return Step(course=_waits(course, refused.reason, refused.message), wake_at=Millis(now + REFUSED_AGAIN_MS))


def _lost_volume(course: Course, seen: Seen) -> bool:
    return bool(course.volume) and (seen.volume is None or seen.volume.uid != course.volume)


def _under_way(wish: Wish, course: Course, pod: PodSeen) -> Course:
    if pod.state is PodState.WAITING:
        return _waits(course, pod.reason or "Starting", _with_hint(wish, pod))
    if pod.is_node_silent:
        words = f"node {pod.node} does not answer; the run is neither ended nor started again"
        return replace(course, phase=EphemeralPhase.RUNNING, reason="NodeNotReady", message=words)
    return replace(course, phase=EphemeralPhase.RUNNING, reason="Started", message="")


def _ended(wish: Wish, course: Course, seen: Seen, pod: PodSeen, now: Millis) -> Step:
    if _can_seal(seen, pod):
        return Step(course=course, actions=(SealLog(course.attempt),))
    course = replace(course, exit_code=pod.exit_code)
    if pod.state is PodState.FAILED:
        is_stopped = pod.reason == "DeadlineExceeded" and _is_stopped(wish, pod, now)
        reason, message = ("Cancelled", "cancelled on request") if is_stopped else (pod.reason, pod.message)
        return _end_run(wish, course, seen, _end_of(pod, now), reason, message, now=now)
    done = replace(
        course,
        phase=EphemeralPhase.SUCCEEDED,
        reason="Completed",
        message=VOLUME_GONE if _lost_volume(course, seen) or (seen.volume and seen.volume.is_going) else "",
        log=seen.log.name if seen.log else "",
        finished_at=_end_of(pod, now),
    )
    return Step(course=done)


def _is_stopped(wish: Wish, pod: PodSeen, now: Millis) -> bool:
    """A server lets a pod end by its own deadline, made short: so its exit code and its log are kept. A run whose time was over
    all the same is not taken for one that somebody stopped; its times are told in whole seconds."""
    if wish.timeout_ms is None or pod.deadline_ms is None:
        return pod.deadline_ms is not None
    ran_ms = _end_of(pod, now) - (pod.started_at or now)
    return pod.deadline_ms // 1000 < wish.timeout_ms // 1000 and ran_ms + 1000 < wish.timeout_ms


def _end_of(pod: PodSeen, now: Millis) -> Millis:
    """By its node's clock, unless that is ahead: an end in the future would keep its volume for as long."""
    return min(pod.finished_at or now, now)


def _stop(wish: Wish, course: Course, seen: Seen, pod: PodSeen, now: Millis, reason: str, message: str) -> Step:
    """End a pod of ours that still lives. Its log is taken first: with the pod it would be gone."""
    if _can_seal(seen, pod):
        return Step(course=course, actions=(SealLog(course.attempt),))
    return _end_run(wish, course, seen, now, reason, message)


def _can_seal(seen: Seen, pod: PodSeen) -> bool:
    """Only its node has the log: one that does not answer is not asked, or the run would never end."""
    return seen.log is None and not pod.is_node_silent


def _going(wish: Wish, course: Course, seen: Seen, pod: PodSeen, now: Millis) -> Step:
    """Somebody deletes it: a person, a drain, the taint of a lost node. It is over when it is gone."""
    if _can_seal(seen, pod):
        return Step(course=course, actions=(SealLog(course.attempt),))
    if pod.is_node_silent and wish.on_lost_node is OnLostNode.DUPLICATE:
        return _end_run(wish, course, seen, now, "NodeLost", f"node {pod.node} was lost")
    words = f"its pod is being deleted{f'; node {pod.node} does not answer' if pod.is_node_silent else ''}"
    return Step(course=replace(course, reason="PodDeleting", message=words))


def _end_run(
    wish: Wish, course: Course, seen: Seen, at: Millis, reason: str, message: str, *, now: Millis | None = None
) -> Step:
    """The current run has failed: the next one after a while, or the end."""
    now = at if now is None else now
    tail = seen.log.tail if seen.log else ""
    course = replace(course, log=(seen.log.name if seen.log else "") or course.log)
    if reason in _FINAL or course.attempt > wish.retries:
        return _finish(course, reason, f"{message}; its last lines:\n{tail}" if tail else message, at=at)
    backoff = min(RETRY_FIRST_MS << min(course.attempt - 1, 20), RETRY_MAX_MS)
    words = f"attempt {course.attempt} of {wish.retries + 1} ended: {reason}; trying again"
    return Step(course=replace(_waits(course, reason, words), retry_at=Millis(now + backoff)))


def _finish(course: Course, reason: str, message: str, *, at: Millis) -> Step:
    over = replace(course, phase=EphemeralPhase.FAILED, reason=reason, message=message, finished_at=at, retry_at=None)
    return Step(course=over)


# — after the end —


def _clean_up(wish: Wish, course: Course, seen: Seen, now: Millis) -> Step:
    """Both times-to-live, counted from the end and judged by UID: what was made anew under the name is left alone."""
    actions: list[Action] = []
    waits: list[Millis] = []
    pod, volume = seen.pod, seen.volume
    finished_at = course.finished_at
    if finished_at is None:  # an end that somebody else wrote
        finished_at = now if pod is None else _end_of(pod, now)
        course = replace(course, finished_at=finished_at)
    if volume is not None and volume.owner is Owner.OURS and not course.volume:
        course = replace(course, volume=volume.uid)  # made for it, and its end came before that was noted
    if pod is not None and not pod.is_foreign and not pod.is_going:
        is_over = pod.state in (PodState.SUCCEEDED, PodState.FAILED)
        due = Millis(finished_at + wish.run_ttl_ms) if is_over else now  # a cancelled one lives until we end it
        _judge(actions, waits, DeletePod(course.attempt, pod.uid), due, now)
    if volume is not None and volume.uid == course.volume:
        if volume.owner is Owner.OURS and not volume.is_going:
            _judge(actions, waits, DeleteVolume(volume.uid), Millis(finished_at + wish.volume_ttl_ms), now)
    elif course.volume:
        course = replace(course, is_volume_gone=True)
    return Step(course=course, actions=tuple(actions), wake_at=min(waits, default=None))


def _judge(actions: list[Action], waits: list[Millis], action: Action, due: Millis, now: Millis) -> None:
    if now >= due:
        actions.append(action)
    else:
        waits.append(due)


def _waits(course: Course, reason: str, message: str) -> Course:
    return replace(course, phase=EphemeralPhase.PENDING, reason=reason, message=message)


def _with_hint(wish: Wish, pod: PodSeen) -> str:
    """The scheduler's words, after what in the job they speak of: it names no labels, and is long-winded."""
    if pod.reason != "Unschedulable":
        return pod.message
    hints = []
    if wish.gpus and _lacks_gpu(pod.message):
        hints.append("no node that it may go to has a free GPU; --gpu 0 runs it on the CPU")
    if wish.gpus and "untolerated taint" in pod.message:
        hints.append("a taint keeps it off (those that jobs with GPUs bear are the operator's gpu_tolerations)")
    if wish.node_labels and "selector" in pod.message:
        hints.append(f"it asks for nodes labelled {', '.join(f'{key}={value}' for key, value in wish.node_labels)}")
    return ": ".join((*hints, pod.message))


def _lacks_gpu(told: str) -> bool:
    """The one thing with a slash in its name that a run asks for, whatever a GPU is called here."""
    return any("/" in lacking.partition(" ")[0] for lacking in told.split("Insufficient ")[1:])


def _patience_end(pod: PodSeen, patience_ms: Millis) -> Millis | None:
    return Millis(pod.placed_at + patience_ms) if pod.is_stuck else None
