"""In a namespace that is labelled with a tenant nothing runs that the tenant's server has not admitted.

No pod is made before its release: not by `suspend: false`, not by a hand-written status. What the server says of it while it
waits is shown; whether it may run is said by the server's signature alone.
"""

from msgspec.structs import replace

from windlass.client.kube.api import KubeApi
from windlass.core.model.ephemeral import Wish
from windlass.operator.memory import Memory
from windlass.wire.kube.kinds import NAMESPACES
from windlass.wire.kube.names import ADMISSION, RELEASE, TENANT_LABEL, Document
from windlass.wire.kube.release import is_released


class Gate:
    def __init__(self, api: KubeApi, memory: Memory, release_key: str) -> None:
        self._api = api
        self._memory = memory
        self._release_key = release_key

    async def judge(self, job: Document, wish: Wish) -> Wish:
        """The wish, as far as it may be granted. A retry would be a run that nobody admitted: there is none."""
        tenant = await self._tenant(job["metadata"]["namespace"])
        if not tenant:
            return wish
        return replace(wish, retries=0, held=self._why_held(job, tenant))

    def _why_held(self, job: Document, tenant: str) -> str:
        if not self._release_key:
            return f"its namespace is of tenant {tenant}, and the operator has no release_key of a server"
        if is_released(job, self._release_key):
            return ""
        annotations = job["metadata"].get("annotations", {})
        told: str = annotations.get(ADMISSION, "")
        if RELEASE in annotations:
            return f"what it asks for is not what the server has admitted: make it anew ({told})"
        return told or f"waits for the server to admit it for tenant {tenant}"

    async def _tenant(self, namespace: str) -> str:
        """Watched; one that was not heard of yet is asked for."""
        known = self._memory.namespaces.get(("", namespace))
        if known is None:
            known = await self._api.get(NAMESPACES, namespace)
            if known is None:
                return ""  # on its way out, and its jobs with it
            self._memory.namespaces.put(known)
        tenant: str = known["metadata"].get("labels", {}).get(TENANT_LABEL, "")
        return tenant
