"""What people ask of a live job or a volume: cancel, release, delete, give it inputs, copy a file in, drop."""

from msgspec.structs import replace

from windlass.core.errors import Conflict, NotFound
from windlass.core.lifecycle.job import JobEvent
from windlass.core.model.ids import JobId, Millis, TenantId, VolumeId
from windlass.core.model.job import Input, JobSpec, JobState
from windlass.core.model.naming import volume_name
from windlass.core.model.run import TAKEN_DOWN, Intent
from windlass.core.model.volume import Volume
from windlass.core.world.finish import doom, finish
from windlass.core.world.records import Table
from windlass.core.world.submit import name_id, waiting_volume
from windlass.core.world.world import World


def cancel(world: World, tenant: TenantId, job: JobId, *, now: Millis) -> int:
    """Accepted, it wins unless a result was committed before it. Asking twice is fine."""
    found = world.job(job, tenant=tenant)
    with world.decision(now):
        if found.state is JobState.PENDING:
            finish(world, found, JobEvent.CANCELLED, now=now, reason="Cancelled", message="cancelled before it started")
        elif not found.is_cancelled:
            world.put(Table.JOBS, job, replace(found, is_cancelled=True))
            run = world.live_run(job)
            if run is not None:
                world.put(Table.RUNS, run.id, replace(run, intent=Intent.STOP))
    return world.number


def take_down(world: World, *, now: Millis) -> int:
    """The installation ends: what runs, whoever's it is, is cancelled with its grace. What waits goes on waiting."""
    with world.decision(now):
        for tenant in tuple(world.tables.tenants):
            for run in world.live_runs(tenant):
                job = world.tables.jobs[run.job]
                if not job.is_cancelled:
                    world.put(Table.JOBS, job.id, replace(job, is_cancelled=True))
                    world.put(Table.RUNS, run.id, replace(run, intent=Intent.STOP, stopped_for=TAKEN_DOWN))
    return world.number


def release(world: World, tenant: TenantId, job: JobId, *, now: Millis) -> int:
    found = world.job(job, tenant=tenant)
    with world.decision(now):
        if found.is_suspended:
            due_at = Millis(now + found.sla_ms) if found.sla_ms is not None else None
            world.put(Table.JOBS, job, replace(found, is_suspended=False, due_at=due_at))
    return world.number


def delete(world: World, tenant: TenantId, job: JobId, *, with_volume: bool, now: Millis) -> int:
    """Of a live job: cancel it, and erase it when it has ended."""
    found = world.job(job, tenant=tenant)
    with world.decision(now):  # one decision: a crash must not leave a job marked but never cancelled
        world.put(Table.JOBS, job, replace(found, is_deleted=True, drops_volume=with_volume))
        return cancel(world, tenant, job, now=now)


def set_spec(world: World, tenant: TenantId, job: JobId, spec: JobSpec, *, now: Millis) -> int:
    """New inputs for a job that has not been released yet."""
    found = world.job(job, tenant=tenant)
    if not found.is_suspended:
        raise Conflict(
            f"job {found.name} is no longer suspended: its inputs are fixed",
            code="not-suspended",
            hint="upload before it is released: create it with suspend: true",
        )
    with world.decision(now):
        world.put(Table.SPECS, job, spec)
    return world.number


def copy_file(world: World, tenant: TenantId, job_name: str, item: Input, *, volume: VolumeId, now: Millis) -> Volume:
    """A file for a job that may not exist yet: its volume is made now and adopted when the job comes."""
    if name_id(tenant, job_name) in world.tables.names:
        raise Conflict(
            f"job {job_name!r} exists already",
            code="name-taken",
            hint="copy-file comes before the job; delete the job first, or upload to a suspended one",
        )
    known = waiting_volume(world, tenant, job_name)
    if known is None:
        known = Volume(id=volume, tenant=tenant, name=volume_name(job_name), since=now)
    others = tuple(old for old in known.inputs if old.path != item.path)
    expires_at = Millis(now + world.policy.unclaimed_volume_ttl_ms)
    made = replace(known, inputs=(*others, item), expires_at=expires_at)
    with world.decision(now):
        world.put(Table.VOLUMES, made.id, made)
    return made


def find_volume(world: World, tenant: TenantId, ref: str) -> Volume:
    """By the name people see, or by uid."""
    by_name = world.tables.volume_named.get((tenant, ref))
    volume = world.tables.volumes.get(by_name if by_name is not None else VolumeId(ref))
    if volume is None or volume.tenant != tenant:
        raise NotFound(f"no volume {ref!r}", hint="`windlass get volumes` lists them")
    return volume


def drop_volume(world: World, tenant: TenantId, ref: str, *, now: Millis) -> int:
    volume = find_volume(world, tenant, ref)
    if volume.job is not None and volume.job in world.tables.jobs:
        raise Conflict(f"volume {ref} belongs to a live job", code="volume-in-use", hint="cancel the job first")
    with world.decision(now):
        doom(world, volume, now)
    return world.number
