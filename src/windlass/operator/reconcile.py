"""One look at one job: read, decide by the core step, write the course, act; again until there is nothing to do."""

from collections.abc import Callable
from typing import Final

import anyio
import structlog

from windlass.client.kube.api import CLAIMS, PODS, THROTTLED, Kind, KubeApi
from windlass.core.errors import Conflict, Invalid, Unavailable, WindlassError
from windlass.core.lifecycle.ephemeral import (
    Action,
    AdoptVolume,
    CreatePod,
    CreateVolume,
    DeletePod,
    DeleteVolume,
    NudgePod,
    ReleasePod,
    SealLog,
    is_passing,
    step,
)
from windlass.core.model.ephemeral import Course, LogSeen, Refused, Seen, Wish
from windlass.core.model.ids import Millis
from windlass.core.model.job import JobKind, JobSpec, OnLostNode
from windlass.core.model.resources import Resources
from windlass.core.model.submission import Submission
from windlass.operator.acting import Actor
from windlass.operator.gate import Gate
from windlass.operator.memory import Key, Memory, key_of
from windlass.operator.metrics import OperatorMetrics
from windlass.operator.observing import Observer
from windlass.operator.queue import WorkQueue
from windlass.operator.sealing import keep_log, read_log
from windlass.wire.job import API_VERSION, read_manifest
from windlass.wire.kube.errand import read_errand
from windlass.wire.kube.names import EXPIRES, UPLOAD, Document, is_cancelled, owner_uid
from windlass.wire.kube.observe import left_since
from windlass.wire.kube.status import read_course, read_time

ROUNDS_MAX: Final = 12
SEAL_TRIES: Final = 8
"""How often a log may be refused; with the pauses between them most of a minute."""
BACKOFF_FIRST_SECONDS: Final = 0.2
BACKOFF_MAX_SECONDS: Final = 30.0
PASSING_MS: Final = 10_000
"""What mostly passes by itself is written only when it has not after this long: half of all writes were of such moments."""
LEFT_MS: Final = 300_000
"""How long a pod beside a volume may be there after its end: whoever made it may still read what it said."""

log = structlog.get_logger(__name__)


class Reconciler:
    def __init__(
        self,
        api: KubeApi,
        memory: Memory,
        queue: WorkQueue[Key],
        actor: Actor,
        gate: Gate,
        *,
        preset_image: str,
        patience_ms: Millis,
        wall: Callable[[], Millis],
        metrics: OperatorMetrics,
        passing_ms: int = PASSING_MS,
    ) -> None:
        self._api = api
        self._memory = memory
        self._queue = queue
        self._actor = actor
        self._gate = gate
        self._observer = Observer(api, memory, wall)
        self._preset_image = preset_image
        self._patience_ms = patience_ms
        self._wall = wall
        self._metrics = metrics
        self._passing_ms = passing_ms
        self._failures: dict[Key, int] = {}
        self._logs: dict[tuple[str, int], LogSeen] = {}
        self._unread: dict[Key, int] = {}
        """How often in a row its node did not hand out a job's log. Counted apart: whatever else fails loses no log."""
        self._wishes: dict[Key, tuple[object, tuple[Wish, Submission]]] = {}
        self._untold: dict[Key, float] = {}
        """Since when a passing moment waits to be written."""

    async def look(self, key: Key) -> None:
        """For the queue: lets no error out; what failed is looked at again, later each time."""
        try:
            with self._metrics.looks.time():
                wake_at = await self._reconcile(key)
        except WindlassError as exc:
            self._again(key, exc.code, exc)
        except Exception as exc:
            self._again(key, "internal", exc)
        else:
            self._failures.pop(key, None)
            if wake_at is not None:
                self._queue.add(key, delay=max(0.05, (wake_at - self._wall()) / 1000))
        self._metrics.waiting.set(len(self._queue))

    async def sweep_volumes(self) -> None:
        """Volumes that wait for a job that never came, or were left by one that is gone: each by its own date and UID."""
        for claim in self._memory.claims.all():
            if owner_uid(claim) or "deletionTimestamp" in claim["metadata"]:
                continue
            due = read_time(claim["metadata"].get("annotations", {}).get(EXPIRES))
            if due is not None and due <= self._wall():
                await self._sweep(CLAIMS, claim)

    async def sweep_pods(self) -> None:
        """Pods beside volumes that have ended and that nobody has removed."""
        for pod in self._memory.pods.all():
            since = left_since(pod)
            if since is not None and since + LEFT_MS <= self._wall():
                await self._sweep(PODS, pod)

    async def _sweep(self, kind: Kind, found: Document) -> None:
        """One that cannot be deleted keeps none of the others."""
        namespace, name = key_of(found)
        try:
            await self._api.delete(kind, name, namespace, uid=found["metadata"]["uid"])
        except WindlassError as exc:
            log.warning("not swept", kind=kind.plural, name=(namespace, name), code=exc.code, why=str(exc))

    async def _reconcile(self, key: Key) -> Millis | None:
        job = self._memory.jobs.get(key)
        if job is None or "deletionTimestamp" in job["metadata"]:
            self._untold.pop(key, None)
            self._wishes.pop(key, None)
            self._unread.pop(key, None)
            return None  # what it owned goes with it
        wish, asked = self._wish(key, job)
        wish = await self._gate.judge(job, wish)
        refused: Refused | None = None
        for _ in range(ROUNDS_MAX):
            course = read_course(job.get("status", {}))
            slot = (job["metadata"]["uid"], course.attempt)
            seen = Seen(
                pod=await self._observer.pod(job, course),
                volume=await self._observer.volume(job, course),
                refused=refused,
                log=self._logs.get(slot),
                is_node_silent=self._memory.is_silent(course.node),
            )
            decided = step(wish, course, seen, self._wall(), patience_ms=self._patience_ms)
            may_pass = self._may_pass(key, course, decided.course)
            if not may_pass:
                job = await self._actor.write(job, course, decided.course)
            if decided.course.is_over:
                self._logs.pop(slot, None)
            if not decided.actions and (may_pass or decided.course == course):
                return Millis(self._wall() + self._passing_ms + 20) if may_pass else decided.wake_at
            for action in decided.actions:
                refused = await self._act(job, asked, action) or refused
        return Millis(self._wall() + 1000)

    def _wish(self, key: Key, job: Document) -> tuple[Wish, Submission]:
        """Read once for each generation: a job is looked at some twenty times."""
        metadata = job["metadata"]
        version = (metadata["uid"], metadata.get("generation"), metadata.get("annotations"))
        known = self._wishes.get(key)
        if known is None or known[0] != version:
            known = self._wishes[key] = (version, read_wish(job, self._preset_image))
        return known[1]

    def _may_pass(self, key: Key, old: Course, new: Course) -> bool:
        """Whether the new course is not worth a write yet."""
        if not is_passing(old, new):
            self._untold.pop(key, None)
            return False
        now = anyio.current_time()
        if now - self._untold.setdefault(key, now) < self._passing_ms / 1000:
            return True
        del self._untold[key]
        return False

    async def _act(self, job: Document, asked: Submission, action: Action) -> Refused | None:
        match action:
            case CreateVolume():
                return await self._actor.make_volume(job, asked, action)
            case AdoptVolume():
                await self._actor.adopt_volume(job, action)
            case DeleteVolume():
                await self._actor.delete_volume(job, action)
            case CreatePod():
                return await self._actor.make_pod(job, asked, action)
            case ReleasePod():
                await self._actor.release_pod(job, action)
            case NudgePod():
                await self._actor.nudge_pod(job, action)
            case DeletePod():
                await self._actor.delete_pod(job, action)
            case SealLog():
                self._logs[(job["metadata"]["uid"], action.attempt)] = await self._seal(job, action.attempt)
        return None

    async def _seal(self, job: Document, attempt: int) -> LogSeen:
        """A log that its node does not hand out is asked for again and again, but not for ever: the job has ended. One that
        was read is kept, however often that is refused: without the API server nothing ends anyway."""
        key = key_of(job)
        try:
            printed = await read_log(self._api, job, attempt)
        except Unavailable as exc:
            self._unread[key] = self._unread.get(key, 0) + 1
            if self._unread[key] <= SEAL_TRIES:
                raise
            log.warning("log not to be had", job=key, attempt=attempt, why=str(exc))
            printed = None
        self._unread.pop(key, None)
        return await keep_log(self._api, job, attempt, printed) if printed else LogSeen()

    def _again(self, key: Key, code: str, exc: Exception) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._metrics.troubles.labels(code).inc()
        delay = min(BACKOFF_FIRST_SECONDS * 2 ** min(failures - 1, 10), BACKOFF_MAX_SECONDS)
        if isinstance(exc, Unavailable) and code == THROTTLED:
            delay = max(delay, exc.retry_after_seconds)
        if isinstance(exc, Conflict):
            log.debug("look repeated", job=key, code=code)  # somebody else wrote; its event is on the way
        elif isinstance(exc, WindlassError):
            log.warning("look failed", job=key, code=code, why=str(exc), again_in_seconds=delay)
        else:
            log.error("look failed", job=key, code=code, again_in_seconds=delay, exc_info=exc)
        self._queue.add(key, delay=delay)


def read_wish(job: Document, preset_image: str) -> tuple[Wish, Submission]:
    """By the one validator. What it refuses, though the schema let it pass, is the job's fault and ends it."""
    metadata = job["metadata"]
    document = {
        "apiVersion": API_VERSION,
        "kind": JobKind.EPHEMERAL.value,
        "metadata": {"name": metadata["name"]},
        "spec": job.get("spec", {}),
    }
    try:
        errand = read_errand(job)
        asked = read_manifest(document, runtime="container", preset_image=preset_image)
    except Invalid as exc:
        words = "; ".join(f"{fault.field}: {fault.message}" for fault in exc.faults) or exc.message
        empty = JobSpec(needs=Resources(cpu_millis=0, memory_bytes=0, gpus=0))
        return Wish(fault=words, is_cancelled=is_cancelled(job)), Submission(spec=empty)
    default = OnLostNode.MOVE if asked.retries else OnLostNode.WAIT
    wish = Wish(
        retries=asked.retries,
        run_ttl_ms=asked.run_ttl_ms,
        volume_ttl_ms=asked.volume_ttl_ms,
        timeout_ms=asked.timeout_ms,
        on_lost_node=asked.on_lost_node or default,
        is_suspended=asked.is_suspended,
        awaits_upload=UPLOAD in metadata.get("annotations", {}),
        is_cancelled=is_cancelled(job),
        gpus=asked.spec.needs.gpus,
        node_labels=asked.node_labels,
        is_volume_given=errand is not None,
    )
    return wish, asked
