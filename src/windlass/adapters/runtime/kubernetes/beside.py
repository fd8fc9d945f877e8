"""Pods beside a volume, through which its files are reached: one per volume, named by it, kept a while for the next who asks.

They run under the restricted profile and end by themselves; a forgotten one holds nothing but a name.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from windlass.adapters.runtime.kubernetes.cluster import Cluster
from windlass.adapters.runtime.kubernetes.objects import Owner, claim_name, selector_of
from windlass.core.errors import Conflict, NotFound, Unavailable
from windlass.core.model.ids import VolumeId
from windlass.ports.runtime import Stream
from windlass.wire.kube.kinds import CLAIMS, PODS
from windlass.wire.kube.names import VOLUME_LABEL, Document
from windlass.wire.kube.pod import PodPolicy, side_pod

LIFE_SECONDS: Final = 3600
IDLE_SECONDS: Final = 20.0
READY_SECONDS: Final = 300.0
LOOK_SECONDS: Final = 0.15
MOUNT: Final = "/mnt"


class Done(Struct, frozen=True):
    """A command in a pod that has ended."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes


class Beside:
    def __init__(self, cluster: Cluster, namespace: str, owner: Owner, *, image: str, policy: PodPolicy) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._owner = owner
        self._image = image
        self._policy = policy
        self._users: dict[VolumeId, int] = {}
        self._idle_since: dict[VolumeId, float] = {}

    async def run(self) -> None:
        """Take away those that nobody has asked for in a while. For ever."""
        while True:
            await anyio.sleep(IDLE_SECONDS / 4)
            for volume, since in tuple(self._idle_since.items()):
                if anyio.current_time() - since >= IDLE_SECONDS and not self._users.get(volume):
                    try:
                        await self.close(volume)
                    except Unavailable:
                        continue  # the API server is away: later

    @asynccontextmanager
    async def open(self, volume: VolumeId) -> AsyncIterator[str]:
        """The name of a running pod with the volume at /mnt."""
        self._users[volume] = self._users.get(volume, 0) + 1
        try:
            yield await self.start(self._name(volume), volume, image=self._image)
        finally:
            self._users[volume] -= 1
            self._idle_since[volume] = anyio.current_time()

    async def close(self, volume: VolumeId) -> None:
        self._idle_since.pop(volume, None)
        self._users.pop(volume, None)
        await self.stop(self._name(volume))

    async def start(
        self,
        name: str,
        volume: VolumeId,
        *,
        image: str,
        labels: Mapping[str, str] | None = None,
        always_pulls: bool = False,
    ) -> str:
        """One of that name that runs is taken as it is, if it is ours; one that is over makes room."""
        claim = await self._require(volume)
        document = side_pod(
            name,
            volume,
            "beside",
            image,
            ["sleep", str(LIFE_SECONDS)],
            replace(self._policy, node_selector=(*selector_of(claim), *self._policy.node_selector)),
            mount=MOUNT,
            seconds=LIFE_SECONDS,
            claim=claim_name(volume),
            more_labels={**(labels or {}), **self._owner.labels, VOLUME_LABEL: volume},
        )
        if always_pulls:
            document["spec"]["containers"][0]["imagePullPolicy"] = "Always"
        pod: Document | None = None
        with anyio.move_on_after(READY_SECONDS):
            while True:
                pod = await self._look(name, document)
                if pod is not None and _is_running(pod):
                    return name
                await anyio.sleep(LOOK_SECONDS)
        raise Unavailable(f"pod {name} did not start: {_why(pod or {})}", code="side-pod")

    async def stop(self, name: str) -> None:
        pod = await self._cluster.get(PODS, name, self._namespace)
        if pod is not None and self._owner.owns(pod):
            # It holds nothing that a last moment could save, and its volume may be waited for.
            await self._cluster.delete(PODS, name, self._namespace, uid=pod["metadata"]["uid"], grace=0)

    async def run_command(self, pod: str, command: Sequence[str]) -> Done:
        said = {Stream.STDOUT: bytearray(), Stream.STDERR: bytearray()}
        async with self._cluster.terminal(pod, self._namespace, command, has_input=False) as terminal:
            async for stream, data in terminal.output():
                said[stream] += data
        return Done(await terminal.exit_code(), bytes(said[Stream.STDOUT]), bytes(said[Stream.STDERR]))

    async def _look(self, name: str, document: Document) -> Document | None:
        try:
            return await self._cluster.create(PODS, document, self._namespace)
        except Conflict:
            pod = await self._cluster.get(PODS, name, self._namespace)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return None
        if not self._owner.owns(pod):
            raise Conflict(f"the cluster has a pod {name} that is not ours", code="name-taken")
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            await self._cluster.delete(PODS, name, self._namespace, uid=pod["metadata"]["uid"], grace=0)
            return None
        return pod

    async def _require(self, volume: VolumeId) -> Document:
        claim = await self._cluster.get(CLAIMS, claim_name(volume), self._namespace)
        if claim is None or not self._owner.owns(claim) or "deletionTimestamp" in claim["metadata"]:
            raise NotFound(f"no volume {volume}", code="volume-not-found")
        return claim

    def _name(self, volume: VolumeId) -> str:
        return f"{claim_name(volume)}-files"


def _is_running(pod: Document) -> bool:
    status = pod.get("status", {})
    return status.get("phase") == "Running" and all(
        "running" in one.get("state", {}) for one in status.get("containerStatuses", [])
    )


def _why(pod: Document) -> str:
    status = pod.get("status", {})
    waiting = [one.get("state", {}).get("waiting", {}) for one in status.get("containerStatuses", [])]
    conditions = [one for one in status.get("conditions", []) if one.get("status") == "False"]
    words = [one.get("message") or one.get("reason") for one in (*waiting, *conditions)]
    return next((text for text in words if text), str(status.get("message", "no reason given")))
