"""How a job ends: its last record goes to the history, its name and volume begin to age, nothing of it stays in the World."""

from typing import Final

from msgspec.structs import replace

from windlass.core.lifecycle import job as job_lifecycle
from windlass.core.lifecycle.job import JobEvent
from windlass.core.model.hook import Hook
from windlass.core.model.ids import JobId, Millis, TenantId, VolumeId
from windlass.core.model.job import Job
from windlass.core.model.money import Micros
from windlass.core.model.run import Run
from windlass.core.model.volume import Volume, VolumeState
from windlass.core.world.records import JOBS, OUTBOX, SPECS, VOLUMES, JobErased, JobOver, Table
from windlass.core.world.spending import count_job, settle_storage
from windlass.core.world.submit import name_id
from windlass.core.world.world import World

_DROPPING: Final = VolumeState.DROPPING


def finish(
    world: World,
    job: Job,
    event: JobEvent,
    *,
    now: Millis,
    run: Run | None = None,
    cost: Micros | None = None,
    reason: str = "",
    message: str = "",
) -> None:
    """Part of a decision: the caller holds its number. With `run`, its last one, whoever bills that counts the job as well, and
    says what all of them cost."""
    over = replace(
        job,
        state=job_lifecycle.follow(job, event),
        since=now,
        finished_at=now,
        started_at=run.started_at if run is not None and job.started_at is None else job.started_at,
        exit_code=run.exit_code if run is not None else None,
        reason=reason or (run.reason if run is not None else ""),
        message=message or (run.message if run is not None else ""),
        cost=cost if cost is not None else job.cost,
    )
    world.put(OUTBOX, job.id, JobOver(job=over))
    world.put(JOBS, job.id, None)
    world.put(SPECS, job.id, None)
    if run is None:
        count_job(world, over)
    if over.webhook and not over.is_deleted:
        world.put(Table.HOOKS, job.id, Hook(job=job.id, tenant=job.tenant, url=over.webhook, not_before=now))
    _age_volume(world, over, now)
    if over.is_deleted:
        erase(
            world, over.id, over.tenant, name=over.name, volume=over.volume_id, with_volume=over.drops_volume, now=now
        )


def erase(
    world: World, job: JobId, tenant: TenantId, *, name: str, volume: VolumeId, with_volume: bool, now: Millis
) -> None:
    """Forget a job that is over: its name is free again, its history goes, what its runs left on nodes goes."""
    held = world.tables.names.get(name_id(tenant, name))
    if held is not None and held.job == job:
        world.drop(Table.NAMES, name_id(tenant, name))
    for run in world.runs_of(job):
        world.drop(Table.RUNS, run.id)
    if job in world.tables.hooks:
        world.drop(Table.HOOKS, job)
    world.put(Table.OUTBOX, job, JobErased(job=job, tenant=tenant, at=now))
    known = world.tables.volumes.get(volume)
    if with_volume and known is not None and known.job == job:
        doom(world, known, now)


def doom(world: World, volume: Volume, now: Millis) -> None:
    """Judged: its node is told until it says that the volume is gone. By id, so a namesake made since is safe."""
    if volume.state is VolumeState.DROPPING:
        return
    volume = settle_storage(world, volume, now)
    if volume.node is None and not volume.left_on:
        world.drop(Table.VOLUMES, volume.id)
    else:
        world.put(Table.VOLUMES, volume.id, replace(volume, state=VolumeState.DROPPING, since=now, expires_at=None))


def _age_volume(world: World, job: Job, now: Millis) -> None:
    volume = world.tables.volumes.get(job.volume or VolumeId(job.id))
    if volume is not None and volume.state is not _DROPPING:
        world.put(VOLUMES, volume.id, replace(volume, expires_at=Millis(now + job.volume_ttl_ms)))
