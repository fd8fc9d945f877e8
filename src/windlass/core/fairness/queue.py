"""The waiting jobs. A lane holds one tenant's jobs of one shape in FIFO order; the earliest head over all lanes is next.

Comes after admission, before placement. A lane whose shape found no place is parked, and costs nothing until capacity it could
use has grown. Entries that left the queue out of turn (cancelled, suspended) are dropped when they surface: removal is O(1).
"""

from heapq import heappop, heappush

from windlass.core.model.ids import JobId, TenantId
from windlass.core.model.job import Job
from windlass.core.model.shape import Shape

Rank = tuple[int, int]
"""Higher priority first, then order of acceptance."""


class Lane:
    __slots__ = ("_heap", "_members", "is_parked", "shape", "tenant", "waiting")

    def __init__(self, tenant: TenantId, shape: Shape) -> None:
        self.tenant = tenant
        self.shape = shape
        self.is_parked = False
        self.waiting: tuple[tuple[str, int], ...] = ()
        """Why it was parked: each reason with the nodes it ruled out."""
        self._heap: list[tuple[Rank, JobId]] = []
        self._members: set[JobId] = set()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, job: JobId) -> bool:
        return job in self._members

    def add(self, rank: Rank, job: JobId) -> None:
        self._members.add(job)
        heappush(self._heap, (rank, job))

    def discard(self, job: JobId) -> None:
        self._members.discard(job)

    def head(self) -> tuple[Rank, JobId] | None:
        while self._heap and self._heap[0][1] not in self._members:
            heappop(self._heap)
        return self._heap[0] if self._heap else None


class WaitingQueue:
    def __init__(self) -> None:
        self._lanes: dict[tuple[TenantId, Shape], Lane] = {}
        self._heads: list[tuple[Rank, int, Lane]] = []
        self._parked: set[Lane] = set()
        self._tick = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, job: Job) -> None:
        lane = self._lanes.get((job.tenant, job.shape))
        if lane is None:
            lane = self._lanes[job.tenant, job.shape] = Lane(job.tenant, job.shape)
        if job.id in lane:
            return
        lane.add((-job.priority, job.seq), job.id)
        self._count += 1
        self._list(lane)

    def discard(self, job: Job) -> None:
        lane = self._lanes.get((job.tenant, job.shape))
        if lane is None or job.id not in lane:
            return
        lane.discard(job.id)
        self._count -= 1
        if not lane:
            del self._lanes[job.tenant, job.shape]
            self._parked.discard(lane)

    def head(self) -> tuple[Lane, JobId] | None:
        """The next job of the lanes that are not parked."""
        while self._heads:
            rank, _, lane = self._heads[0]
            head = lane.head()
            if head is not None and head[0] == rank and not lane.is_parked:
                return lane, head[1]
            heappop(self._heads)
            if head is not None and not lane.is_parked:
                self._list(lane)
        return None

    def park(self, lane: Lane, reasons: tuple[tuple[str, int], ...]) -> None:
        lane.is_parked = True
        lane.waiting = reasons
        self._parked.add(lane)

    def unpark(self, lane: Lane) -> None:
        lane.is_parked = False
        lane.waiting = ()
        self._parked.discard(lane)
        self._list(lane)

    def parked(self) -> list[Lane]:
        return list(self._parked)

    def lane_of(self, job: Job) -> Lane | None:
        return self._lanes.get((job.tenant, job.shape))

    def _list(self, lane: Lane) -> None:
        head = lane.head()
        if head is not None and not lane.is_parked:
            self._tick += 1  # breaks ties between listings of the same head, so that lanes are never compared
            heappush(self._heads, (head[0], self._tick, lane))
