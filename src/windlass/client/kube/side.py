"""Short-lived pods beside a job, with its volume: they take an upload in, fetch a URL, hand artifacts out, or hold a shell.

Nothing is ever given to a shell: commands are words, and bytes go by stdin and stdout. What arrived is verified by its digest
before it counts. The image needs `tee`, `test`, `ls`, `sha256sum`, `tar`, `wget` and `sleep`; busybox has them.
"""

import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import IO, Final

from windlass.client.kube.api import CLAIMS, JOBS, PODS
from windlass.client.kube.door import Done, KubeDoor
from windlass.client.pack import Project, SingleFile
from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable, WindlassError
from windlass.ports.fetcher import FetchFailed
from windlass.wire.kube.names import JOB_LABEL, Document, owner_uid
from windlass.wire.kube.observe import is_beside
from windlass.wire.kube.pod import PodPolicy, side_pod
from windlass.wire.names import ARTIFACTS

IMAGE: Final = "busybox:1.37"
READY_SECONDS: Final = 300.0
LOOK_SECONDS: Final = 0.2
LIFE_SECONDS: Final = 3600
"""A pod that its command line forgot ends by itself."""
HOPELESS: Final = frozenset({"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"})

_SHELLS_OWN: Final = 126
"""From here on an exit code tells of a program that could not be run, or was killed."""


class SidePods:
    def __init__(self, door: KubeDoor, namespace: str, image: str = IMAGE) -> None:
        self._door = door
        self._namespace = namespace
        self._image = image

    @contextmanager
    def open(
        self, job: str, part: str, *, image: str = "", name: str = "", mount: str = ARTIFACTS, keep: bool = False
    ) -> Iterator[str]:
        """The name of a running pod; it is gone afterwards, unless it is to be kept."""
        pod = name or f"{job[:40]}-{part}-{secrets.token_hex(3)}"
        document = side_pod(
            pod,
            job,
            part,
            image or self._image,
            ["sleep", str(LIFE_SECONDS)],
            self._policy(job),
            mount=mount,
            seconds=LIFE_SECONDS,
        )
        apart, making = ThreadPoolExecutor(1), None
        try:
            # Apart, so that a signal breaks off the waiting and not the call: whether there is a pod is known all the same.
            making = apart.submit(self._door.create, PODS, document, self._namespace)
            making.result()
            self._until_running(pod)
            yield pod
        finally:
            apart.shutdown(wait=False)
            if making is not None and not keep:
                self._remove(pod, making)

    def put(self, job: str, body: Project | SingleFile, path: str, digest: str) -> None:
        """Verified as it arrived, then unpacked or moved to its place; before that nothing has its name."""
        target = f"{ARTIFACTS}/{path}".rstrip("/")
        with self.open(job, "upload") as pod, self._arriving(pod) as temporary:
            if not isinstance(body, Project):
                self._check_free(pod, target)
            self._door.store(pod, self._namespace, temporary, body.chunks())
            self._check(pod, temporary, digest)
            if isinstance(body, Project):
                self._do(pod, ["mkdir", "-p", target])
                self._do(pod, ["tar", "-xf", temporary, "-C", target])
            else:
                self._do(pod, ["mkdir", "-p", target.rpartition("/")[0]])
                self._do(pod, ["mv", temporary, target])

    def fetch(self, job: str, url: str, target: str, *, made: Document | None = None) -> tuple[int, str]:
        """Download a URL into the volume; its size and digest. `made` is the claim, where it was made for this: with nothing in
        it, it goes again."""
        own, is_empty = "", False
        try:
            with self.open(job, "copy") as own:
                try:
                    return self._fetched(own, url, target)
                except BaseException:
                    is_empty = made is not None and self._is_empty(own)
                    raise
        except BaseException:
            if made is not None:
                self._take_back(job, made, own, is_empty=is_empty)
            raise

    @contextmanager
    def take(self, job: str, path: str, *, is_archive: bool) -> Iterator[IO[bytes]]:
        """The artifacts as a tar, or one file. Whole before anything is given on: a broken way is never a short file."""
        parent, _, base = f"{ARTIFACTS}/{path}".rstrip("/").rpartition("/")
        where, what = (parent, base) if path.strip("/") else (ARTIFACTS, ".")
        command = ["tar", "-cf", "-", "-C", where, "--", what] if is_archive else ["cat", "--", f"{where}/{what}"]
        with tempfile.TemporaryFile() as spool:
            with self.open(job, "download") as pod:
                with self._door.terminal(pod, self._namespace, command, has_input=False) as terminal:
                    said = bytearray()
                    for piece in terminal.output():
                        said.extend(piece.data) if piece.is_stderr else spool.write(piece.data)
                if terminal.exit_code:
                    raise NotFound(
                        f"{job}:{where}/{what}: {said.decode(errors='replace').strip()}", code="path-not-found"
                    )
            spool.seek(0)
            yield spool

    def clear(self, job: str) -> None:
        """End those of clients that were killed: each would hold the job's volume for an hour more."""
        with suppress(WindlassError):  # who may not end them leaves them to their hour
            for pod in self._door.list(PODS, self._namespace, labels=f"{JOB_LABEL}={job}")[0]:
                if is_beside(pod):
                    metadata = pod["metadata"]
                    self._door.delete(PODS, metadata["name"], self._namespace, uid=metadata["uid"], grace=0)

    def _fetched(self, pod: str, url: str, target: str) -> tuple[int, str]:
        with self._arriving(pod) as temporary:
            self._check_free(pod, target)
            self._fetch(pod, url, temporary)
            size = int(self._do(pod, ["stat", "-c", "%s", temporary]).stdout)
            digest = self._do(pod, ["sha256sum", temporary]).stdout.split()[0].decode()
            self._do(pod, ["mkdir", "-p", target.rpartition("/")[0]])
            self._do(pod, ["mv", temporary, target])
        return size, digest

    def _is_empty(self, pod: str) -> bool:
        with suppress(WindlassError):  # the pod is lost: what broke before is to be told
            return set(self._do(pod, ["ls", "-A", ARTIFACTS]).stdout.split()) <= {b"lost+found"}
        return False

    def _take_back(self, job: str, made: Document, own: str, *, is_empty: bool) -> None:
        """Only while it is nobody's and nobody else is at it; and only if it holds nothing, as one does that has no place yet."""
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        with suppress(WindlassError):  # then it goes by its date
            found = self._door.get(CLAIMS, name, self._namespace) or {}
            if found.get("metadata", {}).get("uid") != uid or owner_uid(found):
                return
            pods, _ = self._door.list(PODS, self._namespace, labels=f"{JOB_LABEL}={job}")
            is_used = any(pod["metadata"]["name"] != own for pod in pods)
            if is_used or not (is_empty or found.get("status", {}).get("phase") == "Pending"):
                return
            version = found["metadata"]["resourceVersion"]  # or a job could adopt it between the look and the deletion
            self._door.delete(CLAIMS, name, self._namespace, uid=uid, version=version)

    def _remove(self, pod: str, making: "Future[Document]") -> None:
        """Once more when a signal comes meanwhile, which is heard then."""
        try:
            self._delete(pod, making)
        except (KeyboardInterrupt, SystemExit):
            self._delete(pod, making)
            raise

    def _delete(self, pod: str, making: "Future[Document]") -> None:
        """By a door of its own: that of a call which was broken off may be of no more use."""
        try:
            uid = making.result()["metadata"]["uid"]
        except WindlassError:
            return  # there is none
        with closing(self._door.another()) as door:
            door.delete(PODS, pod, self._namespace, uid=uid, grace=0)

    def _policy(self, job: str) -> PodPolicy:
        """Beside the job, where its own pod may go: a volume that is bound by its first pod is bound to that pod's node."""
        found = self._door.get(JOBS, job, self._namespace) or {}
        return PodPolicy(node_selector=tuple(found.get("spec", {}).get("nodeSelector", {}).items()))

    @contextmanager
    def _arriving(self, pod: str) -> Iterator[str]:
        """A name in the volume for what has not arrived whole; nothing has it afterwards, however it went."""
        temporary = f"{ARTIFACTS}/.windlass-{secrets.token_hex(8)}"
        try:
            yield temporary
        finally:
            with suppress(WindlassError):  # the pod is lost: what broke before is to be told
                self._do(pod, ["rm", "-f", temporary])

    def _check_free(self, pod: str, target: str) -> None:
        """For a file: `mv` would put it into a directory of that name, under the name it arrived by."""
        done = self._door.run(pod, self._namespace, ["test", "-d", target])
        if done.exit_code > 1:
            raise Unavailable(f"test in pod {pod} ended with {done.exit_code}: {_said(done)}", code="side-pod")
        if not done.exit_code:
            words = f"{target} is a directory in the volume"
            raise Invalid(words, code="not-a-file", hint=f"name the file in it: {target}/NAME")

    def _check(self, pod: str, path: str, digest: str) -> None:
        arrived = self._do(pod, ["sha256sum", path]).stdout.split()[0].decode()
        if arrived != digest:
            raise Conflict("something else arrived than was sent", code="digest-mismatch", hint="try again")

    def _fetch(self, pod: str, url: str, path: str) -> None:
        """What the address says no to, it says no to again: as the server's own fetching has it."""
        done = self._door.run(pod, self._namespace, ["wget", "-q", "-O", path, "--", url])
        if done.exit_code >= _SHELLS_OWN:
            raise Unavailable(f"wget in pod {pod} ended with {done.exit_code}: {_said(done)}", code="side-pod")
        if done.exit_code:
            said = _said(done).removeprefix("wget: ")
            is_status = "server returned error" in said
            raise FetchFailed(
                f"the address did not give the file: {said}", code="fetch-status" if is_status else "fetch-failed"
            )

    def _do(self, pod: str, command: Sequence[str]) -> Done:
        done = self._door.run(pod, self._namespace, command)
        if done.exit_code:
            raise Unavailable(f"{command[0]} in pod {pod} ended with {done.exit_code}: {_said(done)}", code="side-pod")
        return done

    def _until_running(self, pod: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        found: Document = {}
        while time.monotonic() < deadline:
            found = self._door.get(PODS, pod, self._namespace) or {}
            if found.get("status", {}).get("phase") == "Running":
                return
            if found.get("status", {}).get("phase") == "Failed" or _is_hopeless(found):
                break
            time.sleep(LOOK_SECONDS)
        raise Unavailable(
            f"pod {pod} did not start: {_why(found)}", code="side-pod", hint="kubectl describe pod says more"
        )


def _said(done: Done) -> str:
    return done.stderr.decode(errors="replace").strip()


def _is_hopeless(pod: Document) -> bool:
    """Tried, failed, and told so: nobody at a terminal waits five minutes for an image that is not there."""
    return any(one.get("reason") in HOPELESS for one in _waiting(pod))


def _waiting(pod: Document) -> list[Document]:
    return [one.get("state", {}).get("waiting", {}) for one in pod.get("status", {}).get("containerStatuses", [])]


def _why(pod: Document) -> str:
    status, waiting = pod.get("status", {}), _waiting(pod)
    conditions = [one for one in status.get("conditions", []) if one.get("status") == "False" and one.get("message")]
    words: list[str] = [one.get("message") or one.get("reason", "") for one in (*waiting, *conditions)]
    return next((text for text in words if text), str(status.get("message", "no reason given")))
