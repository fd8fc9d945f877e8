"""The waiting jobs. Next is the job of the tenant with the lowest finish tag; within a tenant, by priority, then acceptance.

Comes after admission, before placement. A *lane* holds one tenant's jobs of one shape. Lanes are awake in their tenant's *share*,
or asleep in the *band* of their shape: a shape that found no place is parked for every tenant at once, each of its lanes falls
asleep when its turn comes, and wakes by its turn once the band is unparked. So neither parking nor unparking looks at the lanes,
and a tenant whose lanes are all asleep is out of the running.

All heaps are lazy. An entry may be lower than the truth (the tenant was charged, the head was cancelled) and is put right when it
surfaces; it may never be higher, so whatever lowers a key pushes a new entry. Everything is O(log n), amortised; a tag that
moves back (a refund, an undo) also touches that tenant's sleeping lanes.
"""

from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Final

from windlass.core.model.ids import JobId, TenantId
from windlass.core.model.job import Job
from windlass.core.model.shape import Shape

Rank = int
"""Higher priority first, then order of acceptance, as one number: small to keep and quick to compare."""
Reasons = tuple[tuple[str, int], ...]

_SLACK: Final = 64
"""A heap with more dead entries than live ones and these is made anew, so that a storm of cancels leaves nothing behind."""


class WaitingQueue:
    def __init__(self) -> None:
        self._shares: dict[TenantId, Share] = {}
        self._bands: dict[Shape, Band] = {}
        self._heap: list[Entry] = []
        """Who may be next: shares by their awake lanes, unparked bands by those that have not woken yet."""
        self._parked: set[Band] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, job: Job) -> bool:
        lane = self.lane_of(job)
        return lane is not None and job in lane

    def add(self, job: Job) -> None:
        band = self._bands.get(job.shape)
        if band is None:
            band = self._bands[job.shape] = Band(job.shape)
        lane = band.lanes.get(job.tenant)
        if lane is None:
            lane = self._open_lane(job.tenant, band)
        if not lane.add(rank := rank_of(job), job.id):
            return
        lane.share.count += 1
        self._count += 1
        if lane.head_rank() == rank:
            self._list_lane(lane, rank)

    def discard(self, job: Job) -> None:
        lane = self.lane_of(job)
        if lane is None or not lane.discard(rank_of(job)):
            return
        lane.share.count -= 1
        self._count -= 1
        if not lane:
            self._close_lane(lane)

    def head(self) -> tuple["Lane", JobId] | None:
        """The next job of the bands that are not parked."""
        while (source := self._first()) is not None:
            lane = source.heap[0][-1]
            if isinstance(source, Band):
                self._wake(lane)
            elif lane.band.is_parked:
                self._put_to_sleep(lane)
            else:
                return lane, lane.head()
        return None

    def tag(self, tenant: TenantId, finish: int) -> None:
        """The tenant's account has changed. A tag that rose is noticed when it surfaces."""
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = Share()
        has_fallen = finish < share.finish
        share.finish = finish
        if has_fallen:
            self._list(share)
            for lane in share.asleep:
                self._list_lane(lane, lane.head_rank())

    def park(self, band: "Band", reasons: Reasons) -> None:
        band.is_parked = True
        band.waiting = reasons
        self._parked.add(band)

    def unpark(self, band: "Band") -> None:
        band.is_parked = False
        band.waiting = ()
        self._parked.discard(band)
        self._list(band)

    def parked(self) -> list["Band"]:
        return list(self._parked)

    def lane_of(self, job: Job) -> "Lane | None":
        band = self._bands.get(job.shape)
        return band.lanes.get(job.tenant) if band is not None else None

    def waits(self, tenant: TenantId) -> int:
        """How many of its jobs are queued."""
        share = self._shares.get(tenant)
        return share.count if share is not None else 0

    def _first(self) -> "Share | Band | None":
        """Whoever has the lowest key, its entry put right."""
        heap = self._heap
        while heap:
            entry = heap[0]
            source = entry[2]
            if source.listed is not entry:
                heappop(heap)
                continue
            key = source.key()
            if key is None:
                source.listed = None
                heappop(heap)
            elif key[0] == entry[0] and key[1] == entry[1]:
                return source
            else:
                source.listed = entry = (key[0], key[1], source)
                heapreplace(heap, entry)
        return None

    def _list(self, source: "Share | Band") -> None:
        """Into the heap with its true key, unless an entry is there that is no higher."""
        key = source.key()
        if key is None or (source.listed is not None and source.listed[:2] <= key):
            return
        source.listed = entry = (key[0], key[1], source)
        heappush(self._heap, entry)
        if len(self._heap) > 2 * (len(self._shares) + len(self._bands)) + _SLACK:
            self._heap = [entry for entry in self._heap if entry[2].listed is entry]
            heapify(self._heap)

    def _list_lane(self, lane: "Lane", rank: Rank) -> None:
        """The lane's head is `rank` now, or its tenant's tag has fallen."""
        source = lane.band if lane.is_asleep else lane.share
        if source.push(lane, rank):
            self._list(source)

    def _wake(self, lane: "Lane") -> None:
        lane.share.asleep.discard(lane)
        lane.is_asleep, lane.listed = False, None
        self._list_lane(lane, lane.head_rank())

    def _put_to_sleep(self, lane: "Lane") -> None:
        lane.share.asleep.add(lane)
        lane.is_asleep, lane.listed = True, None
        self._list_lane(lane, lane.head_rank())

    def _open_lane(self, tenant: TenantId, band: "Band") -> "Lane":
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = Share()
        lane = band.lanes[tenant] = Lane(tenant, share, band)
        share.lanes += 1
        return lane

    def _close_lane(self, lane: "Lane") -> None:
        band, share = lane.band, lane.share
        lane.listed = None
        share.asleep.discard(lane)
        share.lanes -= 1
        del band.lanes[lane.tenant]
        if not band.lanes:
            band.listed = None
            del self._bands[band.shape]
            self._parked.discard(band)


class Lane:
    """One tenant's jobs of one shape, by rank."""

    __slots__ = ("_heap", "_jobs", "band", "is_asleep", "listed", "share", "tenant")

    def __init__(self, tenant: TenantId, share: "Share", band: "Band") -> None:
        self.tenant = tenant
        self.share = share
        self.band = band
        self.is_asleep = False
        self.listed: tuple[Any, ...] | None = None
        """Its newest entry, in the share's heap or, asleep, in the band's."""
        self._heap: list[Rank] = []
        self._jobs: dict[Rank, JobId] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job: Job) -> bool:
        return rank_of(job) in self._jobs

    def __lt__(self, other: "Lane") -> bool:
        return self.tenant < other.tenant  # ranks are unique: asked only of a dead entry and its successor

    @property
    def shape(self) -> Shape:
        return self.band.shape

    @property
    def waiting(self) -> Reasons:
        """Why its shape is parked; empty when it is not."""
        return self.band.waiting

    def add(self, rank: Rank, job: JobId) -> bool:
        """False when it was there already."""
        if rank in self._jobs:
            return False
        self._jobs[rank] = job
        heappush(self._heap, rank)
        return True

    def discard(self, rank: Rank) -> bool:
        if self._jobs.pop(rank, None) is None:
            return False
        if len(self._heap) > 2 * len(self._jobs) + _SLACK:
            self._heap = sorted(self._jobs)
        return True

    def head_rank(self) -> Rank:
        """Of a lane that is not empty. Those that left out of turn are dropped here, when they surface."""
        heap, jobs = self._heap, self._jobs
        while heap[0] not in jobs:
            heappop(heap)
        return heap[0]

    def head(self) -> JobId:
        return self._jobs[self.head_rank()]


class Share:
    """One tenant's side of the queue: its tag, and its awake lanes by the rank of their heads."""

    __slots__ = ("asleep", "count", "finish", "heap", "lanes", "listed")

    def __init__(self) -> None:
        self.finish = 0
        self.count = 0
        self.lanes = 0
        self.asleep: set[Lane] = set()
        self.listed: Entry | None = None
        self.heap: list[tuple[Rank, Lane]] = []

    def __lt__(self, other: object) -> bool:
        return False  # keys are unique among the living: which of two equal ones is dead does not matter

    def push(self, lane: Lane, rank: Rank) -> bool:
        """False when what is listed is no higher."""
        if lane.listed is not None and lane.listed[0] <= rank:
            return False
        lane.listed = entry = (rank, lane)
        heappush(self.heap, entry)
        if len(self.heap) > 2 * self.lanes + _SLACK:
            self.heap = [entry for entry in self.heap if entry[1].listed is entry]
            heapify(self.heap)
        return True

    def key(self) -> tuple[int, Rank] | None:
        heap = self.heap
        while heap:
            entry = heap[0]
            lane = entry[1]
            if lane.listed is not entry:
                heappop(heap)
                continue
            rank = lane.head_rank()
            if rank == entry[0]:
                return self.finish, rank
            lane.listed = entry = (rank, lane)
            heapreplace(heap, entry)
        return None


class Band:
    """The lanes of one shape; those asleep by the key they will have when they wake."""

    __slots__ = ("heap", "is_parked", "lanes", "listed", "shape", "waiting")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.lanes: dict[TenantId, Lane] = {}
        self.is_parked = False
        self.waiting: Reasons = ()
        """Why it was parked: each reason with the nodes it ruled out."""
        self.listed: Entry | None = None
        self.heap: list[tuple[int, Rank, Lane]] = []

    def __lt__(self, other: object) -> bool:
        return False

    def push(self, lane: Lane, rank: Rank) -> bool:
        """False when what is listed is no higher."""
        key = (lane.share.finish, rank)
        if lane.listed is not None and lane.listed[:2] <= key:
            return False
        lane.listed = entry = (*key, lane)
        heappush(self.heap, entry)
        if len(self.heap) > 2 * len(self.lanes) + _SLACK:
            self.heap = [entry for entry in self.heap if entry[2].listed is entry]
            heapify(self.heap)
        return True

    def key(self) -> tuple[int, Rank] | None:
        """None while it is parked: then nothing in it is in the running."""
        heap = self.heap
        while heap and not self.is_parked:
            entry = heap[0]
            lane = entry[2]
            if lane.listed is not entry:
                heappop(heap)
                continue
            rank, finish = lane.head_rank(), lane.share.finish
            if rank == entry[1] and finish == entry[0]:
                return finish, rank
            lane.listed = entry = (finish, rank, lane)
            heapreplace(heap, entry)
        return None


Entry = tuple[int, Rank, Share | Band]
"""A finish tag, then the rank: at equal tags priority and acceptance decide, and no two jobs are equal."""


def rank_of(job: Job) -> Rank:
    return job.seq - (job.priority << 64)
