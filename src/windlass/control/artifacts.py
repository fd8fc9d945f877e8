"""A job's volume, read from outside: what it wrote to /artifacts, as a tar stream, while the volume lives."""

from collections.abc import AsyncIterator

from windlass.control.abroad import refuse_volume
from windlass.control.brain import Brain
from windlass.control.runtimes import Runtimes
from windlass.core.errors import Conflict, NotFound
from windlass.core.model.views import JobView
from windlass.core.model.volume import VolumeState


class Artifacts:
    def __init__(self, brain: Brain, runtimes: Runtimes) -> None:
        self._brain = brain
        self._runtimes = runtimes

    async def download(self, view: JobView, path: str) -> AsyncIterator[bytes]:
        """`path` below the volume's root; the empty path is all of it."""
        refuse_volume(view.job, "download", *((path,) if path else ()))
        volume = self._brain.world.tables.volumes.get(view.job.volume_id)
        if volume is None or volume.state is VolumeState.DROPPING:
            raise NotFound(
                f"job {view.job.name} has no volume any more",
                code="volume-gone",
                hint="its volume TTL has passed; set pvcTTLSecondsAfterFinished higher to keep it longer",
            )
        if volume.state is VolumeState.WAITING:
            raise Conflict(f"job {view.job.name} has not run yet: there is nothing to download", code="not-started")
        async for chunk in self._runtimes.on(volume.node).get_archive(volume.id, path):
            yield chunk
