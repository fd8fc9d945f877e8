"""A namespace for one test, and the words to speak about what happens in it.

By the API itself and not by kubectl, which costs a process and a discovery each time; who is about kubectl calls it.
"""

import base64
import gzip
import json
import subprocess
from collections.abc import Callable
from typing import Any, Final, Self

from tests.parts import busybox
from tests.parts.waiting import wait_for
from windlass.client.kube.api import APPLY, CLAIMS, CONFIG_MAPS, EVENTS, JOBS, PODS, Kind, read_config
from windlass.client.kube.door import KubeDoor
from windlass.core.errors import WindlassError

DEADLINE = 300.0
ENDS = {"Succeeded", "Failed"}
Document = dict[str, Any]
Egpu = Callable[..., "subprocess.CompletedProcess[str]"]
KINDS: Final = {"eaj": JOBS, "pod": PODS, "pvc": CLAIMS, "configmap": CONFIG_MAPS, "event": EVENTS}
NAMESPACES: Final = Kind("v1", "namespaces", is_namespaced=False)
RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}


class Lab:
    def __init__(self, cluster: Any, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.door = KubeDoor(read_config(cluster.kubeconfig))

    def __enter__(self) -> Self:
        metadata = {"name": self.namespace, "labels": RESTRICTED}
        made = self.door.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, "")
        self._uid = made["metadata"]["uid"]
        return self

    def __exit__(self, *_: object) -> None:
        # What can stop does so at once; the namespace itself takes its time, and nobody waits for it.
        for kind in ("eaj", "pod"):
            for found in self.items(kind):
                metadata = found["metadata"]
                self.door.delete(KINDS[kind], metadata["name"], self.namespace, uid=metadata["uid"], grace=0)
        self.door.delete(NAMESPACES, self.namespace, "", uid=self._uid)
        self.door.close()

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        said: str = self.cluster.kubectl(*arguments, stdin=stdin, namespace=self.namespace, check=check)
        return said

    def apply(self, name: str = "job", *, check: bool = True, annotations: Document | None = None, **spec: Any) -> str:
        """A job as `kubectl apply --server-side` would: busybox and no GPU, unless the spec says otherwise; what was said."""
        given = {"image": busybox.IMAGE, "resources": {"gpu": 0, "cpu": "100m", "memory": "64Mi"}, **spec}
        document = {
            "apiVersion": "windlass.dev/v1",
            "kind": "EphemeralAccelerationJob",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {key: value for key, value in given.items() if value is not None},
        }
        query = {"fieldManager": "kubectl", "fieldValidation": "Strict"}
        try:
            self.door.call("PATCH", JOBS.path(self.namespace, name), document, query=query, media=APPLY)
        except WindlassError as refused:
            if check:
                raise
            return refused.message
        return ""

    def shell(self, name: str, script: str, **spec: Any) -> None:
        self.apply(name, command=["sh", "-c", script], **spec)

    def get(self, kind: str, name: str) -> Document | None:
        return self.door.get(KINDS[kind], name, self.namespace)

    def items(self, kind: str) -> list[Document]:
        return self.door.list(KINDS[kind.removesuffix("s")], self.namespace)[0]

    def status(self, name: str) -> Document:
        found = self.get("eaj", name) or {}
        status: Document = found.get("status", {})
        return status

    def wait_status(self, name: str, *, deadline: float = DEADLINE, **wanted: Any) -> Document:
        """Until the status has these values."""

        def reached() -> Document | None:
            status = self.status(name)
            if status.get("phase") in ENDS - {wanted.get("phase", status.get("phase"))}:
                raise AssertionError(f"{name} has come to another end")
            return status if all(status.get(key) == value for key, value in wanted.items()) else None

        try:
            return wait_for(reached, deadline, f"{name} to have {wanted}")  # type: ignore[return-value]
        except AssertionError as never:
            raise AssertionError(f"{never}\n{json.dumps(self.status(name), indent=1)}") from None

    def wait_gone(self, kind: str, name: str, deadline: float = DEADLINE) -> None:
        wait_for(lambda: self.get(kind, name) is None, deadline, f"{kind} {name} to be gone")

    def wait_there(self, kind: str, name: str, deadline: float = DEADLINE) -> Document:
        found = wait_for(lambda: self.get(kind, name), deadline, f"{kind} {name} to be there")
        assert found is not None
        return found

    def log(self, name: str, attempt: int = 1) -> str:
        """What was sealed of a run."""
        kept = self.get("configmap", f"{name}-{attempt}-log")
        assert kept is not None
        return gzip.decompress(base64.b64decode(kept["binaryData"]["log.gz"])).decode()

    def events(self, name: str) -> set[str]:
        """The reasons that were told of the job."""
        found = self.items("events")
        return {one["reason"] for one in found if one["involvedObject"]["name"] == name}
