"""The Kubernetes home for the command line: the client's verbs, spoken to the API server and to short-lived pods.

Jobs are the custom resources that the operator drives, so that what `egpu` does and what `kubectl` does is the same.
"""

import os
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Final, Literal, NoReturn, cast

from lightkube.config.kubeconfig import SingleConfig

from windlass.client.client import Applied, Client
from windlass.client.connection import Connection
from windlass.client.documents import (
    Cleanup,
    CleanupItem,
    CopiedFile,
    Document,
    Happening,
    LogLine,
    Manifest,
    Page,
    Upload,
)
from windlass.client.kube.api import CLAIMS, EVENTS, JOBS
from windlass.client.kube.door import KubeDoor
from windlass.client.kube.lines import OVER, KubeLog
from windlass.client.kube.side import SidePods
from windlass.client.kube.unseen import is_overlooked, is_unseen, what_to_check
from windlass.client.transport import Transport
from windlass.core.errors import Conflict, Denied, Fault, Invalid, NotFound, WindlassError
from windlass.core.model.job import JobSpec
from windlass.core.model.submission import Submission
from windlass.wire.faults import show
from windlass.wire.job import read_manifest
from windlass.wire.kube.kinds import NAMESPACES
from windlass.wire.kube.names import CANCEL, EXPIRES, JOB_LABEL, KIND, UPLOAD, owner_uid, volume_name
from windlass.wire.kube.status import read_time
from windlass.wire.kube.volume import claim
from windlass.wire.names import (
    ARTIFACTS,
    DNS_LABEL_EXPECTED,
    is_dns_label,
    read_artifact_file,
    read_artifact_path,
)
from windlass.wire.render import timestamp
from windlass.wire.urls import read_url

if TYPE_CHECKING:
    from windlass.client.pack import Project, SingleFile
    from windlass.client.streams import Followed

VOLUME_TTL_SECONDS: Final = 3600
_STATES: Final = {"Pending": "PENDING", "Running": "RUNNING", "Succeeded": "SUCCEEDED", "Failed": "FAILED"}
_ENDS: Final = {"DeadlineExceeded": "TIMED_OUT", "Cancelled": "CANCELLED"}


class KubeClient(Client):
    """As `Client`, for the verbs that make sense on a cluster; the others say that they do not."""

    def __init__(
        self, config: SingleConfig, *, namespace: str | None = None, side_image: str = "", way: Sequence[str] = ()
    ) -> None:
        """`way` are the options that led to the cluster, but for the namespace: what is told to be typed has them."""
        super().__init__(Connection(url=str(config.cluster.server)), transport=cast(Transport, _NoServer()))
        self._config = config
        self.namespace = _namespace(namespace or config.namespace or "default")
        self._side_image = side_image
        self._way = tuple(way)
        self._door = KubeDoor(config)
        self._names: dict[str, str] = {}

    def another(self) -> "KubeClient":
        other = KubeClient(self._config, namespace=self.namespace, side_image=self._side_image, way=self._way)
        other._names.update(self._names)
        return other

    def close(self) -> None:
        self._door.close()

    def check_log_options(self, *, stream: str | None, has_times: bool) -> None:
        if stream is not None:
            raise Invalid("Kubernetes does not tell stdout from stderr: --stream is not for a cluster", code="home")
        if has_times:
            words = "a log that is kept on a cluster has no times: --timestamps is not for one"
            hint = "`kubectl logs --timestamps` shows them as long as the pod is there"
            raise Invalid(words, code="home", hint=hint)

    def command(self, words: str, *, program: str = "windlass") -> str:
        return f"{shlex.join((program, *self._way, '-n', self.namespace))} {words}"

    def first_command(self) -> str:
        return self.command("create NAME --project-dir DIR", program="egpu")

    # jobs

    def create(self, manifest: Document, *, key: str | None = None) -> Manifest:
        """The job, and its volume if that is not there: an upload must have a place before the operator has looked."""
        if manifest.get("kind") != KIND:
            raise Invalid(f"on Kubernetes a job is of kind {KIND}", code="home")
        made = self._door.create(JOBS, _sendable(manifest), self.namespace)
        try:
            self._make_volume(made)
        except WindlassError:
            metadata = made["metadata"]
            with suppress(WindlassError):  # what was refused is to be told, not this
                self._door.delete(JOBS, metadata["name"], self.namespace, uid=metadata["uid"])
            raise
        return self._shown(made)

    def create_for_upload(self, manifest: Document) -> Manifest:
        """Marked as such: whoever finds it after this client was killed should not start it without its files."""
        annotations = {**manifest["metadata"].get("annotations", {}), UPLOAD: "awaited"}
        return super().create_for_upload({**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}})

    def apply(self, manifest: Document) -> tuple[Manifest, Applied]:
        try:
            return self.create(manifest), "created"
        except Conflict as exc:
            if exc.code != "kube-exists":
                raise
        found = self.job(str(manifest["metadata"]["name"]))
        asked = {"suspend": found["spec"].get("suspend", False), **manifest.get("spec", {})}
        if _read(asked) != _read(found["spec"]):  # as read: `1Gi` is `1024Mi`, and what is left out is its default
            words = f"job {found['metadata'].get('name')} is there already, with another spec"
            raise Conflict(words, code="spec-immutable", hint="delete it first, or choose another name")
        return found, "unchanged"

    def job(self, ref: str) -> Manifest:
        return self._shown(self._found(ref))

    def unseen(self, ref: str) -> str:
        job = self._found(ref)
        return what_to_check(job, self.namespace, self._way) if is_unseen(job) else ""

    def page(self, **query: Any) -> Page:
        items, version = self._door.list(JOBS, self.namespace)
        if not items:
            self._check_namespace()
        wanted = query.get("name") or ""
        shown = [self._shown(item) for item in items if wanted in item["metadata"]["name"]]
        shown.sort(key=lambda job: job["metadata"].get("creationTimestamp", ""), reverse=True)
        return {"items": shown, "next": None, "revision": int(version) if version.isdecimal() else 0}

    def cancel(self, ref: str) -> Manifest:
        name = self._alive(ref)["metadata"]["name"]
        return self._shown(
            self._door.merge(JOBS, name, {"metadata": {"annotations": {CANCEL: "true"}}}, self.namespace)
        )

    def release(self, ref: str) -> Manifest:
        name = self._alive(ref)["metadata"]["name"]
        change = {"metadata": {"annotations": {UPLOAD: None}}, "spec": {"suspend": False}}
        return self._shown(self._door.merge(JOBS, name, change, self.namespace))

    def delete(self, ref: str, *, volume: bool = False) -> None:
        """Without its volume, that first becomes nobody's and is dated; else it goes with the job that owns it."""
        job = self._found(ref)
        metadata = job["metadata"]
        if not volume:
            self._orphan_volume(job)
        self._door.delete(JOBS, metadata["name"], self.namespace, uid=metadata["uid"])
        if volume:
            self._side().clear(metadata["name"])

    # what happens to them

    def logs(
        self,
        ref: str,
        *,
        follow: bool = False,
        attempt: int | None = None,
        stream: str | None = None,
        tail: int | None = None,
        after: str = "",
    ) -> "Followed[LogLine]":
        job = self._found(ref)
        log = KubeLog(self._door.another(), job, follow=follow, attempt=attempt, tail=tail, from_first=bool(after))
        return cast("Followed[LogLine]", log)

    def happenings(self, ref: str) -> list[Happening]:
        uid = self._found(ref)["metadata"]["uid"]
        events, _ = self._door.list(EVENTS, self.namespace)
        ours = [one for one in events if one.get("involvedObject", {}).get("uid") == uid]
        ours.sort(key=lambda one: one.get("lastTimestamp") or "")
        return [
            {
                "at": one.get("lastTimestamp") or "",
                "kind": one["reason"],
                "reason": "",
                "message": one.get("message", ""),
            }
            for one in ours
        ]

    def follow_happenings(self, ref: str) -> "Followed[Happening]":
        return cast("Followed[Happening]", _Changes(self, self._found(ref)["metadata"]["name"]))

    def changes(self, *, after: int | None = None) -> Iterator[Manifest | None]:
        while True:
            for event in self._door.watch(JOBS, self.namespace, after=str(after or 0)):
                yield self._shown(event["object"])
            yield None
            after = self.page()["revision"]

    def changes_of(self, name: str, after: int) -> Iterator[Manifest]:
        """Of one job, until the connection is ended; without a version, from how it is now."""
        for event in self._door.watch(JOBS, self.namespace, after=str(after), name=name):
            yield self._shown(event["object"])

    # files

    def upload(self, ref: str, body: "Project | SingleFile", *, path: str = "", digest: str) -> Upload:
        job = self._found(ref)
        if not job["spec"].get("suspend"):
            raise Conflict(
                "files go in before the job starts", code="not-suspended", hint="create it with suspend: true"
            )
        self._side().put(job["metadata"]["name"], body, read_artifact_path(path), digest)
        return {"digest": f"sha256:{digest}", "size": body.length, "entries": len(getattr(body, "entries", "1"))}

    @contextmanager
    def download(self, ref: str, path: str = "", *, form: Literal["tar", "file"] = "tar") -> Iterator[Any]:
        name = self._volume_of(ref)
        with self._side().take(name, _inside(path), is_archive=form == "tar") as spool:
            yield _Whole(spool)

    def copy_file(self, job: str, url: str, target_path: str) -> CopiedFile:
        """Into the volume of a job that need not be there yet: then it is dated, and goes if no job comes, or no file."""
        _check_url(url)
        if not is_dns_label(job):
            raise Invalid(f"no job can be called {show(job)}: {DNS_LABEL_EXPECTED}", code="kube-name")
        target = f"{ARTIFACTS}/{_target(target_path)}"
        made = None
        if self._door.get(CLAIMS, volume_name(job), self.namespace) is None:
            expires = timestamp(self._door.now() + VOLUME_TTL_SECONDS)
            made = self._door.create(CLAIMS, claim(job, _spec({}), expires_at=expires), self.namespace)
        size, digest = self._side().fetch(job, url, target, made=made)
        return {"volume": volume_name(job), "path": target, "size": size, "digest": f"sha256:{digest}"}

    def cleanup(self) -> Cleanup:
        """What the operator does by itself, now, and told."""
        jobs = {item["metadata"]["uid"]: item for item in self._door.list(JOBS, self.namespace)[0]}
        items: list[CleanupItem] = []
        now = self._door.now()
        for volume in self._door.list(CLAIMS, self.namespace, labels=JOB_LABEL)[0]:
            metadata = volume["metadata"]
            due, why = _due(volume, jobs.get(owner_uid(volume)))
            is_due = due is not None and due <= now
            if is_due:
                self._door.delete(CLAIMS, metadata["name"], self.namespace, uid=metadata["uid"])
            items.append({"name": metadata["name"], "action": "deleted" if is_due else "skipped", "why": why})
        if not items:
            self._check_namespace()
        deleted = sum(item["action"] == "deleted" for item in items)
        return {"deleted": deleted, "skipped": len(items) - deleted, "items": items}

    # terminals

    @contextmanager
    def debug(
        self, ref: str, *, image: str | None, keep: bool, name: str | None, command: Iterable[str]
    ) -> Iterator[Any]:
        job = self._volume_of(ref)
        with self._side().open(job, "debug", image=image or "", name=name or "", mount="/mnt", keep=keep) as pod:
            with self._door.terminal(pod, self.namespace, command, has_input=True, tty=os.isatty(0)) as terminal:
                yield terminal

    @contextmanager
    def execute(self, ref: str, command: Iterable[str], *, tty: bool) -> Iterator[Any]:
        status = self._found(ref).get("status", {})
        if status.get("phase") != "Running":
            raise Conflict("the job does not run", code="not-running")
        with self._door.terminal(status["podName"], self.namespace, command, has_input=True, tty=tty) as terminal:
            yield terminal

    def attach(self, ref: str) -> NoReturn:
        raise Invalid("on Kubernetes use `kubectl attach`", code="home")

    def _side(self) -> SidePods:
        return SidePods(self._door, self.namespace, *([self._side_image] if self._side_image else []))

    def _check_namespace(self) -> None:
        """An API server lists nothing in one that is not there, as in one that is empty. Who may not look takes it so."""
        with suppress(Denied):
            if self._door.get(NAMESPACES, self.namespace, "") is None:
                words = f"there is no namespace {self.namespace} in the cluster"
                raise NotFound(words, code="namespace-not-found", hint="-n names another")

    def _found(self, ref: str) -> Document:
        """By name; or by the UID of one met before, and then only that one."""
        name = self._names.get(ref, ref)
        found = self._door.get(JOBS, name, self.namespace) if is_dns_label(name) else None
        if found is None or (ref in self._names and found["metadata"]["uid"] != ref):
            words, listed = (
                f"there is no job {name} in namespace {self.namespace}",
                self.command("list", program="egpu"),
            )
            raise NotFound(words, hint=f"`{listed}` shows them; -n names another")
        self._names[found["metadata"]["uid"]] = name
        return found

    def _alive(self, ref: str) -> Document:
        found = self._found(ref)
        status = self._shown(found)["status"]
        if status.get("phase") in OVER:
            words = f"job {found['metadata']['name']} is over: {status.get('state')}"
            raise Conflict(words, code="already-over")
        return found

    def _volume_of(self, ref: str) -> str:
        """The job's name, when its volume is there: also after the job is gone."""
        name = self._names.get(ref, ref)
        volume, can_be = volume_name(name), is_dns_label(name)
        if can_be and self._door.get(CLAIMS, volume, self.namespace) is not None:
            return name
        job = self._door.get(JOBS, name, self.namespace) if can_be else None
        if job is None:
            words = f"there is neither a job {name} nor a volume of one in namespace {self.namespace}"
            listed = self.command("list", program="egpu")
            raise NotFound(words, hint=f"`{listed}` shows jobs; -n names another namespace")
        is_over = job.get("status", {}).get("phase") in OVER
        hint = "its time-to-live has passed" if is_over else "the operator makes it before the job starts"
        raise NotFound(f"there is no volume {volume}", code="volume-not-found", hint=hint)

    def _make_volume(self, job: Document) -> None:
        metadata = job["metadata"]
        try:
            document = claim(metadata["name"], _spec(job["spec"]), uid=metadata["uid"])
            self._door.create(CLAIMS, document, self.namespace)
        except Conflict:
            return  # there already: the operator judges whose it is
        except Invalid:
            return  # not to be had as asked for: the operator ends the job and says why

    def _orphan_volume(self, job: Document) -> None:
        metadata = job["metadata"]
        volume = self._door.get(CLAIMS, volume_name(metadata["name"]), self.namespace)
        if volume is None or owner_uid(volume) != metadata["uid"]:
            return
        ended = read_time(job.get("status", {}).get("finishedAt"))
        since = ended / 1000 if ended else self._door.now()
        expires = timestamp(since + job["spec"].get("pvcTTLSecondsAfterFinished", VOLUME_TTL_SECONDS))
        change = {"uid": volume["metadata"]["uid"], "ownerReferences": None, "annotations": {EXPIRES: expires}}
        self._door.merge(CLAIMS, volume["metadata"]["name"], {"metadata": change}, self.namespace)

    def _shown(self, job: Document) -> Manifest:
        """With the state that every surface shows beside the phase, and why it waits where nobody else can say."""
        status = dict(job.get("status", {}))
        if is_overlooked(job, time.time()):
            status["waiting"] = [what_to_check(job, self.namespace, self._way)]
        phase, reason = status.setdefault("phase", "Pending"), status.get("reason", "")
        status["state"] = _ENDS.get(reason, "FAILED") if phase == "Failed" else _STATES[phase]
        self._names[job["metadata"]["uid"]] = job["metadata"]["name"]
        return cast(Manifest, {**job, "status": status})


class _NoServer:
    """In the place of the way to a server: a verb that only a server has says so."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Invalid(
            "there is no Windlass server on this home, only a cluster",
            code="home",
            hint="leave out --kubeconfig, --context, -n and WINDLASS_HOME",
        )


class _Whole:
    """A download that is all here already."""

    def __init__(self, spool: IO[bytes]) -> None:
        self._spool = spool
        spool.seek(0, 2)
        self.length: int | None = spool.tell()
        spool.seek(0)

    def read(self, size: int = 1 << 18, /) -> bytes:
        return self._spool.read(size)


class _Changes:
    """Each new reason in a job's status as a happening, until it is over."""

    def __init__(self, client: KubeClient, name: str) -> None:
        self._client = client
        self._name = name

    def __iter__(self) -> Iterator[Happening]:
        told, after = ("", ""), 0
        while True:
            job = self._client.job(self._name)
            for change in chain([job], self._client.changes_of(self._name, after)):
                status = change["status"]
                words = (status.get("phase", ""), status.get("reason") or "")
                if words != told:
                    told = words
                    yield {
                        "at": timestamp(time.time()),
                        "kind": words[0],
                        "reason": words[1],
                        "message": status.get("message") or "",
                    }
                if status.get("state") in ("SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED"):
                    return
            after = self._client.page()["revision"]

    def close(self) -> None:
        self._client.close()


def _sendable(manifest: Document) -> Document:
    """A quantity is a whole number or text to an API server: `0.05` goes as the text that it was."""
    spec = manifest.get("spec")
    if not isinstance(spec, dict):
        return manifest
    sent = {key: _as_text(value) if key == "pvcSize" else value for key, value in spec.items()}
    if isinstance(needs := spec.get("resources"), dict):
        sent["resources"] = {key: _as_text(value) for key, value in needs.items()}
    return {**manifest, "spec": sent}


def _as_text(value: Any) -> Any:
    return format(value, "f") if isinstance(value, Decimal) else value


def _spec(spec: Document) -> JobSpec:
    """Only what a claim needs of it; whether it can run is the operator's to say."""
    return _read({key: spec[key] for key in ("pvcSize", "storageClass") if key in spec}).spec


def _read(spec: Document) -> Submission:
    document = {"apiVersion": "windlass.dev/v1", "kind": KIND, "metadata": {"name": "x"}, "spec": spec}
    return read_manifest(document, runtime="container", preset_image="preset")


def _namespace(text: str) -> str:
    if not is_dns_label(text):
        words = f"no namespace can be called {show(text)}: {DNS_LABEL_EXPECTED}"
        raise Invalid(words, code="kube-name", hint="-n names it, or the kubeconfig's context")
    return text


def _check_url(url: str) -> None:
    try:
        read_url(url)
    except ValueError as exc:
        raise Invalid(f"{url[:100]!r}: {exc}", code="url") from exc


def _inside(path: str) -> str:
    try:
        return read_artifact_path(path)
    except ValueError as exc:
        raise Invalid(f"{path}: {exc}", code="path-outside") from exc


def _target(path: str) -> str:
    """Refused in the server's words."""
    try:
        return read_artifact_file(path)
    except ValueError as exc:
        raise Invalid("the target cannot be meant", faults=[Fault("targetPath", str(exc))]) from None


def _due(volume: Document, job: Document | None) -> tuple[float | None, str]:
    """When it goes, in seconds since the epoch, and why so."""
    if job is None:
        at = read_time(volume["metadata"].get("annotations", {}).get(EXPIRES))
        words = "nobody's since its job went or never came"
        return (at / 1000, f"{words}; it goes at {_moment(at / 1000)}") if at else (None, f"{words}, and not dated")
    ended = read_time(job.get("status", {}).get("finishedAt"))
    if ended is None:
        return None, f"its job is {job.get('status', {}).get('phase', 'Pending')}"
    due = ended / 1000 + job["spec"].get("pvcTTLSecondsAfterFinished", VOLUME_TTL_SECONDS)
    return due, f"its time-to-live ends at {_moment(due)}"


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"
