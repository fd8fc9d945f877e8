"""Job specs at hand: the newest in memory, all of them in the store. The World itself never holds one."""

from collections import OrderedDict

from windlass.core.errors import NotFound
from windlass.core.model.ids import JobId
from windlass.core.model.job import JobSpec
from windlass.core.world.records import Table, decode, store_key
from windlass.ports.store import Store

_REMEMBERED = 4096


class Specs:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._newest: OrderedDict[JobId, JobSpec] = OrderedDict()

    def note(self, job: JobId, spec: JobSpec) -> None:
        self._newest[job] = spec
        self._newest.move_to_end(job)
        if len(self._newest) > _REMEMBERED:
            self._newest.popitem(last=False)

    async def get(self, job: JobId) -> JobSpec:
        known = self._newest.get(job)
        if known is not None:
            return known
        item = await self._store.get(store_key(Table.SPECS, job))
        if item is None:
            raise NotFound(f"no spec of job {job}")
        spec: JobSpec = decode(Table.SPECS, item.value)
        self.note(job, spec)
        return spec
