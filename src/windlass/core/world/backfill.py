"""Who may pass the first of those that found no place, and where. Between the queue's "who is next" and placement's "where"."""

from collections.abc import Collection

from msgspec.structs import replace

from windlass.core.fairness.lanes import Lane
from windlass.core.model.ids import Millis, NodeId
from windlass.core.model.job import Job
from windlass.core.model.node import ACTIVE
from windlass.core.placement.promise import Reservation
from windlass.core.placement.reservation import CANDIDATES_MAX, may_pass, opening, reserve
from windlass.core.placement.spot import Spot, Waiting
from windlass.core.world.verdict import Yields
from windlass.core.world.world import World


def find_spot(
    world: World, lane: Lane, job: Job, now: Millis, *, among: Collection[NodeId] | None = None
) -> Spot | Waiting | Yields | None:
    """Where `job`, the head of `lane`, may start. None: somebody else has become first; ask who is next again."""
    tables = world.tables
    spot = tables.places.pick(lane.shape, among=among)
    if isinstance(spot, Waiting) or not world.policy.is_backfilling:
        return spot
    first = tables.queue.blocked()
    if first is None or not tables.queue.is_before(first[0], lane):
        return spot
    if not _keeps_promise(world, *first):
        return None
    promised = _promised(world, first[1], now)
    if promised is None or promised.node != spot.node or may_pass(job, promised, now):
        return spot
    elsewhere = tables.places.pick(lane.shape, among=among, besides=promised.node)
    return elsewhere if isinstance(elsewhere, Spot) else Yields()


def review_promise(world: World, now: Millis) -> None:
    """A run it counts on is late: the start it promised has moved, and who made way for it is asked again."""
    due = world.tables.promise_due()
    if due is not None and due <= now:
        world.tables.ask_who_made_way()


def has_lapsed(world: World) -> bool:
    """When nobody else is next: whether any of those that made way is asked again, because another is first now.

    The promise changes hands by their asking and not before: who has no room any more would not have passed anybody.
    """
    tables = world.tables
    first = tables.queue.blocked() if tables.has_yielding else None
    if first is None:
        return False
    (lane, job), promised = first, tables.reservation
    if lane.band.yields:
        tables.queue.unpark(lane.band)
        return True
    if promised is not None and promised.job == job.id:
        return False
    tables.ask_who_made_way()
    return True


def _keeps_promise(world: World, lane: Lane, job: Job) -> bool:
    """False when the first that is parked is not who was promised something: then who made way is asked again.

    Who is first changes with every placing; the node stays, as long as whoever had it still waits and it can take the next one.
    """
    tables = world.tables
    promised = tables.reservation
    if lane.band.yields:
        tables.queue.unpark(lane.band)
        return False
    if promised is None or promised.job == job.id:
        return True
    had = tables.jobs.get(promised.job)
    slot = tables.places.slot(promised.node)
    if had is None or not had.is_waiting or slot is None or not tables.places.could_take(job.shape, slot.node):
        tables.forget_promise()
        return False
    if had.shape == job.shape:
        tables.reservation = replace(promised, job=job.id)
        return True
    tables.forget_promise()
    tables.reservation = opening(job, slot, tables.now)
    return False


def _promised(world: World, first: Job, now: Millis) -> Reservation | None:
    """To `first`: found out once, and again when its node has changed."""
    tables = world.tables
    known = tables.reservation
    slot = tables.places.slot(known.node) if known is not None else None
    if known is None or slot is None or slot.node.state is not ACTIVE:
        tables.reservation = reserve(first, tables.places.candidates(first.shape, CANDIDATES_MAX), now)
    elif slot.version != known.version or (known.holds_until is not None and known.holds_until <= now):
        tables.reservation = opening(first, slot, now)
    return tables.reservation
