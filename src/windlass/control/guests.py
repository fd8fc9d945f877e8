"""The door for jobs that tenants make on a cluster by themselves: each becomes a job here, by the same admission as any other.

It waits there until it is placed here; the run that then takes it up releases it. What keeps it waiting, at this door or in the
queue, is told there with code and numbers. Who withdraws it there cancels it here, and the other way round.
"""

from typing import Final

import anyio
import structlog
from msgspec.structs import replace

from windlass.control.abroad import NAME, NAMESPACE, UID
from windlass.control.plane import ControlPlane
from windlass.core.errors import NotFound, WindlassError
from windlass.core.model.ids import JobId, PoolId
from windlass.core.model.job import Job, JobKind, JobState, OnLostNode
from windlass.core.model.submission import Submission
from windlass.ports.guests import Guest, Guests
from windlass.wire.job import API_VERSION, read_manifest

LOOK_SECONDS: Final = 2.0
"""How often those that wait are offered again, and told what they wait for."""
TELL_SECONDS: Final = 10.0
"""Between two things that one is told: a queue moves all the time, and each word is a write there."""
"""The label of a guest's job by which it is found again after a restart."""
PRESET: Final = "preset"
"""Which image the operator gives one that names none is not known here, and not needed."""

log = structlog.get_logger(__name__)


class GuestDoor:
    def __init__(self, plane: ControlPlane, guests: Guests, pool: PoolId) -> None:
        self._plane = plane
        self._guests = guests
        self._pool = pool
        self._jobs: dict[str, JobId] = {}
        """By ref: the job of each guest, as long as both are there."""
        self._waiting: dict[str, Guest] = {}
        self._told: dict[str, tuple[str, float]] = {}
        self._turn = anyio.Lock()
        """One guest at a time: looked at twice at once, it would be submitted twice."""

    async def run(self) -> None:
        for job in self._plane.brain.world.tables.jobs.values():
            if ref := _ref_of(job):
                self._jobs[ref] = job.id
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._look_after)
            async for guest in self._guests.changes():
                async with self._turn:
                    await self._carefully(guest)

    async def _look_after(self) -> None:
        """Room, money and order change without a word from the cluster."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            for guest in tuple(self._waiting.values()):
                async with self._turn:
                    if self._waiting.get(guest.ref) is guest:  # nothing was heard of it meanwhile
                        await self._carefully(guest)

    async def _carefully(self, guest: Guest) -> None:
        """A trouble with one is not the others'."""
        try:
            await self._consider(guest)
        except WindlassError as exc:
            log.warning("guest.failed", guest=guest.ref, code=exc.code, why=exc.message)
            self._waiting[guest.ref] = guest

    async def _consider(self, guest: Guest) -> None:
        job = self._job(guest)
        if not guest.is_ready:
            self._waiting.pop(guest.ref, None)
            self._told.pop(guest.ref, None)
            self._jobs.pop(guest.ref, None)
            if job is not None and not guest.is_taken:
                await self._plane.intake.cancel(guest.tenant, job.id)
                await self._guests.tell(guest, words="withdrawn before it ran", job="")  # and may be offered again
            return
        if guest.is_taken:
            self._waiting.pop(guest.ref, None)
            return
        self._waiting[guest.ref] = guest
        if job is not None:
            await self._tell_wait(guest, job)
        elif guest.job or guest.ref in self._jobs:
            await self._guests.dismiss(guest)  # its job was cancelled here before it ran
        else:
            await self._submit(guest)

    async def _submit(self, guest: Guest) -> None:
        try:
            accepted = await self._plane.intake.submit(guest.tenant, self._read(guest))
        except WindlassError as exc:
            faults = "; ".join(f"{fault.field}: {fault.message}" for fault in exc.faults)
            await self._tell(guest, f"{exc.code}: {faults or exc.message}")
            return
        self._jobs[guest.ref] = accepted.job.id
        words = f"accepted as job {accepted.job.name}; it runs when it is its turn"
        await self._guests.tell(guest, words=words, job=accepted.job.id)

    async def _tell_wait(self, guest: Guest, job: Job) -> None:
        if job.state is JobState.PENDING and (reasons := self._plane.waiting(job.id)):
            await self._tell(guest, f"accepted as job {job.name}; it waits: {'; '.join(reasons)}")

    async def _tell(self, guest: Guest, words: str) -> None:
        before, at = self._told.get(guest.ref, ("", -TELL_SECONDS))
        if words != before and anyio.current_time() - at >= TELL_SECONDS:
            await self._guests.tell(guest, words=words)
            self._told[guest.ref] = words, anyio.current_time()

    def _job(self, guest: Guest) -> Job | None:
        """Its job here, while that is alive."""
        known = self._jobs.get(guest.ref) or JobId(guest.job)
        try:
            job = self._plane.brain.world.job(known, tenant=guest.tenant)
        except NotFound:
            return None
        return None if job.is_over or _ref_of(job) != guest.ref else job

    def _read(self, guest: Guest) -> Submission:
        """By the one validator. What is the cluster's own business there stays there: secrets, volumes, times-to-live. A retry
        would be a run that nobody admitted."""
        document = {
            "apiVersion": API_VERSION,
            "kind": JobKind.EPHEMERAL.value,
            "metadata": {"name": guest.name},
            "spec": dict(guest.spec),
        }
        asked = read_manifest(document, runtime="container", preset_image=PRESET)
        return replace(
            asked,
            name="",
            labels=_labels(guest),
            retries=0,
            on_lost_node=OnLostNode.WAIT,
            pools=(self._pool,),
            node_labels=(),
            spec=replace(asked.spec, secret_env=(), secret_files=(), guest=guest.ref),
        )


def _labels(guest: Guest) -> tuple[tuple[str, str], ...]:
    namespace, name, uid = guest.ref.split("/")
    return ((NAME, name), (NAMESPACE, namespace), (UID, uid))


def _ref_of(job: Job) -> str:
    labels = dict(job.labels)
    if UID not in labels:
        return ""
    return f"{labels.get(NAMESPACE, '')}/{labels.get(NAME, '')}/{labels[UID]}"
