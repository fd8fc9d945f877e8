"""Guests on a cluster: job objects in namespaces that are labelled with a tenant. Heard by one watch, told by annotations.

The operator holds them until the server's signature is on them (`wire.kube.release`), and shows what is told as a condition.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import structlog

from windlass.adapters.runtime.backoff import Backoff
from windlass.adapters.runtime.kubernetes.cluster import Cluster
from windlass.core.errors import Conflict, NotFound, WindlassError
from windlass.core.model.ids import TenantId
from windlass.ports.clock import Clock
from windlass.ports.guests import Guest
from windlass.wire.kube.kinds import JOBS, NAMESPACES
from windlass.wire.kube.names import ADMISSION, CANCEL, GUEST_JOB, RUN_LABEL, TENANT_LABEL, Document, is_cancelled

_OVER: Final = ("Succeeded", "Failed")

log = structlog.get_logger(__name__)


class KubernetesGuests:
    """Of one namespace; without one, of all that are labelled."""

    def __init__(self, cluster: Cluster, clock: Clock, *, own_namespace: str, namespace: str = "") -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._own_namespace = own_namespace
        self._clock = clock
        self._tenants: dict[str, str] = {}

    async def changes(self) -> AsyncIterator[Guest]:
        backoff = Backoff(self._clock, "guests")
        while True:
            try:
                after = await self._cluster.version(JOBS, self._namespace)
                await self._learn_tenants()
                for job in await self._cluster.list(JOBS, self._namespace):
                    if guest := self._guest(job):
                        yield guest
                async for kind, job in self._cluster.watch(JOBS, self._namespace, after=after):
                    await self._learn_tenant(job["metadata"]["namespace"])
                    if guest := self._guest(job, is_gone=kind == "DELETED"):
                        yield guest
                    backoff.reset()
            except WindlassError as exc:
                log.warning("guests.watch_broken", code=exc.code, why=exc.message)
            await backoff.pause()

    async def tell(self, guest: Guest, *, words: str, job: str | None = None) -> None:
        given: dict[str, str | None] = {ADMISSION: words}
        if job is not None:
            given[GUEST_JOB] = job or None
        await self._annotate(guest, given)

    async def dismiss(self, guest: Guest) -> None:
        await self._annotate(guest, {CANCEL: "true"})

    async def _annotate(self, guest: Guest, annotations: Mapping[str, str | None]) -> None:
        namespace, name, uid = guest.ref.split("/")
        change = {"metadata": {"uid": uid, "annotations": dict(annotations)}}
        try:
            await self._cluster.merge(JOBS, name, change, namespace)
        except (NotFound, Conflict):
            return  # gone, and perhaps another has its name

    async def _learn_tenants(self) -> None:
        if self._namespace:
            self._tenants.clear()
            await self._learn_tenant(self._namespace)
            return
        found = await self._cluster.list(NAMESPACES, labels=TENANT_LABEL)
        self._tenants = {one["metadata"]["name"]: one["metadata"]["labels"][TENANT_LABEL] for one in found}

    async def _learn_tenant(self, namespace: str) -> None:
        """One that is made and labelled later, when the first job in it is heard of."""
        if namespace in self._tenants:
            return
        found = await self._cluster.get(NAMESPACES, namespace)
        self._tenants[namespace] = (found or {}).get("metadata", {}).get("labels", {}).get(TENANT_LABEL, "")

    def _guest(self, job: Document, *, is_gone: bool = False) -> Guest | None:
        metadata, status = job["metadata"], job.get("status", {})
        tenant = self._tenants.get(metadata["namespace"], "")
        if not tenant or metadata["namespace"] == self._own_namespace:  # our own runs are nobody's guests
            return None
        annotations, spec = metadata.get("annotations", {}), job.get("spec", {})
        is_over = status.get("phase") in _OVER or is_cancelled(job) or "deletionTimestamp" in metadata
        return Guest(
            ref=f"{metadata['namespace']}/{metadata['name']}/{metadata['uid']}",
            tenant=TenantId(tenant),
            spec=spec,
            is_ready=not (is_gone or is_over or spec.get("suspend", False)),
            job=annotations.get(GUEST_JOB, ""),
            is_taken=RUN_LABEL in metadata.get("labels", {}),
        )
