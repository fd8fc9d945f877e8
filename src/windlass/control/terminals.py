"""Ways into a running job: attach to it, run a command beside it, open a shell on its volume."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from windlass.control.abroad import refuse_pod, refuse_volume
from windlass.control.brain import Brain
from windlass.control.runtimes import Runtimes
from windlass.control.secrets import Secrets
from windlass.core.distribution.reference import registry_of
from windlass.core.errors import Conflict, NotFound
from windlass.core.model.ids import TenantId
from windlass.core.model.run import Run, RunState
from windlass.core.model.views import JobView
from windlass.core.model.volume import VolumeState
from windlass.ports.ids import Ids
from windlass.ports.runtime import ImageAccess, Runtime, Terminal
from windlass.ports.secrets import Guard

_SHELL = ("sh",)


class Terminals:
    def __init__(self, brain: Brain, runtimes: Runtimes, ids: Ids, secrets: Secrets, guard: Guard) -> None:
        self._brain = brain
        self._runtimes = runtimes
        self._ids = ids
        self._secrets = secrets
        self._guard = guard

    @asynccontextmanager
    async def attach(self, view: JobView) -> AsyncIterator[Terminal]:
        refuse_pod(view.job, "attach")
        run = self._running(view)
        async with self._runtimes.on(run.node).attach(run.id) as terminal:
            yield terminal

    @asynccontextmanager
    async def execute(
        self, view: JobView, command: tuple[str, ...], *, wants_terminal: bool
    ) -> AsyncIterator[Terminal]:
        refuse_pod(view.job, "exec", "--", *command)
        run = self._running(view)
        runtime = self._runtimes.on(run.node)
        async with runtime.execute(run.id, command, wants_terminal=wants_terminal) as terminal:
            yield terminal

    @asynccontextmanager
    async def debug(
        self, view: JobView, *, image: str = "", command: tuple[str, ...] = (), keep: bool = False, name: str = ""
    ) -> AsyncIterator[Terminal]:
        """A shell with the volume at /mnt, in the job's own image unless another is named."""
        refuse_volume(view.job, "debug")
        volume = self._brain.world.tables.volumes.get(view.job.volume_id)
        if volume is None or volume.state is not VolumeState.PRESENT:
            raise NotFound(f"job {view.job.name} has no volume to look at", code="volume-gone")
        image = image or view.job.image
        runtime = self._runtimes.on(volume.node)
        await self._check_access(runtime, view.job.tenant, image)
        async with runtime.debug(
            volume.id,
            name=name or f"debug-{view.job.name}-{self._ids.uuid7()[-6:]}",
            image=image,
            command=command or _SHELL,
            labels={"windlass.dev/tenant": view.job.tenant, "windlass.dev/job": view.job.id},
            keep=keep,
        ) as terminal:
            yield terminal

    async def _check_access(self, runtime: Runtime, tenant: TenantId, image: str) -> None:
        """A shell is no way round a registry: the image is had in the tenant's own name, as for a run."""
        registry, credentials = registry_of(image), await self._secrets.credentials(tenant, image)
        if credentials is not None:
            await self._guard.note_guarded(registry)
        is_guarded = self._secrets.is_guarded(registry) or self._guard.is_guarded(registry)
        access = ImageAccess(tenant=tenant, credentials=credentials, is_guarded=is_guarded)
        async for _ in runtime.ensure_image(image, access=access):
            pass

    def _running(self, view: JobView) -> Run:
        run = self._brain.world.live_run(view.job.id)
        if run is None or run.state is not RunState.RUNNING:
            raise Conflict(f"job {view.job.name} is not running", code="not-running", hint=f"it is {view.job.state}")
        return run
