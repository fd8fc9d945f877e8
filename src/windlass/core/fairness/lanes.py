"""What the waiting queue is made of: lanes of jobs, the shares and bands that hold lanes, and the numbers they are ordered by.

All heaps are lazy. An entry may be lower than the truth (the tenant was charged, the head was cancelled) and is put right when it
surfaces; it may never be higher, so whatever lowers a key pushes a new entry.
"""

from collections import deque
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from windlass.core.model.ids import TenantId
from windlass.core.model.job import Job
from windlass.core.model.shape import Shape

Rank = int
"""Urgent jobs first, by their deadline; then by priority; then by acceptance. One number: small to keep and quick to compare."""
Key = int
"""A finish tag, then the rank: at equal tags urgency, priority and acceptance decide, and no two jobs are equal."""
Entry = int
"""A key, then the number of the share or band it stands for."""
Reasons = tuple[tuple[str, int], ...]
BandKey = Shape | tuple[Shape, int]

SEQ_BITS: Final = 48
_LEVEL_BITS: Final = 44
"""Of a deadline in milliseconds; a level of urgency lies above it."""
RANK_BITS: Final = 96
NUMBER_BITS: Final = 32
NUMBER_MASK: Final = (1 << NUMBER_BITS) - 1
SLACK: Final = 64
"""A heap with more dead entries than live ones and these is made anew, so that a storm of cancels leaves nothing behind."""
_NEVER: Final = 1 << RANK_BITS
"""Above every rank."""


def rank_of(job: Job, level: int) -> Rank:
    if not level:
        return job.seq - (job.priority << SEQ_BITS)
    return (((job.due_at or 0) - (level << _LEVEL_BITS)) << SEQ_BITS) + job.seq


def band_key(job: Job) -> BandKey:
    """Jobs of one shape with about the same timeout: some of them may pass a waiting head, others not."""
    timeout = job.timeout_ms
    return job.shape if timeout is None else (job.shape, timeout.bit_length())


class Lane:
    """One tenant's jobs of one shape and one level of urgency, by rank. It knows the World's records by identity."""

    __slots__ = (
        "band",
        "count",
        "early",
        "front",
        "gone",
        "is_asleep",
        "last",
        "late",
        "level",
        "listed",
        "numbered",
        "order",
        "rank",
        "share",
        "tenant",
    )

    def __init__(self, tenant: TenantId, share: "Share", band: "Band", level: int, early: int) -> None:
        self.tenant = tenant
        self.share = share
        self.band = band
        self.level = level
        self.early = early
        """How far below its tenant's tag it counts: what its deadlines may borrow."""
        self.is_asleep = False
        self.listed: tuple[int, Lane] | None = None
        """Its newest entry, in the share's heap or, asleep, in the band's."""
        self.rank: Rank = _NEVER
        """The rank it is listed with: that of its head, or of one that has left."""
        self.front: Job | None = None
        """Its head, when it was last looked at."""
        self.count = 0
        self.order: deque[Job] = deque()
        """As they came, by ascending rank: nearly all of them do."""
        self.last: Rank = -_NEVER
        self.late: list[tuple[Rank, int, Job]] = []
        """A heap of those that came after a higher one, each with its number: a job that left out of turn and came back
        changed has the rank of the one that is still to be dropped."""
        self.numbered = 0
        self.gone: dict[int, int] = {}
        """Of those that left out of turn, by identity: how often. They are dropped when they surface."""

    def __len__(self) -> int:
        return self.count

    def __contains__(self, job: Job) -> bool:
        """Looks at all of them: for those who check, not for those who decide."""
        return any(one is job for one in self.jobs())

    def __lt__(self, other: "Lane") -> bool:
        return self.tenant < other.tenant  # ranks are unique: asked only of a dead entry and its successor

    @property
    def shape(self) -> Shape:
        return self.band.shape

    @property
    def waiting(self) -> Reasons:
        """Why its shape is parked; empty when it is not."""
        return self.band.waiting

    def add(self, rank: Rank, job: Job) -> None:
        self.count += 1
        if rank > self.last:
            self.order.append(job)
            self.last = rank
        else:
            self.numbered += 1
            heappush(self.late, (rank, self.numbered, job))

    def discard(self, job: Job) -> None:
        """A job that is in it, usually its head."""
        self.count -= 1
        order, late = self.order, self.late
        if order and order[0] is job:
            order.popleft()
        elif late and late[0][2] is job:
            heappop(late)
        else:
            self.gone[id(job)] = self.gone.get(id(job), 0) + 1
            if len(self.gone) > self.count + SLACK:
                self._tidy()

    def look(self) -> Rank:
        """Find the head of a lane that is not empty, and its rank."""
        self.front = job = self.order[0] if not self.late and not self.gone else self._first()
        self.rank = rank = rank_of(job, self.level) if self.level else job.seq - (job.priority << SEQ_BITS)
        return rank

    def key(self) -> Key:
        return ((self.share.finish - self.early) << RANK_BITS) + self.rank

    def first(self) -> Job:
        """The head of a lane that is not empty, for those who only look: nothing is noted."""
        return self._first()

    def jobs(self) -> list[Job]:
        """All of them, in no order."""
        self._tidy()
        return [*self.order, *(job for _, _, job in self.late)]

    def _first(self) -> Job:
        order, late = self.order, self.late
        while order and self._was_gone(order[0]):
            order.popleft()
        while late and self._was_gone(late[0][2]):
            heappop(late)
        if not late or (order and rank_of(order[0], self.level) < late[0][0]):
            return order[0]
        return late[0][2]

    def _was_gone(self, job: Job) -> bool:
        times = self.gone.get(id(job), 0)
        if times > 1:
            self.gone[id(job)] = times - 1
        elif times:
            del self.gone[id(job)]
        return times > 0

    def _tidy(self) -> None:
        if self.gone:
            self.order = deque(job for job in self.order if not self._was_gone(job))
            self.late = [entry for entry in self.late if not self._was_gone(entry[2])]
            heapify(self.late)


class Share:
    """One tenant's side of the queue: its tag, and its awake lanes by the rank of their heads."""

    __slots__ = ("asleep", "count", "finish", "heap", "held", "is_stale", "lanes", "listed", "number", "tenant")
    is_band: Final = False
    is_parked: Final = False
    is_hopeless: Final = False

    def __init__(self, number: int, tenant: TenantId) -> None:
        self.number = number
        self.tenant = tenant
        self.finish = 0
        self.count = 0
        self.lanes = 0
        self.asleep: set[Lane] = set()
        self.is_stale = True
        """What is listed may be lower than the truth. If not, nothing need be looked at again when it surfaces."""
        self.listed: Entry | None = None
        self.heap: list[tuple[Rank, Lane]] = []
        self.held: Reasons = ()
        """Why none of its lanes is in the running: the limit of its own that it has reached."""

    def push(self, lane: Lane, rank: Rank) -> bool:
        """False when what is listed is no higher."""
        if lane.listed is not None and lane.rank <= rank:
            return False
        lane.rank = rank
        lane.listed = entry = (rank, lane)
        heappush(self.heap, entry)
        if len(self.heap) > 2 * self.lanes + SLACK:
            self.heap = [entry for entry in self.heap if entry[1].listed is entry]
            heapify(self.heap)
        return True

    def floor(self) -> Entry | None:
        """What may be listed for now, told without a look at any job; None when there is nothing so cheap."""
        heap = self.heap
        if not heap or self.held:
            return None
        entry = heap[0]
        rank, lane = entry
        if lane.listed is not entry:
            return None
        return (((self.finish - lane.early) << RANK_BITS) + rank) << NUMBER_BITS | self.number

    def first_lane(self) -> Lane | None:
        """The lane whose head is its next; none while nothing of it is in the running."""
        heap = self.heap
        while heap and not self.held:
            entry = heap[0]
            lane = entry[1]
            if lane.listed is not entry:
                heappop(heap)
            elif lane.look() == entry[0]:
                return lane
            else:
                lane.listed = entry = (lane.rank, lane)
                heapreplace(heap, entry)
                if heap[0] is entry:
                    return lane
        return None

    def true_entry(self, lane: Lane) -> Entry:
        """What is listed for it when `lane` is its first."""
        return (((self.finish - lane.early) << RANK_BITS) + lane.rank) << NUMBER_BITS | self.number


class Band:
    """The lanes of one shape; those asleep by the key they will have when they wake."""

    __slots__ = (
        "heap",
        "is_hopeless",
        "is_parked",
        "is_stale",
        "key_in_queue",
        "lanes",
        "listed",
        "number",
        "scarce",
        "shape",
        "waiting",
        "yields",
    )
    is_band: Final = True

    def __init__(self, number: int, key_in_queue: BandKey) -> None:
        self.number = number
        self.key_in_queue = key_in_queue
        self.shape = key_in_queue if isinstance(key_in_queue, Shape) else key_in_queue[0]
        self.lanes: dict[TenantId | tuple[TenantId, int], Lane] = {}
        self.is_parked = False
        self.yields = False
        """Parked only because it would have delayed somebody who was first."""
        self.is_hopeless = False
        """Parked, and no node there is could ever take it: nothing is kept free for it."""
        self.is_stale = True
        """Always: tags of the tenants asleep in it change without its knowledge."""
        self.waiting: Reasons = ()
        """Why it was parked: each reason with the nodes it ruled out."""
        self.scarce = ""
        """What most of them lacked: `cpu`, `memory`, `gpu`, or nothing that can be counted."""
        self.listed: Entry | None = None
        self.heap: list[tuple[Key, Lane]] = []

    def push(self, lane: Lane, rank: Rank) -> bool:
        """False when what is listed is no higher."""
        lane.rank = rank
        key = lane.key()
        if lane.listed is not None and lane.listed[0] <= key:
            return False
        lane.listed = entry = (key, lane)
        heappush(self.heap, entry)
        if len(self.heap) > 2 * len(self.lanes) + SLACK:
            self.heap = [entry for entry in self.heap if entry[1].listed is entry]
            heapify(self.heap)
        return True

    def floor(self) -> Entry | None:
        """Never: a lane asleep knows its key only after a look."""
        return None

    def first_lane(self) -> Lane | None:
        """Of those asleep in it."""
        heap = self.heap
        while heap:
            entry = heap[0]
            lane = entry[1]
            if lane.listed is not entry:
                heappop(heap)
                continue
            lane.look()
            key = lane.key()
            if key == entry[0]:
                return lane
            lane.listed = entry = (key, lane)
            heapreplace(heap, entry)
        return None

    def true_entry(self, lane: Lane) -> Entry:
        return lane.key() << NUMBER_BITS | self.number
