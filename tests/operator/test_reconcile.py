"""Looks at a job beside an API server that only remembers: what is written in a job's life, and that nothing holds up its end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.json import decode, encode

from windlass.client.kube.api import CLAIMS, CONFIG_MAPS, JOBS, PODS, STORAGE_CLASSES, Kind
from windlass.core.errors import Conflict, Denied, Invalid, Unavailable, WindlassError
from windlass.core.model.ids import Millis
from windlass.operator.acting import Actor
from windlass.operator.gate import Gate
from windlass.operator.memory import Key, Memory
from windlass.operator.metrics import OperatorMetrics
from windlass.operator.queue import WorkQueue
from windlass.operator.reconcile import LEFT_MS, SEAL_TRIES, Reconciler
from windlass.operator.relisting import Relister
from windlass.operator.settings import OperatorSettings
from windlass.wire.kube.names import (
    CANCEL,
    EXPIRES,
    HOLD,
    INSTALLATION_LABEL,
    JOB_LABEL,
    NUDGE,
    PART_LABEL,
    UPLOAD,
    Document,
    owner,
    owner_uid,
)

pytestmark = pytest.mark.anyio
KEY: Key = ("lab", "it")
RUNNING = {"running": {"startedAt": "1970-01-01T00:00:01Z"}}
ENDED = {"terminated": {"exitCode": 0, "finishedAt": "1970-01-01T00:00:02Z", "startedAt": "1970-01-01T00:00:01Z"}}


class RememberingApi:
    """As much of an API server as one job needs."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Document] = {}
        self.written: list[str] = []
        self.calls: dict[tuple[str, str], int] = {}
        self.has_log = True
        self.refusals: dict[str, WindlassError] = {}
        """What making one of a kind, `get KINDS` or `delete NAME` is answered with."""

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Document | None:
        if refused := self.refusals.get(f"get {kind.plural}"):
            raise refused
        return self.objects.get((kind.plural, name))

    async def list(self, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Document]:
        return [decode(encode(found)) for (plural, _), found in self.objects.items() if plural == kind.plural]

    async def create(self, kind: Kind, document: Document, namespace: str = "") -> Document:
        if refused := self.refusals.get(kind.plural):
            raise refused
        if kind is CONFIG_MAPS and (kind.plural, document["metadata"]["name"]) in self.objects:
            raise Conflict("there already", code="kube-conflict")
        self.written.append(f"create {kind.plural}")
        return self._keep(kind, {**document, "metadata": {**document["metadata"], "namespace": namespace}})

    async def apply(self, kind: Kind, document: Document, namespace: str = "", *, sub: str = "") -> Document:
        known = self.objects[kind.plural, document["metadata"]["name"]]
        if document["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
            raise Conflict("another version", code="kube-conflict")
        self.written.append(f"status {document['status']['reason']}")
        return self._keep(kind, {**known, "status": document["status"]})

    async def merge(self, kind: Kind, name: str, change: Document, namespace: str = "", *, media: str = "") -> Document:
        self.written.append(f"patch {kind.plural}")
        if "annotations" in change["metadata"]:
            known = self.objects[kind.plural, name]
            assert change["metadata"]["uid"] == known["metadata"]["uid"]
            return self._keep(kind, {**known, "metadata": {**known["metadata"], **change["metadata"]}})
        assert change["spec"]["schedulingGates"] == [{"$patch": "delete", "name": HOLD}]
        known = self.objects[kind.plural, name]
        return self._keep(kind, {**known, "spec": {**known["spec"], "schedulingGates": []}})

    async def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str) -> bool:
        if refused := self.refusals.get(f"delete {name}"):
            raise refused
        self.written.append(f"delete {kind.plural}")
        found = self.objects.get((kind.plural, name))
        if found is None or found["metadata"]["uid"] != uid:
            return False
        del self.objects[kind.plural, name]
        return True

    @asynccontextmanager
    async def log(self, name: str, namespace: str) -> AsyncIterator[AsyncIterator[bytes]]:
        if not self.has_log:
            raise Unavailable("the node does not answer", code="kube-unavailable")

        async def pieces() -> AsyncIterator[bytes]:
            yield b"said\n"

        yield pieces()

    def say(self, kind: str, name: str, **status: Any) -> Document:
        return self._keep(Kind("v1", kind), {**self.objects[kind, name], "status": status})

    def _keep(self, kind: Kind, document: Document) -> Document:
        metadata = document["metadata"]
        version = str(int(metadata.get("resourceVersion", "0")) + 1)
        kept = {**document, "metadata": {"uid": f"{kind.plural}-uid", **metadata, "resourceVersion": version}}
        self.objects[kind.plural, metadata["name"]] = kept
        copied: Document = decode(encode(kept))
        return copied


class Bench:
    """The operator's own parts around it."""

    def __init__(self, *, passing_ms: int = 60_000, spec: Document | None = None) -> None:
        self.api = RememberingApi()
        self.memory = Memory()
        self.queue = WorkQueue[Key]()
        self.wall = Millis(10_000)
        settings = OperatorSettings()
        metrics = OperatorMetrics()
        api: Any = self.api
        actor = Actor(
            api, self.memory, settings.policy(), wall=lambda: self.wall, failpoints=NoFailpoints(), metrics=metrics
        )
        self.reconciler = Reconciler(
            api,
            self.memory,
            self.queue,
            actor,
            Gate(api, self.memory, ""),
            preset_image="",
            patience_ms=Millis(1000),
            wall=lambda: self.wall,
            metrics=metrics,
            passing_ms=passing_ms,
        )
        self.memory.namespaces.put({"metadata": {"name": "lab", "uid": "namespace-uid"}})
        spec = {"image": "x/y:1", "command": ["true"], "resources": {"gpu": 0}, **(spec or {})}
        metadata = {"name": "it", "namespace": "lab", "generation": 1}
        self.memory.jobs.put(
            self.api._keep(Kind("v1", "ephemeralaccelerationjobs"), {"metadata": metadata, "spec": spec})
        )

    async def look(self) -> list[str]:
        """What was written since the last look."""
        before = len(self.api.written)
        await self.reconciler.look(KEY)
        return self.api.written[before:]

    @property
    def status(self) -> Document:
        found: Document = self.api.objects["ephemeralaccelerationjobs", "it"]["status"]
        return found

    async def until_it_runs(self) -> None:
        await self.look()
        self.memory.claims.put(self.api.say("persistentvolumeclaims", "artifacts-it", phase="Bound"))
        await self.look()

    async def relist(self) -> None:
        api: Any = self.api
        await Relister(api, self.memory).relist()

    def annotate(self, key: str, value: str) -> None:
        job = self.api.objects["ephemeralaccelerationjobs", "it"]
        job["metadata"]["annotations"] = {key: value}
        self.memory.jobs.put(self.api._keep(JOBS, job))

    def forge(self, **status: Any) -> None:
        job = self.api.objects["ephemeralaccelerationjobs", "it"]
        self.memory.jobs.put(self.api._keep(JOBS, {**job, "status": {**job.get("status", {}), **status}}))

    def pod(self, phase: str, state: Document) -> None:
        self.memory.pods.put(self.api.say("pods", "it-1", phase=phase, containerStatuses=[{"state": state}]))


class NoFailpoints:
    async def reach(self, name: str) -> None:
        return


async def test_a_job_that_goes_well_is_written_four_times_and_its_pod_is_let_go_when_it_is_noted() -> None:
    bench = Bench()
    assert await bench.look() == ["create persistentvolumeclaims"]
    bench.memory.claims.put(bench.api.say("persistentvolumeclaims", "artifacts-it", phase="Bound"))
    assert await bench.look() == ["status Starting", "create pods", "status Starting", "patch pods"]
    bench.pod("Pending", {"waiting": {"reason": "ContainerCreating"}})
    assert await bench.look() == []
    bench.pod("Running", RUNNING)
    assert await bench.look() == ["status Started", "create events"]
    bench.pod("Succeeded", ENDED)
    assert await bench.look() == ["create configmaps", "status Completed", "create events", "delete pods"]


async def test_a_run_that_is_over_when_it_is_first_heard_of_is_told_as_started_and_ended() -> None:
    bench = Bench()
    await bench.until_it_runs()
    bench.pod("Succeeded", ENDED)
    assert await bench.look() == [
        "create configmaps",
        "status Completed",
        "create events",
        "create events",
        "delete pods",
    ]
    assert {one["reason"] for (kind, _), one in bench.api.objects.items() if kind == "events"} == {
        "Started",
        "Completed",
    }


async def test_what_does_not_pass_is_told_after_all() -> None:
    bench = Bench(passing_ms=0)
    assert await bench.look() == ["status VolumePending", "create persistentvolumeclaims", "status VolumePending"]
    assert bench.status["message"] == "its volume is not bound yet"


async def test_a_job_whose_upload_may_have_been_broken_off_asks_nobody_to_start_it() -> None:
    bench = Bench(passing_ms=0, spec={"suspend": True})
    await bench.until_it_runs()
    assert bench.status["message"] == "it starts when spec.suspend is false"
    known = bench.memory.jobs.get(KEY)
    assert known is not None
    known["metadata"]["annotations"] = {UPLOAD: "awaited"}
    await bench.look()
    assert bench.status["reason"] == "Suspended"
    assert bench.status["message"].startswith("it waits for its upload; if that was broken off, delete it, or upload")


async def test_a_storage_class_that_is_not_there_is_named_and_waited_for() -> None:
    bench = Bench(passing_ms=0, spec={"storageClass": "nosuch"})
    await bench.look()
    assert bench.status["message"] == "its volume is not bound yet: there is no storage class nosuch"
    bench.api._keep(STORAGE_CLASSES, {"metadata": {"name": "nosuch"}, "volumeBindingMode": "Immediate"})
    await bench.look()
    assert bench.status["message"] == "its volume is not bound yet"


async def test_who_may_not_look_at_storage_classes_lets_the_scheduler_wait_for_the_volume() -> None:
    bench = Bench(spec={"storageClass": "hidden"})
    bench.api.refusals["get storageclasses"] = Denied("cannot get resource storageclasses")
    await bench.look()
    assert bench.status["attempt"] == 1


async def test_a_log_that_cannot_be_had_does_not_keep_a_job_from_its_end() -> None:
    bench = Bench()
    await bench.until_it_runs()
    bench.api.has_log = False
    bench.pod("Succeeded", ENDED)
    for _ in range(SEAL_TRIES):
        await bench.look()
        assert bench.status["phase"] == "Pending"
    await bench.look()
    assert (bench.status["phase"], bench.status.get("logName")) == ("Succeeded", None)


async def test_no_log_is_lost_by_what_else_is_refused_however_often() -> None:
    bench = Bench()
    await bench.until_it_runs()
    bench.pod("Succeeded", ENDED)
    bench.memory.claims.drop(bench.api.objects["persistentvolumeclaims", "artifacts-it"])  # so that it is asked for
    for refused in ("get persistentvolumeclaims", "configmaps"):
        bench.api.refusals = {refused: Unavailable("a bad day", code="kube-unavailable")}
        for _ in range(2 * SEAL_TRIES):
            await bench.look()
    bench.api.refusals, bench.api.has_log = {}, False
    await bench.look()
    bench.api.has_log = True
    await bench.look()
    assert (bench.status["phase"], bench.status["logName"]) == ("Succeeded", "it-1-log")


@pytest.mark.parametrize(
    ("references", "kept"),
    [
        ([], "it-1-log-ephemera"),  # left by a job that was deleted without what it owned
        ([owner("it", "before")], "it-1-log-ephemera"),
        ([owner("it", "ephemeralaccelerationjobs-uid")], "it-1-log"),  # kept before a crash
    ],
)
async def test_a_log_is_kept_even_if_another_has_its_name(references: list[Document], kept: str) -> None:
    bench = Bench()
    bench.api._keep(CONFIG_MAPS, {"metadata": {"name": "it-1-log", "uid": "old", "ownerReferences": references}})
    await bench.until_it_runs()
    bench.pod("Succeeded", ENDED)
    await bench.look()
    assert (bench.status["phase"], bench.status["logName"]) == ("Succeeded", kept)
    assert owner_uid(bench.api.objects["configmaps", kept]) == "ephemeralaccelerationjobs-uid"
    assert bench.api.objects["configmaps", "it-1-log"]["metadata"]["uid"] == "old"


async def test_an_end_in_the_future_is_taken_for_now() -> None:
    bench = Bench()
    await bench.until_it_runs()
    late = {"terminated": {**ENDED["terminated"], "finishedAt": "2999-01-01T00:00:00Z"}}
    bench.pod("Succeeded", late)
    await bench.look()
    assert bench.status["finishedAt"] == "1970-01-01T00:00:10.000Z"


async def test_a_gate_that_somebody_else_put_there_stays_and_is_named() -> None:
    bench = Bench()
    await bench.until_it_runs()
    pod = bench.api.objects["pods", "it-1"]
    pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    bench.pod("Pending", {})
    assert await bench.look() == ["status SchedulingGated", "create events"]
    assert bench.status["message"] == "something else holds its pod back: kueue.x-k8s.io/admission"


QUOTA = Denied('"artifacts-it" is forbidden: exceeded quota: none, limited: persistentvolumeclaims=0')


async def test_a_volume_that_the_quota_does_not_grant_is_said_and_asked_for_again() -> None:
    bench = Bench()
    bench.api.refusals["persistentvolumeclaims"] = QUOTA
    assert await bench.look() == ["status QuotaExceeded", "create events"]
    assert (bench.status["phase"], bench.status["message"]) == ("Pending", QUOTA.message)
    assert await bench.look() == []
    assert len(bench.queue) == 1
    del bench.api.refusals["persistentvolumeclaims"]
    assert await bench.look() == ["create persistentvolumeclaims"]
    await bench.until_it_runs()
    assert bench.status["attempt"] == 1


async def test_a_volume_that_can_never_be_had_ends_the_job_in_the_api_servers_words() -> None:
    bench = Bench()
    bench.api.refusals["persistentvolumeclaims"] = Invalid("spec.resources[storage]: must be greater than zero")
    await bench.look()
    assert (bench.status["phase"], bench.status["reason"]) == ("Failed", "VolumeRefused")
    assert bench.status["message"] == "spec.resources[storage]: must be greater than zero"


@pytest.mark.parametrize(
    ("words", "phase"),
    [
        ('pods "it-1" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true', "Failed"),
        ('pods "it-1" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi', "Failed"),
        ('pods "it-1" is forbidden: error looking up service account lab/default: not found', "Pending"),
        ('pods "it-1" is forbidden: status unknown for quota: none, resources: pods', "Pending"),
        ('pods is forbidden: User "operator" cannot create resource "pods"', "Pending"),
    ],
)
async def test_a_pod_is_refused_for_good_only_where_the_pod_itself_is_judged(words: str, phase: str) -> None:
    bench = Bench()
    bench.api.refusals["pods"] = Denied(words)
    await bench.until_it_runs()
    assert (bench.status["phase"], bench.status["reason"], bench.status["message"]) == (phase, "PodRefused", words)


async def test_what_nobody_was_told_of_is_noticed_when_all_is_listed_anew() -> None:
    bench = Bench()
    await bench.look()
    bench.api.say("persistentvolumeclaims", "artifacts-it", phase="Bound")
    assert await bench.look() == []
    await bench.relist()
    await bench.look()
    assert bench.status["attempt"] == 1
    bench.api.say("pods", "it-1", phase="Succeeded", containerStatuses=[{"state": ENDED}])
    await bench.look()
    assert bench.status["phase"] == "Pending"
    await bench.relist()
    await bench.look()
    assert bench.status["phase"] == "Succeeded"


async def test_what_is_gone_untold_is_dropped_and_what_came_after_the_list_is_kept() -> None:
    bench = Bench()
    await bench.until_it_runs()
    del bench.api.objects["pods", "it-1"]
    await bench.relist()
    await bench.look()
    assert (bench.status["phase"], bench.status["reason"]) == ("Failed", "PodDeleted")
    listed = bench.api.list
    bench.api.list = nothing_yet  # type: ignore[method-assign]
    await bench.relist()
    assert bench.memory.jobs.get(KEY) is not None
    bench.api.list = listed  # type: ignore[method-assign]
    del bench.api.objects["ephemeralaccelerationjobs", "it"]
    await bench.relist()
    assert bench.memory.jobs.get(KEY) is None


async def nothing_yet(kind: Kind, namespace: str = "", *, labels: str = "") -> list[Document]:
    return []


async def test_a_volume_that_cannot_be_deleted_keeps_no_other_from_going() -> None:
    bench = Bench()
    for name in ("artifacts-a", "artifacts-b"):
        dated = {"name": name, "namespace": "lab", "annotations": {EXPIRES: "1970-01-01T00:00:01Z"}}
        bench.memory.claims.put(bench.api._keep(CLAIMS, {"metadata": {**dated, "uid": name}}))
    bench.api.refusals["delete artifacts-a"] = Unavailable("too much at once")
    await bench.reconciler.sweep_volumes()
    assert [name for kind, name in bench.api.objects if kind == CLAIMS.plural] == ["artifacts-a"]


async def test_a_date_that_is_none_keeps_its_volume_and_no_other() -> None:
    bench = Bench()
    for name, at in (("artifacts-a", "tomorrow"), ("artifacts-b", "1970-01-01T00:00:01Z")):
        dated = {"name": name, "namespace": "lab", "annotations": {EXPIRES: at}}
        bench.memory.claims.put(bench.api._keep(CLAIMS, {"metadata": {**dated, "uid": name}}))
    await bench.reconciler.sweep_volumes()
    assert [name for kind, name in bench.api.objects if kind == CLAIMS.plural] == ["artifacts-a"]


async def test_a_volume_made_anew_under_the_name_is_not_swept_for_the_one_before_it() -> None:
    bench = Bench()
    dated = {"name": "artifacts-a", "namespace": "lab", "annotations": {EXPIRES: "1970-01-01T00:00:01Z"}}
    bench.memory.claims.put(bench.api._keep(CLAIMS, {"metadata": {**dated, "uid": "judged"}}))
    bench.api._keep(CLAIMS, {"metadata": {**dated, "uid": "anew"}})
    await bench.reconciler.sweep_volumes()
    assert bench.api.objects[CLAIMS.plural, "artifacts-a"]["metadata"]["uid"] == "anew"


DEBUG = {JOB_LABEL: "it", PART_LABEL: "debug"}
BESIDE: dict[str, tuple[Document, str, bool]] = {
    "one that has ended": ({"labels": DEBUG}, "Failed", True),
    "one that lives": ({"labels": DEBUG}, "Running", False),
    "a run's": ({"labels": {**DEBUG, PART_LABEL: "run"}}, "Failed", False),
    "one that a job owns": ({"labels": DEBUG, "ownerReferences": [owner("it", "u")]}, "Failed", False),
    "one of a server's": ({"labels": {**DEBUG, INSTALLATION_LABEL: "here"}}, "Failed", False),
    "one without our labels": ({"labels": {PART_LABEL: "debug"}}, "Failed", False),
    "one that goes already": ({"labels": DEBUG, "deletionTimestamp": "1970-01-01T00:00:03Z"}, "Failed", False),
}


@pytest.mark.parametrize(("marked", "phase", "is_swept"), BESIDE.values(), ids=BESIDE.keys())
async def test_a_pod_beside_a_volume_that_nobody_removed_goes_minutes_after_its_end(
    marked: Document, phase: str, is_swept: bool
) -> None:
    bench = Bench()
    status = {"phase": phase, "containerStatuses": [{"state": ENDED}]}
    metadata = {"name": "it-debug", "namespace": "lab", "uid": "u", "creationTimestamp": "1970-01-01T00:00:01Z"}
    bench.memory.pods.put(bench.api._keep(PODS, {"metadata": {**metadata, **marked}, "status": status}))
    bench.wall = Millis(2_000 + LEFT_MS - 1)
    await bench.reconciler.sweep_pods()
    assert ("pods", "it-debug") in bench.api.objects
    bench.wall = Millis(2_000 + LEFT_MS)
    await bench.reconciler.sweep_pods()
    assert (("pods", "it-debug") not in bench.api.objects) is is_swept


async def test_patience_with_an_image_begins_when_the_pod_has_its_node() -> None:
    bench = Bench()
    await bench.until_it_runs()
    bench.api.objects["pods", "it-1"]["metadata"]["creationTimestamp"] = "1970-01-01T00:00:01Z"
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:10Z"}
    missing = {"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
    bench.memory.pods.put(
        bench.api.say("pods", "it-1", phase="Pending", conditions=[placed], containerStatuses=[missing])
    )
    await bench.look()
    assert (bench.status["phase"], bench.status["reason"]) == ("Pending", "ImagePull")
    bench.wall = Millis(11_000)
    await bench.look()
    assert (bench.status["phase"], bench.status["reason"]) == ("Failed", "ImagePull")


async def test_a_pod_that_its_node_has_put_off_is_nudged_once() -> None:
    bench = Bench()
    await bench.until_it_runs()
    bench.pod("Pending", {"waiting": {"reason": "ContainerCreating"}})
    bench.memory.put_off("pods-uid")
    assert await bench.look() == ["patch pods"]
    assert NUDGE in bench.api.objects["pods", "it-1"]["metadata"]["annotations"]
    assert await bench.look() == []


async def test_a_run_whose_pod_is_deleted_is_run_again_even_if_it_gives_in_quietly() -> None:
    bench = Bench(spec={"retries": 1})
    await bench.until_it_runs()
    bench.pod("Running", RUNNING)
    await bench.look()
    going = {"deletionTimestamp": "1970-01-01T00:00:31Z", "deletionGracePeriodSeconds": 30}
    bench.api.objects["pods", "it-1"]["metadata"] |= going
    bench.pod("Succeeded", ENDED)
    await bench.look()
    assert (bench.status["phase"], bench.status["reason"]) == ("Pending", "PodDeleted")
    bench.wall = Millis(20_000)
    await bench.look()
    assert bench.status["attempt"] == 2


async def test_a_job_made_again_waits_for_the_volume_of_the_one_before_it_and_then_makes_its_own() -> None:
    bench = Bench(passing_ms=0)
    before = {"name": "artifacts-it", "namespace": "lab", "labels": {JOB_LABEL: "it"}, "uid": "old"}
    left = bench.api._keep(CLAIMS, {"metadata": {**before, "ownerReferences": [owner("it", "before")]}})
    bench.memory.claims.put(left)
    await bench.look()
    assert (bench.status["phase"], bench.status["reason"]) == ("Pending", "VolumePending")
    assert bench.status["message"].startswith("a volume of its name, which is not its own, is being deleted")
    assert len(bench.queue) == 1
    del bench.api.objects["persistentvolumeclaims", "artifacts-it"]
    bench.memory.claims.drop(left)
    assert "create persistentvolumeclaims" in await bench.look()
    await bench.until_it_runs()
    assert bench.status["attempt"] == 1


@pytest.mark.parametrize(
    "forged",
    [
        {"phase": "Succeeded", "reason": "Forged"},
        {"phase": "Failed", "finishedAt": "0000-01-01T00:00:00Z"},
        {"phase": "Failed", "finishedAt": "9999-12-31T23:59:59.999999Z"},
        {"phase": "Failed", "startedAt": "yesterday"},
    ],
)
async def test_an_end_that_somebody_wrote_by_hand_ends_the_pod_and_is_given_its_time(forged: Document) -> None:
    bench = Bench()
    await bench.until_it_runs()
    bench.pod("Running", RUNNING)
    await bench.look()
    bench.forge(**forged)
    assert "delete pods" in await bench.look()
    assert (bench.status["phase"], bench.status["finishedAt"]) == (forged["phase"], "1970-01-01T00:00:10.000Z")


async def test_a_number_of_runs_that_somebody_wrote_by_hand_is_none_below_none() -> None:
    bench = Bench()
    bench.forge(attempt=-3)
    await bench.until_it_runs()
    assert bench.status["attempt"] == 1


@pytest.mark.parametrize(
    ("value", "reason"), [("true", "Cancelled"), ("True", "Cancelled"), ("false", "Started"), ("", "Started")]
)
async def test_only_a_yes_cancels(value: str, reason: str) -> None:
    bench = Bench()
    await bench.until_it_runs()
    bench.pod("Running", RUNNING)
    bench.annotate(CANCEL, value)
    await bench.look()
    assert bench.status["reason"] == reason


async def test_a_pod_that_runs_is_not_nudged() -> None:
    bench = Bench()
    await bench.until_it_runs()
    bench.pod("Running", RUNNING)
    bench.memory.put_off("pods-uid")
    assert await bench.look() == ["status Started", "create events"]
