"""What the waiting queue is made of: lanes of jobs, the shares and bands that hold lanes, and the numbers they are ordered by.

The heap of a share is always true. A band's order, and that of all of them, are lazy: an entry may be lower than the truth (the
tenant was charged, the head has left) and is put right when it surfaces; it may never be higher, so whatever lowers a key pushes
a new entry.

With ten thousand tenants a placing waits for memory more than it computes. So a lane keeps its head and the rank of it in itself
and the ranks of the others beside them, a share knows its first lane without its heap, and no object is made where an old one does.
"""

from collections import deque
from heapq import heappop
from itertools import islice
from typing import Any, Final

from windlass.core.fairness.order import Order
from windlass.core.fairness.ranks import NEVER, NUMBER_BITS, NUMBER_MASK, SLACK, TAG_BITS, BandKey, Entry, Rank
from windlass.core.fairness.strays import Strays
from windlass.core.model.ids import TenantId
from windlass.core.model.job import Job
from windlass.core.model.shape import Shape

Reasons = tuple[tuple[str, int], ...]
Parking = tuple[Reasons, str, bool, bool]
"""How a band is parked: why, what is scarce, whether it yields, whether it is hopeless."""


class Lane:
    """One tenant's jobs of one shape and one level of urgency, by rank. It knows the World's records by identity."""

    __slots__ = (
        "band",
        "behind",
        "count",
        "early",
        "front",
        "is_asleep",
        "last",
        "level",
        "listed",
        "number",
        "place",
        "rank",
        "share",
        "strays",
    )

    def __init__(self, share: "Share", band: "Band", level: int, early: int) -> None:
        self.share = share
        self.band = band
        self.number = band.join(self)
        self.level = level
        self.early = early
        """How far below its tenant's tag it counts: what its deadlines may borrow."""
        self.is_asleep = False
        self.listed: Entry | None = None
        """Asleep: its newest entry in the band's order, with its number there."""
        self.place = -1
        """Awake: where it is in the share's heap."""
        self.count = 0
        self.front: Job | None = None
        """Its head; None only while it is empty."""
        self.rank: Rank = NEVER
        """Of its head."""
        self.behind: deque[Any] = deque()
        """The others, as they came and by ascending rank: a rank, its job, the next rank, … A job lies somewhere among a
        million; its rank beside it tells whether its turn has come without going there."""
        self.last: Rank = -NEVER
        """The highest of those, while there are any."""
        self.strays: Strays | None = None
        """Those that came or left out of turn; few lanes have any."""

    def __len__(self) -> int:
        return self.count

    def __contains__(self, job: Job) -> bool:
        """Looks at all of them: for those who check, not for those who decide."""
        return any(one is job for one in self.jobs())

    @property
    def tenant(self) -> TenantId:
        return self.share.tenant

    @property
    def shape(self) -> Shape:
        return self.band.shape

    @property
    def waiting(self) -> Reasons:
        """Why its shape is parked; empty when it is not."""
        return self.band.waiting

    def entry(self, number: int = 0) -> Entry:
        """Of its head, listed for whoever has that number."""
        tag = self.share.tag
        if self.early:
            tag -= self.early << TAG_BITS
        return tag + ((self.rank << NUMBER_BITS) + number)

    def jobs(self) -> list[Job]:
        """All of them, in no order."""
        if self.strays is not None:
            self._tidy(self.strays)
        late = [job for _, _, job in self.strays.late] if self.strays is not None else []
        front = [self.front] if self.front is not None else []
        return [*front, *islice(self.behind, 1, None, 2), *late]

    def add(self, rank: Rank, job: Job) -> bool:
        """Whether it is the head now."""
        self.count += 1
        behind = self.behind
        if rank < self.rank:
            if self.front is not None:
                if not behind:
                    self.last = self.rank
                behind.appendleft(self.front)
                behind.appendleft(self.rank)
            self.rank, self.front = rank, job
            return True
        if not behind or rank > self.last:
            self.last = rank
            behind.append(rank)
            behind.append(job)
        else:
            self._has_strays().come(rank, job)
        return False

    def discard(self, job: Job) -> bool:
        """A job that is in it. Whether it was the head: the next one is, then."""
        self.count -= 1
        if job is not self.front:
            strays = self._has_strays()
            strays.leave(job)
            if len(strays.gone) > self.count + SLACK:
                self._tidy(strays)
            return False
        behind = self.behind
        if self.strays is not None:
            self._advance(self.strays)
        elif behind:
            self.rank, self.front = behind.popleft(), behind.popleft()
        else:
            self.rank, self.front = NEVER, None
        return True

    def _has_strays(self) -> Strays:
        if self.strays is None:
            self.strays = Strays()
        return self.strays

    def _advance(self, strays: Strays) -> None:
        """The head has left, and the next one is not simply the first of those behind it."""
        behind = self.behind
        while behind and strays.gone and strays.was_gone(behind[1]):
            behind.popleft()
            behind.popleft()
        late = strays.first_rank()
        if behind and behind[0] < late:
            self.rank, self.front = behind.popleft(), behind.popleft()
        elif strays.late:
            self.rank, _, self.front = heappop(strays.late)
        else:
            self.rank, self.front = NEVER, None
        if not strays.late and not strays.gone:
            self.strays = None

    def _tidy(self, strays: Strays) -> None:
        if strays.gone:
            pairs = list(self.behind)
            self.behind = deque()
            for at in range(0, len(pairs), 2):
                if not strays.was_gone(pairs[at + 1]):
                    self.behind.extend(pairs[at : at + 2])
            strays.tidy()


class Share:
    """One tenant's side of the queue: its tag, and its awake lanes by the rank of their heads.

    They lie in a heap and each knows its place in it, so that one whose head has changed is moved: `heapq` could only push.
    """

    __slots__ = (
        "asleep",
        "bar",
        "count",
        "finish",
        "first",
        "heap",
        "held",
        "listed",
        "number",
        "ready",
        "tag",
        "tenant",
    )
    is_band: Final = False
    is_parked: Final = False
    is_hopeless: Final = False

    def __init__(self, number: int, tenant: TenantId) -> None:
        self.number = number
        self.tenant = tenant
        self.finish = 0
        self.tag = 0
        """The same as entries have it: shifted once, not for each of them."""
        self.count = 0
        self.asleep: set[Lane] = set()
        self.listed: Entry | None = None
        self.ready: Lane | None = None
        """Its first, when what is listed is the truth: nothing need be computed when it surfaces. What changes it unsets this."""
        self.heap: list[Lane] = []
        self.first: Lane | None = None
        """Of the heap; whoever is next is found without it."""
        self.bar: Rank = NEVER
        """The lowest rank of the others: up to there the first stays first."""
        self.held: Reasons = ()
        """Why none of its lanes is in the running: the limit of its own that it has reached."""

    def push(self, lane: Lane) -> bool:
        """A lane that has woken, or that has a new head of lower rank."""
        if lane.place < 0:
            lane.place = len(self.heap)
            self.heap.append(lane)
        self._settle(lane)
        return True

    def sink(self, lane: Lane) -> None:
        """A lane whose head has left, if its rank is above the bar now; else it is first and stays it."""
        heap = self.heap
        if len(heap) == 2 and lane is heap[0]:
            heap.reverse()
            self.first, self.bar = heap[0], lane.rank
            heap[0].place, lane.place = 0, 1
            return
        self._sink(lane, lane.place)
        self._look()

    def remove(self, lane: Lane) -> None:
        """It falls asleep, or is closed."""
        place, last = lane.place, self.heap.pop()
        lane.place = -1
        if last is not lane:
            self.heap[place] = last
            last.place = place
            self._settle(last)
        else:
            self._look()

    def surface(self, entry: Entry, order: Order) -> Lane | None:
        """Its entry is the first: the lane whose head is next. None when that was lower than the truth: it has been put right."""
        lane = self.first
        if lane is None or self.held:
            self.listed = None
            order.drop_first()
            return None
        self.ready = lane
        self.listed = true = lane.entry(self.number)
        return lane if order.raise_first(true) else None

    def first_lane(self) -> Lane | None:
        """The lane whose head is its next; none while nothing of it is in the running."""
        return self.first if not self.held else None

    def true_entry(self, lane: Lane) -> Entry:
        """What is listed for it when `lane` is its first."""
        return lane.entry(self.number)

    def _look(self) -> None:
        heap = self.heap
        size = len(heap)
        self.first = heap[0] if size else None
        self.bar = heap[1].rank if size > 1 else NEVER
        if size > 2 and heap[2].rank < self.bar:
            self.bar = heap[2].rank

    def _settle(self, lane: Lane) -> None:
        """To its place, from wherever it is."""
        place = lane.place
        heap = self.heap
        while place and (above := heap[(place - 1) >> 1]).rank > lane.rank:
            heap[place], above.place = above, place
            place = (place - 1) >> 1
        self._sink(lane, place)
        self._look()

    def _sink(self, lane: Lane, place: int) -> None:
        heap, rank = self.heap, lane.rank
        size = len(heap)
        while (below := 2 * place + 1) < size:
            lower = heap[below]
            if below + 1 < size and heap[below + 1].rank < lower.rank:
                lower = heap[below + 1]
            if lower.rank > rank:
                break
            heap[place], lower.place, place = lower, place, lower.place
        heap[place], lane.place = lane, place


class Band:
    """The lanes of one shape; those asleep by the key they would be served by."""

    __slots__ = (
        "_numbered",
        "_unused",
        "is_hopeless",
        "is_parked",
        "key_in_queue",
        "lanes",
        "listed",
        "number",
        "order",
        "scarce",
        "shape",
        "waiting",
        "yields",
    )
    is_band: Final = True
    ready: Final = None
    """Never: the tags of tenants asleep in it change without its knowledge."""

    def __init__(self, number: int, key_in_queue: BandKey) -> None:
        self.number = number
        self.key_in_queue = key_in_queue
        self.shape = key_in_queue if isinstance(key_in_queue, Shape) else key_in_queue[0]
        self.lanes: dict[TenantId | tuple[TenantId, int], Lane] = {}
        self._numbered: list[Lane | None] = []
        self._unused: list[int] = []
        self.is_parked = False
        self.yields = False
        """Parked only because it would have delayed somebody who was first."""
        self.is_hopeless = False
        """Parked, and no node there is could ever take it: nothing is kept free for it."""
        self.waiting: Reasons = ()
        """Why it was parked: each reason with the nodes it ruled out."""
        self.scarce = ""
        """What most of them lacked: `cpu`, `memory`, `gpu`, or nothing that can be counted."""
        self.listed: Entry | None = None
        self.order = Order()
        """Of those asleep."""

    @property
    def parking(self) -> Parking | None:
        return (self.waiting, self.scarce, self.yields, self.is_hopeless) if self.is_parked else None

    def join(self, lane: Lane) -> int:
        """Its number in here."""
        if self._unused:
            number = self._unused.pop()
            self._numbered[number] = lane
        else:
            number = len(self._numbered)
            self._numbered.append(lane)
        return number

    def leave(self, lane: Lane) -> None:
        self._numbered[lane.number] = None
        self._unused.append(lane.number)

    def push(self, lane: Lane) -> bool:
        """False when what is listed is no higher; else whether the band is to be listed lower, or at all."""
        entry = lane.entry(lane.number)
        if lane.listed is not None and lane.listed <= entry:
            return False
        lane.listed = entry
        order = self.order
        order.push(entry)
        if len(order) > 2 * len(self.lanes) + SLACK:
            order.reset(one.listed for one in self.lanes.values() if one.listed is not None)
        return self.listed is None or self.listed > entry - lane.number + self.number

    def surface(self, entry: Entry, order: Order) -> Lane | None:
        """Of those asleep in it."""
        lane = self.first_lane()
        if lane is None:
            self.listed = None
            order.drop_first()
            return None
        self.listed = true = self.true_entry(lane)
        return lane if true == entry or order.raise_first(true) else None

    def first_lane(self) -> Lane | None:
        """Of those asleep in it."""
        order, numbered = self.order, self._numbered
        while order.near:
            entry = order.near[0]
            lane = numbered[entry & NUMBER_MASK]
            if lane is None or lane.listed != entry:
                order.drop_first()
                continue
            true = lane.entry(lane.number)
            if true == entry:
                return lane
            lane.listed = true
            if order.raise_first(true):
                return lane
        return None

    def true_entry(self, lane: Lane) -> Entry:
        """What is listed for it when `lane` is its first: found just now, so that what the lane has listed is the truth."""
        assert lane.listed is not None
        return lane.listed - lane.number + self.number
