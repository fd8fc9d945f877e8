"""Placement: whoever is next, onto a node, one numbered decision per job, until nothing fits."""

from msgspec.structs import replace

from windlass.core.lifecycle import job as job_lifecycle
from windlass.core.lifecycle.job import JobEvent
from windlass.core.model.ids import Millis, run_id
from windlass.core.model.job import Job
from windlass.core.model.run import Run, Token
from windlass.core.model.volume import Volume, VolumeState, volume_name
from windlass.core.placement.nodes import Spot, Waiting, refusal
from windlass.core.world.accounts import charge_run, expected_work, weight_of
from windlass.core.world.records import Table
from windlass.core.world.world import World, with_state


def place(world: World, *, now: Millis, limit: int = 256) -> list[Run]:
    """At most `limit` placements, so that the loop breathes; call again while it returns that many."""
    world.tables.now = max(world.tables.now, now)
    _unpark(world)
    placed: list[Run] = []
    while len(placed) < limit:
        head = world.tables.queue.head()
        if head is None:
            break
        lane, job = head
        match world.tables.places.pick(lane.shape):
            case Waiting(reasons=reasons):
                world.tables.queue.park(lane.band, reasons)
            case Spot() as spot:
                placed.append(_assign(world, job, spot, now))
    return placed


def _unpark(world: World) -> None:
    """Shapes that could use the room that has grown since; the others stay parked and cost nothing."""
    tables = world.tables
    slots = [slot for node in tables.grown if (slot := tables.places.slot(node)) is not None]
    tables.grown.clear()
    if not slots:
        return
    for band in tables.queue.parked():
        if any(refusal(band.shape, slot) is None for slot in slots):
            tables.queue.unpark(band)


def _assign(world: World, job: Job, spot: Spot, now: Millis) -> Run:
    with world.decision(now) as number:
        attempt = job.attempt + 1
        run = Run(
            id=run_id(job.id, index=0, attempt=attempt),
            job=job.id,
            tenant=job.tenant,
            node=spot.node,
            attempt=attempt,
            token=Token(world.epoch, number),
            needs=job.shape.needs,
            gpu_ids=spot.gpu_ids,
            since=now,
            assigned_at=now,
            charged=expected_work(world, job),
            charged_weight=weight_of(world, job.tenant),
        )
        state = job_lifecycle.follow(job, JobEvent.PLACED)
        world.put(Table.RUNS, run.id, run)
        world.put(Table.JOBS, job.id, with_state(job, now=now, state=state, attempt=attempt, node=spot.node))
        charge_run(world, run)
        _settle_volume(world, job, spot, now)
    return run


def _settle_volume(world: World, job: Job, spot: Spot, now: Millis) -> None:
    """The job's volume lies on the node of its newest run; inputs are staged again when that node is another."""
    known = world.tables.volumes.get(job.volume_id)
    if known is None:
        known = Volume(id=job.volume_id, tenant=job.tenant, name=volume_name(job.name), job=job.id, since=now)
    if known.node == spot.node:
        return
    left = {*known.left_on, *((known.node,) if known.node is not None else ())} - {spot.node}
    moved = replace(known, node=spot.node, left_on=tuple(sorted(left)), state=VolumeState.WAITING)
    world.put(Table.VOLUMES, known.id, moved)
