"""What is seen of one job: from memory where memory can be right, from the API server where only that can be."""

from collections.abc import Callable
from enum import Enum
from typing import Final

from windlass.client.kube.api import CLAIMS, PODS, STORAGE_CLASSES, Kind, KubeApi
from windlass.core.errors import Denied
from windlass.core.model.ephemeral import Course, PodSeen, VolumeSeen
from windlass.core.model.ids import Millis
from windlass.operator.memory import Key, Memory, Shelf
from windlass.wire.kube.errand import claim_of
from windlass.wire.kube.names import ERRAND, JOB_LABEL, Document, pod_name
from windlass.wire.kube.observe import see_pod, see_volume

CLASS_MS: Final = 60_000
"""How long what was read of a storage class holds."""


class Binding(Enum):
    """When a storage class gives a claim its volume."""

    AT_ONCE = "at once"
    LATE = "with its first pod"
    NEVER = "there is no such class"


class Observer:
    def __init__(self, api: KubeApi, memory: Memory, wall: Callable[[], Millis]) -> None:
        self._api = api
        self._memory = memory
        self._wall = wall
        self._bindings: dict[str, tuple[Millis, Binding]] = {}

    async def pod(self, job: Document, course: Course) -> PodSeen | None:
        """That of the current attempt. Not known is not absent, as long as the job runs: then it is asked for."""
        if not course.attempt:
            return None
        metadata = job["metadata"]
        key = (metadata["namespace"], pod_name(metadata["name"], course.attempt))
        pod = await self._find(PODS, self._memory.pods, key, must_ask=not course.is_over)
        if pod is None:
            return None
        silent = self._memory.is_silent(pod.get("spec", {}).get("nodeName", ""))
        is_put_off = self._memory.is_put_off(pod["metadata"]["uid"])
        return see_pod(pod, metadata["name"], metadata["uid"], is_node_silent=silent, is_put_off=is_put_off)

    async def volume(self, job: Document, course: Course) -> VolumeSeen | None:
        if course.is_volume_gone:
            return None
        metadata = job["metadata"]
        name = metadata["name"]
        is_given = ERRAND in metadata.get("annotations", {})
        key = (metadata["namespace"], claim_of(job))
        claim = await self._find(CLAIMS, self._memory.claims, key, must_ask=bool(course.volume) or is_given)
        if claim is None:
            return None
        waits, missing = False, ""
        named = claim.get("spec", {}).get("storageClassName", "")
        if named and claim.get("status", {}).get("phase") != "Bound":
            binding = await self._binding(named)
            waits, missing = binding is Binding.LATE, named if binding is Binding.NEVER else ""
        return see_volume(claim, name, metadata["uid"], waits_for_pod=waits, missing_class=missing)

    async def _find(self, kind: Kind, shelf: Shelf, key: Key, *, must_ask: bool) -> Document | None:
        known = shelf.get(key)
        if known is not None and JOB_LABEL in known["metadata"].get("labels", {}):
            return known  # what has no label of ours is not watched, so memory of it is stale
        if known is None and not must_ask:
            return None
        found = await self._api.get(kind, key[1], key[0])
        if found is None and known is not None:
            shelf.drop(known)
        elif found is not None:
            shelf.put(found)
        return found

    async def _binding(self, name: str) -> Binding:
        """Who may not look at classes lets the pod go first: the scheduler waits for its volume in either case."""
        read_at, binding = self._bindings.get(name, (None, Binding.NEVER))
        if read_at is not None and self._wall() - read_at <= CLASS_MS:
            return binding
        try:
            found = await self._api.get(STORAGE_CLASSES, name)
        except Denied:
            return Binding.LATE
        if found is None:
            return Binding.NEVER  # and asked for at each look: it may be made any moment
        binding = Binding.LATE if found.get("volumeBindingMode") == "WaitForFirstConsumer" else Binding.AT_ONCE
        self._bindings[name] = (self._wall(), binding)
        return binding
