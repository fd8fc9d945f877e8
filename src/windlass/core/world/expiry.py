"""What time alone decides: backoffs that end, deadlines that come near, kept runs, aged volumes, old keys.

`now` is service time: it never jumps.
"""

from msgspec.structs import replace

from windlass.core.model.calendar import day_start
from windlass.core.model.ids import JobId, Millis, RunId, TenantId, VolumeId
from windlass.core.model.job import Job
from windlass.core.model.volume import Volume, VolumeState
from windlass.core.world.backfill import review_promise
from windlass.core.world.bursts import burst_due
from windlass.core.world.finish import doom
from windlass.core.world.records import Table
from windlass.core.world.spending import check_budget, check_job_cost
from windlass.core.world.tables import MONEY_KEPT_MS
from windlass.core.world.timers import Due
from windlass.core.world.world import World


def expire(world: World, *, now: Millis, limit: int = 1000) -> int:
    """Settle what is due, `limit` things at most; answers the number to wait for."""
    world.tables.now = max(world.tables.now, now)
    review_promise(world, now)
    for _ in range(limit):
        due = world.tables.timers.pop_due(now)
        if due is None:
            break
        _settle(world, *due, now)
    return world.number


def _settle(world: World, due: Due, key: str, now: Millis) -> None:
    """The timer is a hint: the record decides."""
    tables = world.tables
    match due:
        case Due.BACKOFF:
            job = tables.jobs.get(JobId(key))
            if job is not None and job.id in tables.backing_off and job.not_before <= now:
                tables.dequeue(job)
                tables.enqueue(job)
                _note_woken(world, job)
        case Due.DEADLINE:
            job = tables.jobs.get(JobId(key))
            if job is not None and job.is_waiting and job.id not in tables.backing_off:
                tables.hurry(job)
                _note_woken(world, job)
        case Due.RUN_TTL:
            run = tables.runs.get(RunId(key))
            if run is not None and run.keep_until is not None and run.keep_until <= now:
                with world.decision(now):
                    world.drop(Table.RUNS, run.id)
        case Due.VOLUME_TTL:
            volume = tables.volumes.get(VolumeId(key))
            if volume is not None and is_expired(volume, now):
                with world.decision(now):
                    _expire_volume(world, volume, now)
        case Due.KEY:
            known = tables.keys.get(key)
            if known is not None and known.expires_at <= now:
                with world.decision(now):
                    world.drop(Table.KEYS, key)
                    world.drop(Table.ANSWERS, key)
        case _:
            _settle_money(world, due, key, now)


def _note_woken(world: World, job: Job) -> None:
    """In a trial time only seems to pass: afterwards the job is put back as it was."""
    if world.tables.woken is not None:
        world.tables.woken.append(job.id)


def _settle_money(world: World, due: Due, key: str, now: Millis) -> None:
    tables = world.tables
    match due:
        case Due.HOLD:
            tables.held_until.pop(TenantId(key), None)
            tables.queue.let_go(TenantId(key))
        case Due.BURST:
            burst_due(world, key, now)
        case Due.BUDGET:
            check_budget(world, TenantId(key), now)
            tables.watch_budget(TenantId(key))
        case Due.JOB_COST:
            check_job_cost(world, JobId(key), now)
        case Due.TOTAL:
            total = tables.totals.get(key)
            if total is not None and day_start(total.day) + MONEY_KEPT_MS <= now:
                with world.decision(now):
                    world.drop(Table.TOTALS, key)


def is_expired(volume: Volume, now: Millis) -> bool:
    return volume.state is not VolumeState.DROPPING and volume.expires_at is not None and volume.expires_at <= now


def _expire_volume(world: World, volume: Volume, now: Millis) -> None:
    """A container that is kept past its end still holds the volume: the volume waits for it."""
    kept_until = [run.keep_until for run in (world.runs_of(volume.job) if volume.job else ()) if run.keep_until]
    latest = max(kept_until, default=None)
    if latest is not None and latest > now:
        world.put(Table.VOLUMES, volume.id, replace(volume, expires_at=latest))
    else:
        doom(world, volume, now)
