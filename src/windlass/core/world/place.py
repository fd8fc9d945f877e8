"""Placement: whoever is next, onto a node, one numbered decision per job, until nothing fits."""

from typing import Final

from msgspec.structs import replace

from windlass.core.fairness.lanes import Lane
from windlass.core.lifecycle import job as job_lifecycle
from windlass.core.lifecycle.job import JobEvent
from windlass.core.model.ids import Millis, NodeId, VolumeId, run_id
from windlass.core.model.job import Job
from windlass.core.model.naming import volume_name
from windlass.core.model.run import Run, Token
from windlass.core.model.tenant import SHARE
from windlass.core.model.volume import Volume, VolumeState
from windlass.core.placement.reservation import known_end
from windlass.core.placement.spot import Spot, Waiting
from windlass.core.world.accounts import charge_run, expected_work
from windlass.core.world.backfill import find_spot, has_lapsed, review_promise
from windlass.core.world.bursts import join_burst
from windlass.core.world.gate import WORKERS_USED, may_start, nodes_allowed
from windlass.core.world.growth import count_use
from windlass.core.world.offers import Offers
from windlass.core.world.records import JOBS, RUNS, VOLUMES
from windlass.core.world.spending import settle_storage
from windlass.core.world.timers import Due
from windlass.core.world.verdict import Hold, Start, Yields
from windlass.core.world.world import World

_PLACED: Final = JobEvent.PLACED
_NO_ROOM: Final = Waiting(reasons=WORKERS_USED)


def place(world: World, *, now: Millis, limit: int = 256) -> list[Run]:
    """At most `limit` placements, so that the loop breathes; call again while it returns that many."""
    tables = world.tables
    tables.now = max(tables.now, now)
    _unpark(world)
    review_promise(world, now)
    offers = Offers(world)
    placed: list[Run] = []
    readmitted = 0
    while len(placed) < limit:
        head = tables.queue.head()
        if offers.wakes(head[0] if head is not None else None):
            continue
        if head is None:
            if has_lapsed(world):
                continue
            break
        lane, job = head
        tenant, shape = job.tenant, job.shape
        if shape.admitted != tables.fleet.admitted.get(tenant, ()) or shape.allowed != tables.allowed.get(tenant, ()):
            readmitted += 1
            if readmitted > limit:
                tables.timers.add(now, Due.HOLD, job.tenant)  # due at once: the loop breathes, and comes back
                break
            _readmit(world, job, now)
            continue
        start = may_start(world, job, now)
        if isinstance(start, Hold):
            (tables.hold_for_room if start.is_for_room else tables.hold)(job.tenant, start.reasons, start.until)
            continue
        spot = find_spot(world, lane, job, now)
        run = _settle(world, lane, job, spot, start, now) if spot is not None else None
        if run is not None:
            placed.append(run)
    return placed


def _settle(world: World, lane: Lane, job: Job, spot: Spot | Waiting | Yields, start: Start, now: Millis) -> Run | None:
    """What was found of the head of `lane`: it is placed, or waits."""
    queue, nodes = world.tables.queue, nodes_allowed(world, job.tenant)
    if nodes is not None and not (isinstance(spot, Spot) and spot.node in nodes):
        # Its own bound and not the room is what holds it, also where there is no room: no pool grows for it.
        return _assign_among(world, lane, job, nodes, start, now)
    if isinstance(spot, Spot):
        return _assign(world, lane, job, spot, start, now)
    if isinstance(spot, Waiting):
        is_hopeless = bool(world.tables.places.could_ever_fit(lane.shape))
        queue.park(lane.band, spot.reasons, scarce=spot.scarce, is_hopeless=is_hopeless)
    else:
        queue.park(lane.band, spot.reasons, yields=True)
    return None


def _readmit(world: World, job: Job, now: Millis) -> None:
    """Who may use which pool has changed since it was queued: its turn comes again, as the shape it has now."""
    tables = world.tables
    admitted, allowed = tables.fleet.admitted.get(job.tenant, ()), tables.allowed.get(job.tenant, ())
    with world.decision(now):
        shape = tables.shared(replace(job.shape, admitted=admitted, allowed=allowed))
        world.put(JOBS, job.id, replace(job, shape=shape))


def _assign_among(
    world: World, lane: Lane, job: Job, nodes: frozenset[NodeId], start: Start, now: Millis
) -> Run | None:
    """On the nodes its tenant is on already, because it may be on no more; None: there is no room on those now."""
    tables = world.tables
    slots = [slot for node in nodes if (slot := tables.places.slot(node)) is not None]
    has_room = tables.places.could_use_any(lane.shape, slots)  # nearly never; then nobody asks what each of them lacks
    spot = find_spot(world, lane, job, now, among=nodes) if has_room else _NO_ROOM
    if isinstance(spot, Spot):
        return _assign(world, lane, job, spot, start, now)
    if isinstance(spot, Yields):
        tables.hold_for_promise(job.tenant, spot.reasons)
    elif isinstance(spot, Waiting):
        tables.hold_for_room(job.tenant, WORKERS_USED, None, on=nodes)
    return None


def _unpark(world: World) -> None:
    """Where more has changed than the room on nodes: what found no place is asked again. For room that has grown see `Offers`."""
    tables = world.tables
    if tables.fleet.has_changed:
        tables.fleet.has_changed = False
        tables.forget_promise()  # its node may not be one for that job any more
        tables.let_go_for_pools()
        for band in tables.queue.parked():
            tables.queue.unpark(band)
    if tables.has_other_nodes:
        tables.has_other_nodes = False
        for band in tables.queue.hopeless():
            tables.queue.unpark(band)
    if tables.grown:
        tables.let_go_for_room()


def _assign(world: World, lane: Lane, job: Job, spot: Spot, start: Start, now: Millis) -> Run:
    early = lane.early
    with world.decision(now) as number:
        tables = world.tables
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
            since=now,
            assigned_at=now,
            ends_at=known_end(job, now),
            pool=pool,
            gpu_ids=spot.gpu_ids,
            charged=expected_work(world, job),
            charged_weight=tenant.weight if tenant is not None else SHARE,
            prices=tables.book(job.tenant, pool),
        )
        if start.is_over:
            session = join_burst(world, job.tenant, number=number, now=now)
            run = replace(run, burst=session.id, burst_until=session.ends_at, burst_factor=session.price_factor)
        state = job_lifecycle.follow(job, _PLACED)
        world.put(RUNS, run.id, run)
        # Why the attempt before it ended is that run's, and no word about this one.
        placed = replace(job, state=state, since=now, attempt=attempt, node=spot.node, reason="", message="")
        world.put(JOBS, job.id, placed)
        charge_run(world, run, now, early=early)
        count_use(world, spot.node, now)
        _settle_volume(world, job, tables.fleet.home_of(spot.node), now)
    return run


def _settle_volume(world: World, job: Job, node: NodeId, now: Millis) -> None:
    """The job's volume lies on the node of its newest run; inputs are staged again when that node is another."""
    volume = job.volume or VolumeId(job.id)
    known = world.tables.volumes.get(volume)
    if known is None:
        name = volume_name(job.name)
        made = Volume(id=volume, tenant=job.tenant, name=name, job=job.id, node=node, since=now)
        world.put(VOLUMES, volume, made)
        return
    if known.node == node:
        return
    known = settle_storage(world, known, now)
    left = {*known.left_on, *((known.node,) if known.node is not None else ())} - {node}
    moved = replace(known, node=node, left_on=tuple(sorted(left)), state=VolumeState.WAITING)
    world.put(VOLUMES, known.id, moved)
