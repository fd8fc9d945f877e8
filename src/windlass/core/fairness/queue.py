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
from typing import Final

from windlass.core.model.ids import TenantId
from windlass.core.model.job import Job
from windlass.core.model.shape import Shape

Rank = int
"""Higher priority first, then order of acceptance, as one number: small to keep and quick to compare."""
Key = int
"""A finish tag, then the rank: at equal tags priority and acceptance decide, and no two jobs are equal. One number again."""
Entry = int
"""A key, then the number of the share or band it stands for."""
Reasons = tuple[tuple[str, int], ...]

_RANK_BITS: Final = 96
_NUMBER_BITS: Final = 32
_NUMBER_MASK: Final = (1 << _NUMBER_BITS) - 1
_SLACK: Final = 64
"""A heap with more dead entries than live ones and these is made anew, so that a storm of cancels leaves nothing behind."""


class WaitingQueue:
    def __init__(self) -> None:
        self._shares: dict[TenantId, Share] = {}
        self._bands: dict[Shape, Band] = {}
        self._heap: list[Entry] = []
        """Who may be next: shares by their awake lanes, unparked bands by those that have not woken yet."""
        self._sources: dict[int, Share | Band] = {}
        self._number = 0
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
            band = self._open_band(job.shape)
        lane = band.lanes.get(job.tenant)
        if lane is None:
            lane = self._open_lane(job.tenant, band)
        if not lane.add(rank := rank_of(job), job):
            return
        lane.share.count += 1
        self._count += 1
        if lane.head_rank() == rank:
            self._list_lane(lane, rank)

    def discard(self, job: Job) -> None:
        band = self._bands.get(job.shape)
        lane = band.lanes.get(job.tenant) if band is not None else None
        if lane is None or not lane.discard(rank_of(job)):
            return
        lane.share.count -= 1
        lane.share.is_stale = True
        self._count -= 1
        if not lane.jobs:
            self._close_lane(lane)

    def head(self) -> tuple["Lane", Job] | None:
        """The next job of the bands that are not parked."""
        while (source := self._first()) is not None:
            lane = source.heap[0][1]
            if source.is_band:
                self._wake(lane)
            elif lane.band.is_parked:
                self._put_to_sleep(lane)
            else:
                return lane, lane.jobs[lane.heap[0]]
        return None

    def tag(self, tenant: TenantId, finish: int) -> None:
        """The tenant's account has changed. A tag that rose is noticed when it surfaces."""
        share = self._shares.get(tenant) or self._open_share(tenant)
        has_fallen = finish < share.finish
        share.finish, share.is_stale = finish, True
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

    def hold(self, tenant: TenantId, reasons: Reasons) -> None:
        """The tenant is at a limit of its own: out of the running, all its lanes, until `let_go`. It keeps its tag."""
        share = self._shares.get(tenant) or self._open_share(tenant)
        share.held, share.is_stale = reasons, True

    def let_go(self, tenant: TenantId) -> None:
        """Something of its was released, or its limits have changed: it may try again. Asking for no reason is fine."""
        share = self._shares.get(tenant)
        if share is not None and share.held:
            share.held = ()
            self._list(share)

    def held(self, tenant: TenantId) -> Reasons:
        """Why the tenant is held; empty when it is not."""
        share = self._shares.get(tenant)
        return share.held if share is not None else ()

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
            source = self._sources.get(entry & _NUMBER_MASK)
            if source is None or source.listed != entry:
                heappop(heap)
                continue
            if not source.is_stale:
                return source
            key = source.key()
            if key is None:
                source.listed = None
                heappop(heap)
                continue
            source.is_stale = source.is_band
            true = key << _NUMBER_BITS | source.number
            if true == entry:
                return source
            source.listed = true
            heapreplace(heap, true)
        return None

    def _list(self, source: "Share | Band") -> None:
        """Into the heap with its true key, unless an entry is there that is no higher."""
        key = source.key()
        if key is None:
            return
        entry = key << _NUMBER_BITS | source.number
        if source.listed is not None and source.listed <= entry:
            return
        source.listed, source.is_stale = entry, source.is_band
        heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._sources) + _SLACK:
            self._heap = sorted(source.listed for source in self._sources.values() if source.listed is not None)

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
        lane.share.is_stale = True
        lane.is_asleep, lane.listed = True, None
        self._list_lane(lane, lane.head_rank())

    def _open_share(self, tenant: TenantId) -> "Share":
        self._number += 1
        share = self._shares[tenant] = self._sources[self._number] = Share(self._number)
        return share

    def _open_band(self, shape: Shape) -> "Band":
        self._number += 1
        band = self._bands[shape] = self._sources[self._number] = Band(self._number, shape)
        return band

    def _open_lane(self, tenant: TenantId, band: "Band") -> "Lane":
        share = self._shares.get(tenant) or self._open_share(tenant)
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
            del self._bands[band.shape], self._sources[band.number]
            self._parked.discard(band)


class Lane:
    """One tenant's jobs of one shape, by rank."""

    __slots__ = ("band", "heap", "is_asleep", "jobs", "listed", "share", "tenant")

    def __init__(self, tenant: TenantId, share: "Share", band: "Band") -> None:
        self.tenant = tenant
        self.share = share
        self.band = band
        self.is_asleep = False
        self.listed: tuple[int, Lane] | None = None
        """Its newest entry, in the share's heap or, asleep, in the band's."""
        self.heap: list[Rank] = []
        self.jobs: dict[Rank, Job] = {}

    def __len__(self) -> int:
        return len(self.jobs)

    def __contains__(self, job: Job) -> bool:
        return rank_of(job) in self.jobs

    def __lt__(self, other: "Lane") -> bool:
        return self.tenant < other.tenant  # ranks are unique: asked only of a dead entry and its successor

    @property
    def shape(self) -> Shape:
        return self.band.shape

    @property
    def waiting(self) -> Reasons:
        """Why its shape is parked; empty when it is not."""
        return self.band.waiting

    def add(self, rank: Rank, job: Job) -> bool:
        """False when it was there already."""
        if rank in self.jobs:
            return False
        self.jobs[rank] = job
        heappush(self.heap, rank)
        return True

    def discard(self, rank: Rank) -> bool:
        if self.jobs.pop(rank, None) is None:
            return False
        if len(self.heap) > 2 * len(self.jobs) + _SLACK:
            self.heap = sorted(self.jobs)
        return True

    def head_rank(self) -> Rank:
        """Of a lane that is not empty. Those that left out of turn are dropped here, when they surface."""
        heap, jobs = self.heap, self.jobs
        while heap[0] not in jobs:
            heappop(heap)
        return heap[0]


class Share:
    """One tenant's side of the queue: its tag, and its awake lanes by the rank of their heads."""

    __slots__ = ("asleep", "count", "finish", "heap", "held", "is_stale", "lanes", "listed", "number")
    is_band: Final = False

    def __init__(self, number: int) -> None:
        self.number = number
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
        if lane.listed is not None and lane.listed[0] <= rank:
            return False
        lane.listed = entry = (rank, lane)
        heappush(self.heap, entry)
        if len(self.heap) > 2 * self.lanes + _SLACK:
            self.heap = [entry for entry in self.heap if entry[1].listed is entry]
            heapify(self.heap)
        return True

    def key(self) -> Key | None:
        """None while nothing of it is in the running."""
        heap = self.heap
        while heap and not self.held:
            entry = heap[0]
            lane = entry[1]
            if lane.listed is not entry:
                heappop(heap)
                continue
            rank = entry[0]
            if rank in lane.jobs and lane.heap[0] == rank:
                return (self.finish << _RANK_BITS) + rank
            rank = lane.head_rank()
            lane.listed = entry = (rank, lane)
            heapreplace(heap, entry)
        return None


class Band:
    """The lanes of one shape; those asleep by the key they will have when they wake."""

    __slots__ = ("heap", "is_parked", "is_stale", "lanes", "listed", "number", "shape", "waiting")
    is_band: Final = True

    def __init__(self, number: int, shape: Shape) -> None:
        self.number = number
        self.shape = shape
        self.lanes: dict[TenantId, Lane] = {}
        self.is_parked = False
        self.is_stale = True
        """Always: tags of the tenants asleep in it change without its knowledge."""
        self.waiting: Reasons = ()
        """Why it was parked: each reason with the nodes it ruled out."""
        self.listed: Entry | None = None
        self.heap: list[tuple[Key, Lane]] = []

    def push(self, lane: Lane, rank: Rank) -> bool:
        """False when what is listed is no higher."""
        key = (lane.share.finish << _RANK_BITS) + rank
        if lane.listed is not None and lane.listed[0] <= key:
            return False
        lane.listed = entry = (key, lane)
        heappush(self.heap, entry)
        if len(self.heap) > 2 * len(self.lanes) + _SLACK:
            self.heap = [entry for entry in self.heap if entry[1].listed is entry]
            heapify(self.heap)
        return True

    def key(self) -> Key | None:
        """None while it is parked: then nothing in it is in the running."""
        heap = self.heap
        while heap and not self.is_parked:
            entry = heap[0]
            lane = entry[1]
            if lane.listed is not entry:
                heappop(heap)
                continue
            key = (lane.share.finish << _RANK_BITS) + lane.head_rank()
            if key == entry[0]:
                return key
            lane.listed = entry = (key, lane)
            heapreplace(heap, entry)
        return None


def rank_of(job: Job) -> Rank:
    return job.seq - (job.priority << 64)
