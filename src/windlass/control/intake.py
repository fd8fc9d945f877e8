"""What people ask for, on its way into the World: each verb decides, waits for the disk, and only then answers."""

from collections.abc import Callable, Sequence
from functools import partial

import anyio
from msgspec import Struct
from msgspec.structs import replace

from windlass.control.brain import Brain
from windlass.control.readmodel import ReadModel
from windlass.control.specs import Specs
from windlass.core.errors import Conflict, NotFound, Unavailable
from windlass.core.model.ids import JobId, Millis, TenantId, VolumeId
from windlass.core.model.job import Input, Job, JobSpec
from windlass.core.model.submission import Idempotency, Submission
from windlass.core.model.views import CleanupItem, CleanupReport
from windlass.core.model.volume import Volume, VolumeState
from windlass.core.world import requests
from windlass.core.world.expiry import is_expired
from windlass.core.world.finish import doom, erase
from windlass.core.world.records import Answer, Key, Table, decode, store_key
from windlass.core.world.submit import Render, find_replay, key_id, make_job, remember, submit, submit_all
from windlass.ports.ids import Ids
from windlass.ports.store import Store


class Accepted(Struct, frozen=True, kw_only=True):
    job: Job
    """As accepted; of a repeated request, as asked for again, with the first one's id."""
    spec: JobSpec
    revision: int
    answer: bytes | None = None
    """The first answer, when this request repeats one that was accepted before."""


class AcceptedMany(Struct, frozen=True, kw_only=True):
    jobs: Sequence[Job] = ()
    """None of a repeated request."""
    revision: int
    answer: bytes
    """What was rendered: of a repeated request, for the first."""


class Intake:
    def __init__(self, brain: Brain, store: Store, specs: Specs, read_model: ReadModel, ids: Ids) -> None:
        self._brain = brain
        self._store = store
        self._specs = specs
        self._read_model = read_model
        self._ids = ids
        self._uploads = anyio.Lock()

    # — jobs —

    async def submit(
        self,
        tenant: TenantId,
        submission: Submission,
        *,
        idempotency: Idempotency | None = None,
        render: Render | None = None,
    ) -> Accepted:
        """Durable when it returns. A repeated key answers with the bytes of the first answer."""
        brain = self._brain
        await brain.failpoints.reach("submit.after_validate")
        if idempotency is not None and find_replay(brain.world, tenant, idempotency) is not None:
            return await self._replay(tenant, submission, idempotency)
        job = JobId(self._ids.uuid7())
        verb = partial(_submit, brain, tenant, submission, job, idempotency, render)
        (accepted, spec), revision = await brain.decide(verb, failpoint="submit.after_reserve")
        self._specs.note(job, spec)
        await brain.failpoints.reach("submit.after_commit_before_ack")
        return Accepted(job=accepted, spec=spec, revision=revision)

    async def submit_many(
        self,
        tenant: TenantId,
        submissions: Sequence[Submission],
        *,
        render: Callable[[Sequence[Job]], bytes] = lambda jobs: b"",
        idempotency: Idempotency | None = None,
    ) -> AcceptedMany:
        """All or nothing: one decision for the lot. A repeated key answers with the bytes of the first answer."""
        world = self._brain.world
        if idempotency is not None and find_replay(world, tenant, idempotency) is not None:
            answer, _, revision = await self._first_answer(tenant, idempotency)
            return AcceptedMany(answer=answer, revision=revision)
        ids = [JobId(self._ids.uuid7()) for _ in submissions]

        def verb(now: Millis) -> tuple[list[Job], bytes]:
            with world.decision(now):
                jobs = submit_all(world, tenant, submissions, jobs=ids, now=now)
                answer = render(jobs)
                if idempotency is not None:
                    remember(world, tenant, idempotency, ids[0], answer, now)
                return jobs, answer

        (jobs, answer), revision = await self._brain.decide(verb)
        return AcceptedMany(jobs=jobs, answer=answer, revision=revision)

    async def cancel(self, tenant: TenantId, job: JobId) -> int:
        await self._check_alive(tenant, job)
        _, revision = await self._brain.decide(lambda now: requests.cancel(self._brain.world, tenant, job, now=now))
        await self._brain.failpoints.reach("cancel.after_commit")
        return revision

    async def release(self, tenant: TenantId, job: JobId) -> int:
        await self._check_alive(tenant, job)
        _, revision = await self._brain.decide(lambda now: requests.release(self._brain.world, tenant, job, now=now))
        return revision

    async def delete(self, tenant: TenantId, job: JobId, *, with_volume: bool) -> int:
        """A live job is cancelled first; without `with_volume` the volume keeps its own time."""
        world = self._brain.world
        if job in world.tables.jobs:
            _, revision = await self._brain.decide(
                lambda now: requests.delete(world, tenant, job, with_volume=with_volume, now=now)
            )
            return revision
        over = await self._over(tenant, job)

        def verb(now: Millis) -> None:
            with world.decision(now):
                erase(world, job, over.tenant, name=over.name, volume=over.volume_id, with_volume=with_volume, now=now)

        _, revision = await self._brain.decide(verb)
        return revision

    def is_alive(self, job: JobId) -> bool:
        return job in self._brain.world.tables.jobs

    async def add_input(self, tenant: TenantId, job: JobId, item: Input) -> int:
        """A blob for a suspended job's volume; the same path again replaces it."""
        async with self._uploads:  # read, change, write: one upload's record at a time
            spec = await self._specs.get(self._brain.world.job(job, tenant=tenant).id)
            others = tuple(one for one in spec.inputs if (one.path, one.is_archive) != (item.path, item.is_archive))
            grown = replace(spec, inputs=(*others, item))
            verb = partial(_set_spec, self._brain, tenant, job, grown)
            _, revision = await self._brain.decide(verb)
            self._specs.note(job, grown)
            return revision

    # — volumes —

    async def copy_file(self, tenant: TenantId, job_name: str, item: Input) -> tuple[Volume, int]:
        fresh = VolumeId(self._ids.uuid7())
        return await self._brain.decide(
            lambda now: requests.copy_file(self._brain.world, tenant, job_name, item, volume=fresh, now=now)
        )

    async def drop_volume(self, tenant: TenantId, name: str) -> int:
        _, revision = await self._brain.decide(
            lambda now: requests.drop_volume(self._brain.world, tenant, name, now=now)
        )
        return revision

    async def cleanup_volumes(self, tenant: TenantId) -> CleanupReport:
        """Drop every volume whose TTL has passed; say of the others why they stay."""

        def verb(now: Millis) -> list[CleanupItem]:
            world = self._brain.world
            mine = [volume for volume in list(world.tables.volumes.values()) if volume.tenant == tenant]
            with world.decision(now):
                return [_clean(self._brain, volume, now) for volume in mine]

        items, _ = await self._brain.decide(verb)
        deleted = sum(item.action == "deleted" for item in items)
        return CleanupReport(deleted=deleted, skipped=len(items) - deleted, items=tuple(items))

    # — helpers —

    async def _replay(self, tenant: TenantId, submission: Submission, idempotency: Idempotency) -> Accepted:
        """The job may have ended and been deleted since; the answer is the first one all the same, so `job` is as it was asked
        for."""
        answer, known, revision = await self._first_answer(tenant, idempotency)
        asked = make_job(self._brain.world, tenant, submission, job=known.job, now=self._brain.clock.now())
        return Accepted(job=asked, spec=submission.spec, revision=revision, answer=answer)

    async def _first_answer(self, tenant: TenantId, idempotency: Idempotency) -> tuple[bytes, Key, int]:
        """The first request may still be on its way to the disk: its retry waits for it, then reads what was answered."""
        brain = self._brain
        revision = await brain.committer.durable(brain.world.number)
        known = find_replay(brain.world, tenant, idempotency)
        item = await self._store.get(store_key(Table.ANSWERS, key_id(tenant, idempotency.key)))
        if known is None or item is None:
            raise Conflict(
                "the first request with this key was not accepted", code="idempotency-gone", hint="send it again"
            )
        answer: Answer = decode(Table.ANSWERS, item.value)
        return answer.body, known, revision

    async def _check_alive(self, tenant: TenantId, job: JobId) -> None:
        """A job that is over is a Conflict with its end named; an unknown one is NotFound."""
        alive = self._brain.world.tables.jobs.get(job)
        if alive is not None and alive.tenant == tenant:
            return
        if alive is not None:
            raise NotFound(f"no job {job}")
        over = await self._over(tenant, job)
        raise Conflict(f"job {over.name} is over: {over.state}", code="already-over")

    async def _over(self, tenant: TenantId, job: JobId) -> Job:
        """A job the World has let go of. Its end may not be on disk yet, and could be taken back: nobody hears of it before."""
        await self._brain.committer.durable(self._brain.world.number)
        if not await self._read_model.caught_up():
            raise Unavailable("the read model is behind", code="read-model-behind")
        return (await self._read_model.find_job(tenant, job)).job


def _submit(
    brain: Brain,
    tenant: TenantId,
    submission: Submission,
    job: JobId,
    idempotency: Idempotency | None,
    render: Render | None,
    now: Millis,
) -> tuple[Job, JobSpec]:
    return submit(brain.world, tenant, submission, job=job, now=now, idempotency=idempotency, render=render)


def _set_spec(brain: Brain, tenant: TenantId, job: JobId, spec: JobSpec, now: Millis) -> int:
    return requests.set_spec(brain.world, tenant, job, spec, now=now)


def _clean(brain: Brain, volume: Volume, now: Millis) -> CleanupItem:
    if volume.state is VolumeState.DROPPING:
        return CleanupItem(name=volume.name, action="skipped", why="its removal is under way")
    if is_expired(volume, now):
        doom(brain.world, volume, now)
        return CleanupItem(name=volume.name, action="deleted", why="its TTL has passed")
    if volume.expires_at is None:
        return CleanupItem(name=volume.name, action="skipped", why="its job is not over")
    left = (volume.expires_at - now + 999) // 1000
    return CleanupItem(name=volume.name, action="skipped", why=f"its TTL ends in {left} s")
