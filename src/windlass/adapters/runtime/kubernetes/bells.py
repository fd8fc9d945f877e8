"""One watch for all runs of a node, in each place where they may be: whoever waits for a run is woken when its object changes, and
then looks for itself.

Nothing is remembered of what was heard, so nothing can be stale; a watch that breaks costs a second look, not a wrong one.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import structlog

from windlass.adapters.runtime.backoff import Backoff
from windlass.adapters.runtime.kubernetes.cluster import Cluster
from windlass.adapters.runtime.kubernetes.objects import Owner
from windlass.core.errors import Unavailable, WindlassError
from windlass.core.model.ids import RunId
from windlass.ports.clock import Clock
from windlass.ports.runtime import Observed
from windlass.wire.kube.kinds import JOBS
from windlass.wire.kube.names import RUN_LABEL

LOOK_SECONDS: Final = 15.0
"""The safety net under a watch that has died without a word."""

log = structlog.get_logger(__name__)


class Bells:
    def __init__(self, cluster: Cluster, places: tuple[str, ...], owner: Owner, clock: Clock) -> None:
        self._cluster = cluster
        self._places = places
        self._owner = owner
        self._clock = clock
        self._bells: dict[RunId, anyio.Event] = {}

    async def run(self) -> None:
        """For ever."""
        async with anyio.create_task_group() as tasks:
            for place in self._places:
                tasks.start_soon(self._listen, place)

    async def _listen(self, namespace: str) -> None:
        backoff = Backoff(self._clock, f"{self._owner.node}/{namespace}")
        while True:
            try:
                after = await self._cluster.version(JOBS, namespace)
                self._ring_all()  # what changed while nobody listened
                async for _, job in self._cluster.watch(JOBS, namespace, labels=self._owner.selector(), after=after):
                    self._ring(RunId(job["metadata"].get("labels", {}).get(RUN_LABEL, "")))
                    backoff.reset()
            except WindlassError as exc:
                log.warning("kubernetes.watch_broken", code=exc.code, why=exc.message)
            await backoff.pause()

    async def until(
        self, run: RunId, look: Callable[[], Awaitable[Observed]], is_enough: Callable[[Observed], bool]
    ) -> Observed:
        """Outlasts an API server that does not answer."""
        backoff = Backoff(self._clock, run)
        while True:
            bell = self._bells.setdefault(run, anyio.Event())  # before the look: what comes after it rings
            try:
                seen = await look()
            except Unavailable:
                await backoff.pause()
                continue
            backoff.reset()
            if is_enough(seen):
                return seen
            with anyio.move_on_after(LOOK_SECONDS):
                await bell.wait()

    def _ring(self, run: RunId) -> None:
        bell = self._bells.pop(run, None)
        if bell is not None:
            bell.set()

    def _ring_all(self) -> None:
        for run in tuple(self._bells):
            self._ring(run)
