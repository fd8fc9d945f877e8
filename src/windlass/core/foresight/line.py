"""Who of its tenant is in line before a waiting job. Read from the queue's own heads, in a trial, and no further than is asked."""

from heapq import heapify, heappop, heappush
from itertools import count

from windlass.core.fairness.ranks import rank_of
from windlass.core.model.ids import Millis
from windlass.core.model.job import Job
from windlass.core.world.records import Table
from windlass.core.world.world import World


def own_ahead(world: World, job: Job, *, now: Millis, most: int) -> list[Job]:
    """In the order in which they come, at most so many; nobody before a job that is not in the queue. Opens a trial.

    A lane knows its head; the one behind it is known once that has left, so each that is found leaves.
    """
    queue = world.tables.queue
    if job.is_suspended or job.not_before > now:
        return []
    rank, order = rank_of(job, queue.level_of(job)), count()
    heads = [(lane.rank, next(order), lane) for lane in queue.lanes() if lane.tenant == job.tenant]
    heapify(heads)
    found: list[Job] = []
    with world.trial(now):
        while heads and len(found) < most and heads[0][0] < rank:
            _, _, lane = heappop(heads)
            head = lane.front
            assert head is not None
            found.append(head)
            with world.decision(now):
                world.drop(Table.JOBS, head.id)
            if lane.front is not None:
                heappush(heads, (lane.rank, next(order), lane))
    return found
