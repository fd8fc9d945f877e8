"""Runs that stand for a tenant's own object: it is taken up, released by our signature, and left when the run is over.

The object is its owner's. We label it while a run of ours has it, so that it is found again, and never delete it.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from windlass.adapters.runtime.kubernetes.cluster import Cluster
from windlass.adapters.runtime.kubernetes.objects import Owner
from windlass.core.errors import Conflict, NotFound
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import RunId
from windlass.wire.kube.kinds import JOBS
from windlass.wire.kube.names import CANCEL, INSTALLATION_LABEL, NODE_LABEL, RELEASE, RUN_LABEL, TOKEN_LABEL, Document
from windlass.wire.kube.release import payload

Sign = Callable[[bytes], Awaitable[str]]
OURS: Final = (INSTALLATION_LABEL, NODE_LABEL, RUN_LABEL, TOKEN_LABEL)


class GuestRuns:
    def __init__(self, cluster: Cluster, owner: Owner, sign: Sign, namespaces: tuple[str, ...] = ()) -> None:
        self._cluster = cluster
        self.namespaces = namespaces
        """Where they may be; none: anywhere."""
        self._owner = owner
        self._sign = sign
        self._places: dict[RunId, tuple[str, str]] = {}

    async def find(self, run: RunId) -> Document | None:
        """The object that the run has, wherever it is."""
        place = self._places.get(run)
        if place is not None:
            found = await self._cluster.get(JOBS, place[1], place[0])
            return found if found is not None and self._has(found, run) else None
        for namespace in self.namespaces or ("",):
            for job in await self._cluster.list(JOBS, namespace, labels=self._owner.selector(**{RUN_LABEL: run})):
                if self._has(job, run):
                    self._places[run] = job["metadata"]["namespace"], job["metadata"]["name"]
                    return job
        return None

    async def take(self, assignment: Assignment) -> None:
        """For this run alone. One that is gone since it was admitted is not found."""
        namespace, name, uid = assignment.spec.guest.split("/")
        labels = {**self._owner.labels, RUN_LABEL: assignment.run, TOKEN_LABEL: str(assignment.token)}
        try:
            await self._cluster.merge(JOBS, name, {"metadata": {"uid": uid, "labels": labels}}, namespace)
        except (NotFound, Conflict) as exc:
            raise NotFound(f"job {name} in namespace {namespace} is gone", code="guest-gone") from exc
        self._places[assignment.run] = namespace, name

    async def release(self, job: Document) -> None:
        """Signed as it is now: what is changed between this and its start holds it again."""
        proof = await self._sign(payload(job))
        if job["metadata"].get("annotations", {}).get(RELEASE) != proof:
            await self._merge(job, {"annotations": {RELEASE: proof}})

    async def cancel(self, job: Document) -> None:
        await self._merge(job, {"annotations": {CANCEL: "true"}})

    async def leave(self, run: RunId, job: Document) -> None:
        await self._merge(job, {"labels": dict.fromkeys(OURS)})
        self._places.pop(run, None)

    async def _merge(self, job: Document, change: Document) -> None:
        metadata = job["metadata"]
        changed = {"metadata": {"uid": metadata["uid"], **change}}
        try:
            await self._cluster.merge(JOBS, metadata["name"], changed, metadata["namespace"])
        except NotFound:
            return  # gone meanwhile

    def _has(self, job: Document, run: RunId) -> bool:
        return self._owner.owns(job) and job["metadata"]["labels"].get(RUN_LABEL) == run
