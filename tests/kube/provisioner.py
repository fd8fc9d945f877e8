"""A provisioner for the tests' cluster: claims of its classes become local volumes of the one node.

`local` volumes and not host paths, because the kubelet gives only those to a pod's group: then pods that are not root can
write. Class `standard` binds at once; class `late` when a pod wants it, which the scheduler says in an annotation. As any
real one, it watches and does not poll, and makes several volumes at a time.
"""

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from tests.kube.parts import NODE
from windlass.client.kube.api import CLAIMS, STORAGE_CLASSES, Kind, read_config
from windlass.client.kube.door import KubeDoor
from windlass.core.errors import Conflict, WindlassError

PROVISIONER = "test.windlass.dev/local"
ASKED = "volume.kubernetes.io/storage-provisioner"
"""By which the controller asks for a volume. Who is quicker than that gets into its way: it binds what it lost sight of only
at its next round, many seconds later."""
SELECTED = "volume.kubernetes.io/selected-node"
MODES = {"standard": "Immediate", "late": "WaitForFirstConsumer"}
VOLUMES = Kind("v1", "persistentvolumes", is_namespaced=False)
PAUSE_SECONDS = 0.2
MAKERS = 4
Document = dict[str, Any]


class Provisioner:
    """Two threads beside the cluster; they end when its API server does."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self._config = read_config(kubeconfig)
        self._directory = directory
        self._stop = threading.Event()
        self._makers = ThreadPoolExecutor(MAKERS, thread_name_prefix="volume maker")
        self._doors = threading.local()
        self._taken: set[str] = set()
        """Claims, by uid, whose volumes are made or in the making: each is seen again with every change of it."""

    def __enter__(self) -> Self:
        door = KubeDoor(self._config)
        for name, mode in MODES.items():
            is_default = {"storageclass.kubernetes.io/is-default-class": str(name == "standard").lower()}
            metadata = {"name": name, "annotations": is_default}
            document = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata}
            door.create(STORAGE_CLASSES, {**document, "provisioner": PROVISIONER, "volumeBindingMode": mode}, "")
        door.close()
        for kind, see in ((CLAIMS, self._provide), (VOLUMES, self._reclaim)):
            threading.Thread(target=self._follow, args=(kind, see), name=f"{kind.plural} seen", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._makers.shutdown(cancel_futures=True)

    def _follow(self, kind: Kind, see: Callable[[KubeDoor, Document], None]) -> None:
        door = KubeDoor(self._config)
        while not self._stop.is_set():
            try:
                found, after = door.list(kind, "")
                for one in found:
                    see(door, one)
                for event in door.watch(kind, "", after=after):
                    see(door, event["object"])
            except (WindlassError, OSError):
                self._stop.wait(PAUSE_SECONDS)  # the cluster is going down, or was too busy to answer
        door.close()

    def _provide(self, _: KubeDoor, claim: Document) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        mode, marks = MODES.get(spec.get("storageClassName", "")), metadata.get("annotations", {})
        is_wanted = marks.get(ASKED) == PROVISIONER and (mode == "Immediate" or SELECTED in marks)
        if not is_wanted or "volumeName" in spec or "deletionTimestamp" in metadata or self._stop.is_set():
            return
        if metadata["uid"] not in self._taken:
            self._taken.add(metadata["uid"])
            self._makers.submit(self._make, claim)

    def _make(self, claim: Document) -> None:
        name = f"pvc-{claim['metadata']['uid']}"
        (self._directory / name).mkdir(parents=True, exist_ok=True)
        if not hasattr(self._doors, "own"):
            self._doors.own = KubeDoor(self._config)
        while not self._stop.is_set():
            try:
                self._doors.own.create(VOLUMES, _volume(name, str(self._directory / name), claim), "")
                return
            except Conflict:
                return  # made, by a request whose answer was lost
            except (WindlassError, OSError):
                self._stop.wait(PAUSE_SECONDS)

    def _reclaim(self, door: KubeDoor, volume: Document) -> None:
        metadata = volume["metadata"]
        if volume.get("status", {}).get("phase") == "Released" and "deletionTimestamp" not in metadata:
            door.delete(VOLUMES, metadata["name"], "", uid=metadata["uid"])
            shutil.rmtree(self._directory / metadata["name"], ignore_errors=True)


def _volume(name: str, path: str, claim: Document) -> Document:
    metadata, spec = claim["metadata"], claim["spec"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": spec["resources"]["requests"],
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "claimRef": {**reference, **{key: metadata[key] for key in ("name", "namespace", "uid")}},
        },
    }
