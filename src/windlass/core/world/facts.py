"""What the nodes report, turned into decisions. A fact with a stale token, or about a run that is over, changes nothing."""

from typing import Final

from msgspec.structs import replace

from windlass.core.lifecycle import job as job_lifecycle
from windlass.core.lifecycle import run as run_lifecycle
from windlass.core.lifecycle.job import JobEvent
from windlass.core.lifecycle.run import RunEvent
from windlass.core.metering import segments, total
from windlass.core.model.facts import Fact, RunEnded, RunProgressed, RunStarted, VolumeGone, VolumeMade, with_tail
from windlass.core.model.ids import Millis
from windlass.core.model.job import Job, JobState
from windlass.core.model.money import Micros
from windlass.core.model.run import TAKEN_DOWN, TIMED_OUT, Intent, Run, RunState
from windlass.core.model.spending import Segment
from windlass.core.model.volume import VolumeState, doomed_on
from windlass.core.world.accounts import settle_run
from windlass.core.world.finish import finish
from windlass.core.world.records import JOBS, OUTBOX, RUNS, VOLUMES, RunOver
from windlass.core.world.spending import bill_run, priced, why_stopped
from windlass.core.world.world import World, with_state

_RUNNING: Final = JobState.RUNNING
_STARTED: Final = RunEvent.STARTED
_EXITED: Final = RunState.EXITED
_JOB_STARTED: Final = JobEvent.STARTED
_SUCCEEDED: Final = JobEvent.SUCCEEDED
_END_EVENTS: Final = {
    RunState.EXITED: RunEvent.EXITED,
    RunState.STOPPED: RunEvent.STOPPED,
    RunState.REFUSED: RunEvent.REFUSED,
    RunState.LOST: RunEvent.PROVED_DEAD,
}


def observe(world: World, fact: Fact, *, now: Millis) -> int:
    """Apply one fact; answers the number that must be durable before it is acknowledged."""
    with world.decision(now):
        match fact:
            case RunEnded():
                _ended(world, fact, now)
            case RunStarted():
                _started(world, fact, now)
            case RunProgressed():
                _progressed(world, fact, now)
            case VolumeMade():
                volume = world.tables.volumes.get(fact.volume)
                if volume is not None and volume.state is VolumeState.WAITING and volume.node == fact.node:
                    made = replace(volume, state=VolumeState.PRESENT, since=now)
                    world.put(VOLUMES, volume.id, priced(world, made, fact.node, fact.size_bytes, now))
            case VolumeGone():
                _volume_gone(world, fact)
    return world.number


def _volume_gone(world: World, fact: VolumeGone) -> None:
    """One node's copy went; the record goes with the last one that was to go."""
    volume = world.tables.volumes.get(fact.volume)
    if volume is None or fact.node not in doomed_on(volume):
        return
    left = replace(
        volume,
        node=None if volume.node == fact.node else volume.node,
        left_on=tuple(node for node in volume.left_on if node != fact.node),
    )
    if left.state is VolumeState.DROPPING and not doomed_on(left):
        world.drop(VOLUMES, volume.id)
    else:
        world.put(VOLUMES, volume.id, left)


def _progressed(world: World, fact: RunProgressed, now: Millis) -> None:
    run = world.current_run(fact.run, fact.token)
    if run is None or (run.state, RunEvent.PREPARING) not in run_lifecycle.NEXT or run.progress == fact.progress:
        return
    state = run_lifecycle.follow(run, RunEvent.PREPARING)
    since = run.since if state is run.state else now
    world.put(RUNS, run.id, replace(run, state=state, progress=fact.progress, image_wait=fact.image_wait, since=since))
    job = world.tables.jobs[run.job]
    if job.state is JobState.SCHEDULED:
        world.put(JOBS, job.id, with_state(job, job_lifecycle.follow(job, JobEvent.TAKEN_UP), now=now))


def _started(world: World, fact: RunStarted, now: Millis) -> None:
    run = world.current_run(fact.run, fact.token)
    state = run_lifecycle.NEXT.get((run.state, _STARTED)) if run is not None else None
    if run is None or state is None:
        return
    started_at = run.started_at if run.started_at is not None else now
    ends_at = Millis(run.ends_at + now - run.assigned_at) if run.ends_at is not None else None
    over_at = ends_at if run.started_at is None else run.ends_at
    started = replace(run, state=state, started_at=started_at, ends_at=over_at, progress="", image_wait=None, since=now)
    world.put(RUNS, run.id, started)
    job = world.tables.jobs[run.job]
    if job.state is not _RUNNING:
        first = job.started_at if job.started_at is not None else now
        state_now = job_lifecycle.follow(job, _JOB_STARTED)
        world.put(JOBS, job.id, replace(job, state=state_now, since=now, started_at=first))


def _ended(world: World, fact: RunEnded, now: Millis) -> None:
    run = world.current_run(fact.run, fact.token)
    state = run_lifecycle.NEXT.get((run.state, _END_EVENTS[fact.state])) if run is not None else None
    if run is None or state is None:
        return  # over already; or an earlier agent's word, under way since before this run was started after all
    job = world.tables.jobs[run.job]
    over = replace(
        run,
        state=state,
        since=now,
        started_at=run.started_at if run.started_at is not None or fact.ran_ms == 0 else _began(run, fact, now),
        ended_at=now,
        exit_code=fact.exit_code,
        reason=fact.reason,
        message=fact.message,
        progress="",
        image_wait=None,
        ran_ms=fact.ran_ms,
        cpu_used_ms=fact.cpu_used_ms,
        memory_peak_bytes=fact.memory_peak_bytes,
    )
    parts = segments(over)
    cost = Micros(job.cost + total(parts))
    _lay_to_rest(world, job, over, parts, now)
    is_finished = _conclude(world, job, over, cost, fact, now)
    settle_run(world, job, over, now)
    bill_run(world, over, parts, now, finished=job if is_finished else None)


def _began(run: Run, fact: RunEnded, now: Millis) -> Millis:
    """Of one whose start was never told; not before it was placed, whatever its node's clock made of it."""
    return Millis(max(run.assigned_at, now - fact.ran_ms))


def _lay_to_rest(world: World, job: Job, run: Run, parts: tuple[Segment, ...], now: Millis) -> None:
    """Into the history at once; its container is kept for the run TTL if it has one, else the node drops it now."""
    world.put(OUTBOX, run.id, RunOver(run=run, segments=parts))
    if job.run_ttl_ms > 0 and run.state is not RunState.LOST:
        kept = replace(run, intent=Intent.KEEP, keep_until=Millis(now + job.run_ttl_ms))
        world.put(RUNS, run.id, kept)
    else:
        world.put(RUNS, run.id, None)


def _conclude(world: World, job: Job, run: Run, cost: Micros, fact: RunEnded, now: Millis) -> bool:
    """False: it is tried again. `cost`: of all its runs, this one counted."""
    if job.is_cancelled:
        reason, said = "Cancelled", "cancelled on request"
        if run.stopped_for == TAKEN_DOWN:
            reason, said = TAKEN_DOWN, "ended because the installation was taken down (`windlass down`)"
        finish(world, job, JobEvent.CANCELLED, run=run, cost=cost, now=now, reason=reason, message=said)
    elif run.reason == TIMED_OUT:
        finish(world, job, JobEvent.TIMED_OUT, run=run, cost=cost, now=now)
    elif run.state is _EXITED and run.exit_code == 0:
        finish(world, job, _SUCCEEDED, run=run, cost=cost, now=now)
    elif run.stopped_for:
        said = with_tail(why_stopped(job, run, cost), fact.tail)
        finish(world, job, JobEvent.FAILED, run=run, cost=cost, now=now, reason=run.stopped_for, message=said)
    elif fact.is_retriable and job.attempt <= job.retries:
        _retry(world, job, run, cost, now)
        return False
    else:
        finish(world, job, JobEvent.FAILED, run=run, cost=cost, now=now)
    return True


def _retry(world: World, job: Job, run: Run, cost: Micros, now: Millis) -> None:
    policy = world.policy
    backoff = min(policy.retry_backoff_ms << min(job.attempt - 1, 20), policy.retry_backoff_max_ms)
    again = with_state(
        job,
        job_lifecycle.follow(job, JobEvent.RETRIED),
        now=now,
        node=None,
        not_before=Millis(now + backoff),
        reason=run.reason,
        message=f"attempt {job.attempt} of {job.retries + 1} ended: {run.reason}; trying again",
        cost=cost,
    )
    world.put(JOBS, job.id, again)
