"""Placement: whoever is next, onto a node, one numbered decision per job, until nothing fits."""

from msgspec.structs import replace

from windlass.core.lifecycle import job as job_lifecycle
from windlass.core.lifecycle.job import JobEvent
from windlass.core.model.ids import Millis, run_id
from windlass.core.model.job import Job
from windlass.core.model.run import Run, Token
from windlass.core.model.tenant import SHARE
from windlass.core.model.volume import Volume, VolumeState, volume_name
from windlass.core.placement.nodes import Spot, Waiting, refusal
from windlass.core.world.accounts import charge_run, expected_work, weight_of
from windlass.core.world.bursts import join_burst
from windlass.core.world.gate import WORKERS_USED, Hold, Start, may_start, nodes_allowed
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
        start = may_start(world, job, now)
        if isinstance(start, Hold):
            world.tables.hold(job.tenant, start.reasons, start.until)
            continue
        match world.tables.places.pick(lane.shape):
            case Waiting(reasons=reasons):
                world.tables.queue.park(lane.band, reasons)
            case Spot() as spot:
                allowed = _where_allowed(world, job, spot)
                if allowed is None:
                    world.tables.hold_for_room(job.tenant, WORKERS_USED)
                else:
                    placed.append(_assign(world, job, allowed, start, now))
    return placed


def _where_allowed(world: World, job: Job, spot: Spot) -> Spot | None:
    """`spot`, or one on the nodes its tenant is on already when it may be on no more; None: there is no room on those."""
    nodes = nodes_allowed(world, job.tenant)
    if nodes is None or spot.node in nodes:
        return spot
    there = world.tables.places.pick(job.shape, among=nodes)
    return there if isinstance(there, Spot) else None


def _unpark(world: World) -> None:
    """Shapes that could use the room that has grown since; the others stay parked and cost nothing."""
    tables = world.tables
    slots = [slot for node in tables.grown if (slot := tables.places.slot(node)) is not None]
    tables.grown.clear()
    if not slots:
        return
    tables.let_go_for_room()
    for band in tables.queue.parked():
        if any(refusal(band.shape, slot) is None for slot in slots):
            tables.queue.unpark(band)


def _assign(world: World, job: Job, spot: Spot, start: Start, now: Millis) -> Run:
    with world.decision(now) as number:
        tables = world.tables
        session = join_burst(world, job.tenant, number=number, now=now) if start.is_over else None
        pool, tenant = tables.nodes[spot.node].pool, tables.tenants.get(job.tenant)
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
            pool=pool,
            prices=tables.prices.book(tenant.tier if tenant is not None else "", pool),
            burst=session.id if session is not None else "",
            burst_until=session.ends_at if session is not None else None,
            burst_factor=session.price_factor if session is not None else SHARE,
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
