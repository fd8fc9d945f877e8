"""A namespace for one test, and the words to speak about what happens in it."""

import base64
import gzip
import json
import subprocess
from collections.abc import Callable
from typing import Any, Self

from tests.parts import busybox
from tests.parts.waiting import wait_for

DEADLINE = 120.0
ENDS = {"Succeeded", "Failed"}
Document = dict[str, Any]
Egpu = Callable[..., "subprocess.CompletedProcess[str]"]


class Lab:
    def __init__(self, cluster: Any, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def __enter__(self) -> Self:
        self.cluster.kubectl("create", "namespace", self.namespace)
        self.cluster.kubectl("label", "namespace", self.namespace, "pod-security.kubernetes.io/enforce=restricted")
        return self

    def __exit__(self, *_: object) -> None:
        # What can stop does so at once; the namespace itself takes its time, and nobody waits for it.
        self.kubectl("delete", "eaj,pods", "--all", "--grace-period=0", "--force", "--wait=false", check=False)
        self.cluster.kubectl("delete", "namespace", self.namespace, "--wait=false", check=False)

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        said: str = self.cluster.kubectl(*arguments, stdin=stdin, namespace=self.namespace, check=check)
        return said

    def apply(self, name: str = "job", *, check: bool = True, annotations: Document | None = None, **spec: Any) -> str:
        """A job by `kubectl apply`: busybox and no GPU, unless the spec says otherwise."""
        given = {"image": busybox.IMAGE, "resources": {"gpu": 0, "cpu": "100m", "memory": "64Mi"}, **spec}
        document = {
            "apiVersion": "windlass.dev/v1",
            "kind": "EphemeralAccelerationJob",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {key: value for key, value in given.items() if value is not None},
        }
        return self.kubectl("apply", "-f", "-", stdin=json.dumps(document), check=check)

    def shell(self, name: str, script: str, **spec: Any) -> None:
        self.apply(name, command=["sh", "-c", script], **spec)

    def get(self, kind: str, name: str) -> Document | None:
        text = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        found: Document | None = json.loads(text) if text.strip() else None
        return found

    def items(self, kind: str) -> list[Document]:
        found: list[Document] = json.loads(self.kubectl("get", kind, "-o", "json"))["items"]
        return found

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
