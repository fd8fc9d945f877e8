"""What the operator does next, as a table of sentences, and what no interleaving may ever bring about."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from windlass.core.lifecycle.ephemeral import (
    VOLUME_GONE,
    AdoptVolume,
    CreatePod,
    CreateVolume,
    DeletePod,
    DeleteVolume,
    NudgePod,
    ReleasePod,
    SealLog,
    Step,
    is_passing,
    step,
)
from windlass.core.model.ephemeral import (
    Course,
    EphemeralPhase,
    LogSeen,
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

NOW = Millis(1_000_000)
BOUND = VolumeSeen(uid="v", is_bound=True)
RUN = Course(attempt=1, pod="p", volume="v")
OVER = Course(phase=EphemeralPhase.SUCCEEDED, attempt=1, pod="p", volume="v", finished_at=NOW)
LOG = LogSeen(name="job-1-log", tail="last")


def pod(state: PodState = PodState.RUNNING, **more: Any) -> PodSeen:
    return PodSeen(uid="p", state=state, node="n", **more)


def decide(course: Course = Course(), seen: Seen = Seen(), *, now: Millis = NOW, **wish: Any) -> Step:  # noqa: B008
    return step(Wish(**wish), course, seen, now)


def told(decided: Step) -> tuple[str, str, tuple[object, ...]]:
    return decided.course.phase.value, decided.course.reason, decided.actions


BEFORE: dict[str, tuple[Step, tuple[str, str, tuple[object, ...]]]] = {
    "without a volume, one is made": (decide(), ("Pending", "VolumePending", (CreateVolume(),))),
    "an unbound volume is waited for": (
        decide(seen=Seen(volume=VolumeSeen(uid="v"))),
        ("Pending", "VolumePending", ()),
    ),
    "a volume that was given is not made when it is gone": (
        decide(is_volume_given=True),
        ("Failed", "VolumeLost", ()),
    ),
    "and its binding is left to the scheduler": (
        decide(is_volume_given=True, seen=Seen(volume=VolumeSeen(uid="v", owner=Owner.THEIRS))),
        ("Pending", "Starting", (CreatePod(1),)),
    ),
    "one that binds on first consumer is not": (
        decide(seen=Seen(volume=VolumeSeen(uid="v", waits_for_pod=True))),
        ("Pending", "Starting", (CreatePod(1),)),
    ),
    "a bound volume lets the pod go": (decide(seen=Seen(volume=BOUND)), ("Pending", "Starting", (CreatePod(1),))),
    "suspended, it has its volume and no pod": (
        decide(seen=Seen(volume=BOUND), is_suspended=True),
        ("Pending", "Suspended", ()),
    ),
    "a volume made beforehand is adopted before anything runs": (
        decide(seen=Seen(volume=VolumeSeen(uid="v", owner=Owner.UNCLAIMED, is_bound=True))),
        ("Pending", "Starting", (AdoptVolume("v"),)),
    ),
    "another job's volume is not touched": (
        decide(seen=Seen(volume=VolumeSeen(uid="v", owner=Owner.ANOTHERS, is_bound=True))),
        ("Failed", "VolumeTaken", ()),
    ),
    "one that is going is waited for": (
        decide(seen=Seen(volume=VolumeSeen(uid="v", owner=Owner.ANOTHERS, is_going=True))),
        ("Pending", "VolumePending", ()),
    ),
    "also one of nobody's, and of somebody else": (
        decide(seen=Seen(volume=VolumeSeen(uid="v", owner=Owner.THEIRS, is_going=True))),
        ("Pending", "VolumePending", ()),
    ),
    "but not one that was made for it": (
        decide(seen=Seen(volume=VolumeSeen(uid="v", is_going=True))),
        ("Failed", "VolumeLost", ()),
    ),
    "nor one that was given to it": (
        decide(seen=Seen(volume=VolumeSeen(uid="v", owner=Owner.THEIRS, is_going=True)), is_volume_given=True),
        ("Failed", "VolumeLost", ()),
    ),
    "nor one that it had noted": (
        decide(Course(volume="v"), Seen(volume=VolumeSeen(uid="v", owner=Owner.THEIRS, is_going=True))),
        ("Failed", "VolumeLost", ()),
    ),
    "a volume that was there and is gone is not made anew": (
        decide(Course(volume="v"), Seen()),
        ("Failed", "VolumeLost", ()),
    ),
    "a volume of the same name is not the same volume": (
        decide(Course(volume="old"), Seen(volume=BOUND)),
        ("Failed", "VolumeLost", ()),
    ),
    "what can never run says so": (decide(fault="spec.image: is required"), ("Failed", "Invalid", ())),
    "cancelled before it ran": (decide(seen=Seen(volume=BOUND), is_cancelled=True), ("Failed", "Cancelled", ())),
    "between two runs the failed pod goes": (
        decide(replace(RUN, retry_at=Millis(NOW + 5)), Seen(volume=BOUND, pod=pod(PodState.FAILED)), retries=1),
        ("Pending", "", (DeletePod(1, "p"),)),
    ),
    "and the next run has the next number": (
        decide(replace(RUN, retry_at=NOW), Seen(volume=BOUND), retries=1),
        ("Pending", "Starting", (CreatePod(2),)),
    ),
}
DURING: dict[str, tuple[Step, tuple[str, str, tuple[object, ...]]]] = {
    "a pod that was decided but never seen is made": (
        decide(Course(attempt=1, volume="v"), Seen(volume=BOUND)),
        ("Pending", "", (CreatePod(1),)),
    ),
    "a pod that was seen and is absent is a failed run": (
        decide(RUN, Seen(volume=BOUND)),
        ("Failed", "PodDeleted", ()),
    ),
    "unless its node went with it": (
        decide(RUN, Seen(volume=BOUND, is_node_silent=True)),
        ("Failed", "NodeLost", ()),
    ),
    "a held pod is let go once its UID is in the course": (
        decide(RUN, Seen(volume=BOUND, pod=pod(PodState.WAITING, is_held=True))),
        ("Pending", "", (ReleasePod(1, "p"),)),
    ),
    "a held pod that is no longer wanted is not": (
        decide(RUN, Seen(volume=BOUND, pod=pod(PodState.WAITING, is_held=True), log=LOG), is_cancelled=True),
        ("Failed", "Cancelled", ()),
    ),
    "a pod that its node has put off is nudged": (
        decide(RUN, Seen(volume=BOUND, pod=pod(PodState.WAITING, is_put_off=True))),
        ("Pending", "Starting", (NudgePod(1, "p"),)),
    ),
    "but not before it is let go": (
        decide(RUN, Seen(volume=BOUND, pod=pod(PodState.WAITING, is_put_off=True, is_held=True))),
        ("Pending", "", (ReleasePod(1, "p"),)),
    ),
    "nor when it runs by now": (
        decide(RUN, Seen(volume=BOUND, pod=pod(is_put_off=True))),
        ("Running", "Started", ()),
    ),
    "a node that does not answer is not asked for a log": (
        decide(RUN, Seen(volume=BOUND, pod=pod(PodState.FAILED, reason="Evicted", is_node_silent=True))),
        ("Failed", "Evicted", ()),
    ),
    "a pod that is not ours is left alone": (
        decide(Course(attempt=1, volume="v"), Seen(volume=BOUND, pod=pod(is_foreign=True))),
        ("Failed", "PodNameTaken", ()),
    ),
    "and waited for when it is going": (
        decide(Course(attempt=1, volume="v"), Seen(volume=BOUND, pod=pod(is_foreign=True, is_going=True))),
        ("Pending", "Starting", ()),
    ),
    "one that a job before it has left is waited for too": (
        decide(Course(attempt=1, volume="v"), Seen(volume=BOUND, pod=pod(is_foreign=True, is_left=True))),
        ("Pending", "PodNameTaken", ()),
    ),
    "unless it was its own and is nobody's now": (
        decide(RUN, Seen(volume=BOUND, pod=pod(is_foreign=True, is_left=True))),
        ("Failed", "PodNameTaken", ()),
    ),
    "who is cancelled waits for neither": (
        decide(
            Course(attempt=1, volume="v"),
            Seen(volume=BOUND, pod=pod(is_foreign=True, is_going=True)),
            is_cancelled=True,
        ),
        ("Failed", "Cancelled", ()),
    ),
    "running only when the pod runs": (decide(RUN, Seen(volume=BOUND, pod=pod())), ("Running", "Started", ())),
    "an ended pod's log is kept first": (
        decide(RUN, Seen(volume=BOUND, pod=pod(PodState.SUCCEEDED))),
        ("Pending", "", (SealLog(1),)),
    ),
    "then it has succeeded": (
        decide(RUN, Seen(volume=BOUND, pod=pod(PodState.SUCCEEDED, exit_code=0), log=LOG)),
        ("Succeeded", "Completed", ()),
    ),
    "nor does a volume that was deleted under it make a failure of it": (
        decide(RUN, Seen(pod=pod(PodState.SUCCEEDED, exit_code=0), log=LOG)),
        ("Succeeded", "Completed", ()),
    ),
    "a quota that is used up is waited for": (
        decide(
            Course(attempt=1, volume="v"), Seen(volume=BOUND, refused=Refused(reason="Q", message="", is_final=False))
        ),
        ("Pending", "Q", ()),
    ),
    "a pod that is refused for good ends it": (
        decide(
            Course(attempt=1, volume="v"), Seen(volume=BOUND, refused=Refused(reason="R", message="", is_final=True))
        ),
        ("Failed", "R", ()),
    ),
    "cancelled, its log is kept before it is ended": (
        decide(RUN, Seen(volume=BOUND, pod=pod()), is_cancelled=True),
        ("Pending", "", (SealLog(1),)),
    ),
    "a timeout is never retried": (
        decide(RUN, Seen(volume=BOUND, pod=pod(PodState.FAILED, reason="DeadlineExceeded"), log=LOG), retries=5),
        ("Failed", "DeadlineExceeded", ()),
    ),
    "a silent node is said, and nothing is done": (
        decide(RUN, Seen(volume=BOUND, pod=pod(is_node_silent=True))),
        ("Running", "NodeNotReady", ()),
    ),
    "a pod on its way out is waited for, so that two never run": (
        decide(RUN, Seen(volume=BOUND, pod=pod(is_going=True), log=LOG), retries=1),
        ("Pending", "PodDeleting", ()),
    ),
    "unless the job chose to be doubled rather than wait": (
        decide(
            RUN,
            Seen(volume=BOUND, pod=pod(is_going=True, is_node_silent=True)),
            retries=1,
            on_lost_node=OnLostNode.DUPLICATE,
        ),
        ("Pending", "NodeLost", ()),
    ),
    "a pod whose volume is gone before it ran will never run": (
        decide(RUN, Seen(pod=pod(PodState.WAITING), log=LOG)),
        ("Failed", "VolumeLost", ()),
    ),
    "an image is waited for": (
        decide(RUN, Seen(volume=BOUND, pod=pod(PodState.WAITING, reason="ImagePull", is_stuck=True, placed_at=NOW))),
        ("Pending", "ImagePull", ()),
    ),
    "but not for ever": (
        decide(RUN, Seen(volume=BOUND, pod=pod(PodState.WAITING, reason="ImagePull", is_stuck=True), log=LOG)),
        ("Failed", "ImagePull", ()),
    ),
}
AFTER: dict[str, tuple[Step, tuple[str, str, tuple[object, ...]]]] = {
    "no time-to-live: the pod goes at once": (
        decide(OVER, Seen(volume=BOUND, pod=pod(PodState.SUCCEEDED))),
        ("Succeeded", "", (DeletePod(1, "p"),)),
    ),
    "with one, not a moment early": (
        decide(
            OVER, Seen(volume=BOUND, pod=pod(PodState.SUCCEEDED)), now=Millis(NOW + 19_999), run_ttl_ms=Millis(20_000)
        ),
        ("Succeeded", "", ()),
    ),
    "nor late, however long nobody looked": (
        decide(OVER, Seen(volume=BOUND, pod=pod(PodState.SUCCEEDED)), now=Millis(NOW + 9**9), volume_ttl_ms=Millis(5)),
        ("Succeeded", "", (DeletePod(1, "p"), DeleteVolume("v"))),
    ),
    "a volume made anew under the name is left alone": (
        decide(OVER, Seen(volume=VolumeSeen(uid="new", is_bound=True)), now=Millis(NOW + 9**9)),
        ("Succeeded", "", ()),
    ),
    "a volume that was made for it and not noted before its end is deleted as well": (
        decide(replace(OVER, attempt=0, pod="", volume=""), Seen(volume=BOUND), volume_ttl_ms=Millis(0)),
        ("Succeeded", "", (DeleteVolume("v"),)),
    ),
    "a volume that somebody else made is left alone": (
        decide(OVER, Seen(volume=replace(BOUND, owner=Owner.THEIRS)), now=Millis(NOW + 9**9)),
        ("Succeeded", "", ()),
    ),
    "a cancelled pod that still lives is ended now": (
        decide(OVER, Seen(volume=BOUND, pod=pod(PodState.RUNNING)), run_ttl_ms=Millis(10**9)),
        ("Succeeded", "", (DeletePod(1, "p"),)),
    ),
}
ALL = BEFORE | DURING | AFTER


@pytest.mark.parametrize(("decided", "expected"), ALL.values(), ids=ALL.keys())
def test_what_is_done_next(decided: Step, expected: tuple[str, str, tuple[object, ...]]) -> None:
    assert told(decided) == expected


def test_an_end_that_somebody_else_wrote_without_its_time_is_now_or_the_pods() -> None:
    forged = replace(OVER, finished_at=None)
    assert decide(forged, Seen(volume=BOUND)).course.finished_at == NOW
    ended = pod(PodState.SUCCEEDED, finished_at=Millis(NOW - 5))
    assert decide(forged, Seen(volume=BOUND, pod=ended)).course.finished_at == NOW - 5
    assert decide(forged, Seen(volume=BOUND, pod=pod())).actions == (DeletePod(1, "p"),)


def test_the_next_time_to_live_says_when_to_look_again() -> None:
    kept = decide(OVER, Seen(volume=BOUND, pod=pod(PodState.SUCCEEDED)), run_ttl_ms=Millis(20_000))
    assert kept.wake_at == NOW + 20_000
    alone = decide(OVER, Seen(volume=BOUND))
    assert alone.wake_at == NOW + 3_600_000


PASSES: dict[str, tuple[Course, Course, bool]] = {
    "that its volume is not bound yet": (Course(), Course(reason="VolumePending", volume="v"), True),
    "on which node it is being started": (
        replace(RUN, reason="Starting"),
        replace(RUN, reason="Starting", node="n"),
        True,
    ),
    "that it started, when its end comes next": (
        replace(RUN, reason="Starting"),
        replace(RUN, reason="Starting", started_at=NOW),
        True,
    ),
    "that it is to be run": (Course(reason="VolumePending"), Course(reason="Starting", attempt=1), False),
    "which pod runs it": (Course(attempt=1, reason="Starting"), Course(attempt=1, reason="Starting", pod="p"), False),
    "that it runs": (RUN, replace(RUN, phase=EphemeralPhase.RUNNING, reason="Started"), False),
    "that somebody has to act": (RUN, replace(RUN, reason="Unschedulable"), False),
    "nothing new": (RUN, RUN, False),
}


@pytest.mark.parametrize(("old", "new", "expected"), PASSES.values(), ids=PASSES.keys())
def test_what_need_not_be_written_at_once(old: Course, new: Course, expected: bool) -> None:
    assert is_passing(old, new) is expected


SCHEDULER: dict[str, tuple[str, dict[str, Any], str]] = {
    "a GPU that nobody has free, whatever it is called": (
        "0/2 nodes are available: 2 Insufficient amd.com/mi300.",
        {"gpus": 1},
        "no node that it may go to has a free GPU; --gpu 0 runs it on the CPU: ",
    ),
    "a GPU that is kept for others": (
        "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
        {"gpus": 1},
        "a taint keeps it off (those that jobs with GPUs bear are the operator's gpu_tolerations): ",
    ),
    "a taint, for who wants no GPU": ("0/1 nodes are available: 1 node(s) had untolerated taint(s).", {}, ""),
    "cores, which are no GPU": ("0/2 nodes are available: 2 Insufficient cpu.", {"gpus": 1}, ""),
    "labels that no node has": (
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        {"node_labels": (("disk", "ssd"), ("zone", "a"))},
        "it asks for nodes labelled disk=ssd, zone=a: ",
    ),
    "a selector of the admin's": (
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        {},
        "",
    ),
}


@pytest.mark.parametrize(("words", "wish", "hint"), SCHEDULER.values(), ids=SCHEDULER.keys())
def test_what_the_scheduler_says_is_told_with_what_it_speaks_of(words: str, wish: dict[str, Any], hint: str) -> None:
    waiting = decide(RUN, Seen(volume=BOUND, pod=pod(PodState.WAITING, reason="Unschedulable", message=words)), **wish)
    assert waiting.course.message == hint + words


def test_a_failure_carries_the_last_lines() -> None:
    failed = decide(
        RUN, Seen(volume=BOUND, pod=pod(PodState.FAILED, reason="ExitCode", message="exit code 3"), log=LOG)
    )
    assert failed.course.message == "exit code 3; its last lines:\nlast"
    assert failed.course.log == "job-1-log"


SEEN_PODS = st.one_of(
    st.none(),
    st.builds(
        PodSeen,
        uid=st.sampled_from(["p", "q"]),
        state=st.sampled_from(PodState),
        reason=st.sampled_from(["", "ExitCode", "DeadlineExceeded"]),
        is_foreign=st.booleans(),
        is_left=st.booleans(),
        is_going=st.booleans(),
        is_stuck=st.booleans(),
        is_node_silent=st.booleans(),
        is_held=st.booleans(),
        is_put_off=st.booleans(),
    ),
)
SEEN_VOLUMES = st.one_of(
    st.none(),
    st.builds(
        VolumeSeen,
        uid=st.sampled_from(["v", "w"]),
        owner=st.sampled_from(Owner),
        is_bound=st.booleans(),
        is_going=st.booleans(),
    ),
)
LOOKS = st.lists(
    st.tuples(SEEN_PODS, SEEN_VOLUMES, st.one_of(st.none(), st.just(LOG)), st.integers(0, 200_000)), max_size=30
)


@settings(max_examples=300, deadline=None)
@given(looks=LOOKS, retries=st.integers(0, 2), is_cancelled=st.booleans())
def test_whatever_is_seen_no_run_is_made_twice_and_no_end_is_taken_back(
    looks: list[Any], retries: int, is_cancelled: bool
) -> None:
    """Also when a seen pod is made again: that would be a run started twice."""
    course, now = Course(), NOW
    wish = Wish(retries=retries, is_cancelled=is_cancelled)
    for one, volume, log, later in looks:
        now = Millis(now + later)
        before = course
        decided = step(wish, course, Seen(pod=one, volume=volume, log=log), now)
        course = decided.course
        assert course.attempt in (before.attempt, before.attempt + 1)
        assert course.attempt <= retries + 1
        if before.is_over:
            assert (course.phase, course.finished_at) == (before.phase, before.finished_at)
        for action in decided.actions:
            if isinstance(action, CreatePod):
                assert not course.pod, "made again after it was seen"
                assert action.attempt == course.attempt
            if isinstance(action, ReleasePod):
                assert action.uid == course.pod, "let run before its UID is in the course"
            if isinstance(action, DeleteVolume):
                assert volume is not None
                assert (action.uid, volume.owner) == (course.volume, Owner.OURS)
            if isinstance(action, DeletePod):
                assert one is not None
                assert not one.is_foreign


LATE = {"reason": "DeadlineExceeded", "started_at": Millis(NOW - 5_000), "finished_at": NOW}
STOPPED: dict[str, tuple[int | None, int, str]] = {
    "its time was over": (5_000, 5_000, "DeadlineExceeded"),
    "somebody shortened it": (60_000, 1_000, "Cancelled"),
    "there was no such time": (None, 1_000, "Cancelled"),
    "it was shortened when it was over anyway": (5_000, 1_000, "DeadlineExceeded"),
}


@pytest.mark.parametrize(("timeout_ms", "deadline_ms", "reason"), STOPPED.values(), ids=STOPPED.keys())
def test_a_run_that_was_stopped_is_told_from_one_whose_time_was_over(
    timeout_ms: int | None, deadline_ms: int, reason: str
) -> None:
    late = pod(PodState.FAILED, deadline_ms=Millis(deadline_ms), exit_code=137, **LATE)
    course = decide(RUN, Seen(volume=BOUND, pod=late, log=LOG), timeout_ms=timeout_ms, retries=3).course
    assert (course.phase, course.reason, course.exit_code) == (EphemeralPhase.FAILED, reason, 137)


@pytest.mark.parametrize("volume", [None, VolumeSeen(uid="v", is_bound=True, is_going=True), VolumeSeen(uid="another")])
def test_a_run_that_succeeded_without_its_volume_says_that_what_it_wrote_is_lost(volume: VolumeSeen | None) -> None:
    ended = Seen(volume=volume, pod=pod(PodState.SUCCEEDED, exit_code=0), log=LOG)
    assert decide(RUN, ended).course.message == VOLUME_GONE
    assert decide(RUN, Seen(volume=BOUND, pod=ended.pod, log=LOG)).course.message == ""
