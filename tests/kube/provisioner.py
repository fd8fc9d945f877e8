"""A provisioner for the tests' cluster: claims of its classes become local volumes of the one node.

`local` volumes and not host paths, because the kubelet gives only those to a pod's group: then pods that are not root can
write. Class `standard` binds at once; class `late` when a pod wants it, which the scheduler says in an annotation.
"""

import shutil
import threading
from pathlib import Path
from typing import Self

import httpx2
from lightkube import ApiError, Client, KubeConfig
from lightkube.models.core_v1 import (
    LocalVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectReference,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import PersistentVolume, PersistentVolumeClaim
from lightkube.resources.storage_v1 import StorageClass

from tests.kube.parts import NODE

PROVISIONER = "test.windlass.dev/local"
PAUSE_SECONDS = 0.2
SELECTED = "volume.kubernetes.io/selected-node"


class Provisioner:
    """A thread beside the cluster."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self._client = Client(KubeConfig.from_file(kubeconfig).get())
        self._directory = directory
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="provisioner", daemon=True)

    def __enter__(self) -> Self:
        modes = {"standard": "Immediate", "late": "WaitForFirstConsumer"}
        for name, mode in modes.items():
            is_default = {"storageclass.kubernetes.io/is-default-class": str(name == "standard").lower()}
            metadata = ObjectMeta(name=name, annotations=is_default)
            self._client.create(StorageClass(PROVISIONER, metadata=metadata, volumeBindingMode=mode))
        self._modes = modes
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            try:
                self._provide()
                self._reclaim()
            except (ApiError, httpx2.HTTPError, OSError):
                continue  # the cluster is going down, or somebody was quicker

    def _provide(self) -> None:
        made = {volume.metadata.name for volume in self._client.list(PersistentVolume) if volume.metadata}
        for claim in self._client.list(PersistentVolumeClaim, namespace="*"):
            mode = self._modes.get(claim.spec.storageClassName or "") if claim.spec else None
            metadata = claim.metadata
            assert metadata is not None
            is_wanted = mode == "Immediate" or (mode and SELECTED in (metadata.annotations or {}))
            if is_wanted and metadata.deletionTimestamp is None and f"pvc-{metadata.uid}" not in made:
                self._make(claim)

    def _make(self, claim: PersistentVolumeClaim) -> None:
        assert claim.metadata is not None
        assert claim.spec is not None
        assert claim.spec.resources is not None
        name = f"pvc-{claim.metadata.uid}"
        path = self._directory / name
        path.mkdir(parents=True, exist_ok=True)
        here = NodeSelectorTerm(
            matchExpressions=[NodeSelectorRequirement("kubernetes.io/hostname", "In", values=[NODE])]
        )
        spec = PersistentVolumeSpec(
            accessModes=claim.spec.accessModes,
            capacity=claim.spec.resources.requests,
            storageClassName=claim.spec.storageClassName,
            persistentVolumeReclaimPolicy="Retain",
            local=LocalVolumeSource(str(path)),
            nodeAffinity=VolumeNodeAffinity(required=NodeSelector([here])),
            claimRef=ObjectReference(
                apiVersion="v1",
                kind="PersistentVolumeClaim",
                name=claim.metadata.name,
                namespace=claim.metadata.namespace,
                uid=claim.metadata.uid,
            ),
        )
        self._client.create(PersistentVolume(metadata=ObjectMeta(name=name), spec=spec))

    def _reclaim(self) -> None:
        for volume in self._client.list(PersistentVolume):
            assert volume.metadata is not None
            if volume.status is not None and volume.status.phase == "Released":
                self._client.delete(PersistentVolume, str(volume.metadata.name))
                shutil.rmtree(self._directory / str(volume.metadata.name), ignore_errors=True)
