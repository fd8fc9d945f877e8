"""Doing what a step says, one API write each. Every one may be repeated after a crash and then changes nothing."""

from collections.abc import Callable
from typing import Final

from windlass.client.kube.api import CLAIMS, EVENTS, JOBS, PODS, STRATEGIC, KubeApi
from windlass.core.errors import Conflict, Denied, Invalid, NotFound, WindlassError
from windlass.core.lifecycle.ephemeral import (
    AdoptVolume,
    CreatePod,
    CreateVolume,
    DeletePod,
    DeleteVolume,
    NudgePod,
    ReleasePod,
)
from windlass.core.model.ephemeral import Course, Refused
from windlass.core.model.ids import Millis
from windlass.core.model.submission import Submission
from windlass.operator.memory import Memory, Shelf
from windlass.operator.metrics import OperatorMetrics
from windlass.operator.notices import event, failure, notices
from windlass.ports.failpoints import Failpoints
from windlass.wire.kube.errand import claim_of, read_errand
from windlass.wire.kube.names import API_VERSION, EXPIRES, HOLD, KIND, NUDGE, Document, owner, pod_name, volume_name
from windlass.wire.kube.pod import PodPolicy, run_pod
from windlass.wire.kube.status import write_status
from windlass.wire.kube.volume import claim
from windlass.wire.render import timestamp

FINAL: Final = ("violates PodSecurity", "usage per ", "limit to request ratio per ")
"""Of the refusals with 403 those that judge the thing itself: the namespace's profile, and the bounds of a LimitRange. A right
that is missing, a service account that its namespace has not got yet, a quota not counted yet are not of that kind."""


class Actor:
    def __init__(
        self,
        api: KubeApi,
        memory: Memory,
        policy: PodPolicy,
        *,
        wall: Callable[[], Millis],
        failpoints: Failpoints,
        metrics: OperatorMetrics,
    ) -> None:
        self._api = api
        self._memory = memory
        self._policy = policy
        self._wall = wall
        self._failpoints = failpoints
        self._metrics = metrics

    async def write(self, job: Document, old: Course, new: Course) -> Document:
        """The new course into the status, onto the version it was judged by; gives the job as it now is."""
        metadata, now = job["metadata"], self._wall()
        before = job.get("status", {})
        status = write_status(
            new,
            metadata["name"],
            claim=claim_of(job),
            generation=metadata.get("generation", 0),
            before=before,
            now=now,
        )
        if status == before:
            return job
        head = {name: metadata[name] for name in ("name", "namespace", "resourceVersion")}
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": head, "status": status}
        await self._failpoints.reach("operator.before_patch")
        written = await self._api.apply(JOBS, document, metadata["namespace"], sub="status")
        await self._failpoints.reach("operator.after_patch")
        self._memory.jobs.put(written)
        await self._tell(written, old, new, now)
        return written

    async def make_volume(self, job: Document, asked: Submission, action: CreateVolume) -> Refused | None:
        metadata = job["metadata"]
        document = claim(metadata["name"], asked.spec, uid=metadata["uid"])
        try:
            made = await self._api.create(CLAIMS, document, metadata["namespace"])
        except Conflict:
            found = await self._api.get(CLAIMS, volume_name(metadata["name"]), metadata["namespace"])
            if found is None:
                return None  # gone again; the next look makes it
            made = found
        except (Denied, Invalid, NotFound) as exc:
            return _refusal(exc, "VolumeRefused")
        self._memory.claims.put(made)
        return None

    async def adopt_volume(self, job: Document, action: AdoptVolume) -> None:
        metadata = job["metadata"]
        change = {
            "metadata": {
                "uid": action.uid,  # the API server refuses when it is another's by now
                "ownerReferences": [owner(metadata["name"], metadata["uid"])],
                "annotations": {EXPIRES: None},
            }
        }
        adopted = await self._api.merge(CLAIMS, volume_name(metadata["name"]), change, metadata["namespace"])
        self._memory.claims.put(adopted)

    async def delete_volume(self, job: Document, action: DeleteVolume) -> None:
        metadata = job["metadata"]
        name, namespace = volume_name(metadata["name"]), metadata["namespace"]
        await self._api.delete(CLAIMS, name, namespace, uid=action.uid)
        _mark_going(self._memory.claims, (namespace, name), action.uid)

    async def make_pod(self, job: Document, asked: Submission, action: CreatePod) -> Refused | None:
        """One that is there already under the name is taken as it is; whether it is ours is seen at the next look."""
        metadata = job["metadata"]
        document = run_pod(metadata["name"], metadata["uid"], action.attempt, asked, self._policy, read_errand(job))
        try:
            made = await self._api.create(PODS, document, metadata["namespace"])
        except Conflict:
            return None
        except (Denied, Invalid, NotFound) as exc:
            return _refusal(exc, "PodRefused")
        self._metrics.pods.inc()
        self._memory.pods.put(made)
        return None

    async def release_pod(self, job: Document, action: ReleasePod) -> None:
        metadata = job["metadata"]
        name = pod_name(metadata["name"], action.attempt)
        gates = [{"$patch": "delete", "name": HOLD}]  # ours only: a queue may have put its own beside it
        change = {"metadata": {"uid": action.uid}, "spec": {"schedulingGates": gates}}
        released = await self._api.merge(PODS, name, change, metadata["namespace"], media=STRATEGIC)
        self._memory.pods.put(released)

    async def nudge_pod(self, job: Document, action: NudgePod) -> None:
        """Each time another value, or nothing would change. A pod that is gone meanwhile is seen at the next look."""
        metadata = job["metadata"]
        change = {"metadata": {"uid": action.uid, "annotations": {NUDGE: timestamp(self._wall() / 1000)}}}
        self._memory.nudged(action.uid)
        try:
            nudged = await self._api.merge(
                PODS, pod_name(metadata["name"], action.attempt), change, metadata["namespace"]
            )
        except (NotFound, Conflict):
            return
        self._memory.pods.put(nudged)

    async def delete_pod(self, job: Document, action: DeletePod) -> None:
        metadata = job["metadata"]
        name, namespace = pod_name(metadata["name"], action.attempt), metadata["namespace"]
        await self._api.delete(PODS, name, namespace, uid=action.uid)
        _mark_going(self._memory.pods, (namespace, name), action.uid)

    async def _tell(self, job: Document, old: Course, new: Course, now: Millis) -> None:
        if new.is_over and not old.is_over:
            self._metrics.ended.labels(new.phase.value, new.reason).inc()
        if reason := failure(old, new):
            self._metrics.failed.labels(reason).inc()
        for notice in notices(old, new):
            try:
                await self._api.create(EVENTS, event(job, notice, new.attempt, now), job["metadata"]["namespace"])
            except WindlassError:
                continue  # told before a crash, or the namespace is going: an event is a courtesy


def _refusal(exc: WindlassError, otherwise: str) -> Refused:
    """Final is only what the same words would meet again: the rest may be mended by somebody, or by a moment's wait."""
    if "exceeded quota" in exc.message:
        return Refused(reason="QuotaExceeded", message=exc.message, is_final=False)
    is_final = isinstance(exc, Invalid) or any(words in exc.message for words in FINAL)
    return Refused(reason=otherwise, message=exc.message, is_final=is_final)


def _mark_going(shelf: Shelf, key: tuple[str, str], uid: str) -> None:
    """So that it is not deleted again before the watch has told of it."""
    known = shelf.get(key)
    if known is not None and known["metadata"]["uid"] == uid:
        known["metadata"].setdefault("deletionTimestamp", "")
