"""The waiting jobs. Next is the job of the tenant with the lowest finish tag; within a tenant, urgent ones, then by priority.

Comes after admission, before placement. A *lane* holds one tenant's jobs of one shape. Lanes are awake in their tenant's *share*,
or asleep in the *band* of their shape: a shape that found no place is parked for every tenant at once, and each of its lanes falls
asleep when its turn comes. Once the band is unparked they are served from it by their turn, asleep as they are: on a full fleet
shapes are parked and unparked with every placing. So neither looks at the lanes, and a tenant whose shapes are all parked is out
of the running.

Everything is O(log n), amortised; a tag that moves back (a refund, an undo) also touches that tenant's sleeping lanes. What lanes,
shares and bands are is in `lanes`.
"""

from collections.abc import Callable
from functools import partial

from windlass.core.fairness.lanes import Band, Lane, Parking, Reasons, Share
from windlass.core.fairness.order import Order
from windlass.core.fairness.parking import LAST, NOBODY, Parked
from windlass.core.fairness.ranks import (
    NUMBER_MASK,
    PRIORITY_BITS,
    SLACK,
    TAG_BITS,
    BandKey,
    Entry,
    band_key,
    rank_of,
)
from windlass.core.model.ids import TenantId
from windlass.core.model.job import Job
from windlass.core.model.resources import Resources


class Before:
    """What a trial has touched of parking and holding, as it was: of a thousand parked shapes it asks a few."""

    __slots__ = ("held", "parkings")

    def __init__(self) -> None:
        self.parkings: dict[BandKey, Parking | None] = {}
        self.held: dict[TenantId, Reasons] = {}

    def note_band(self, band: Band) -> None:
        if band.key_in_queue not in self.parkings:
            self.parkings[band.key_in_queue] = band.parking

    def note_share(self, share: Share) -> None:
        self.held.setdefault(share.tenant, share.held)


class WaitingQueue:
    def __init__(self, *, on_waiting: Callable[[TenantId, bool], None] | None = None) -> None:
        """`on_waiting` hears of a tenant's first waiting job, and of its last one's leaving."""
        self._shares: dict[TenantId, Share] = {}
        self._bands: dict[BandKey, Band] = {}
        self._running = Order()
        """Who may be next: shares by their awake lanes, unparked bands by those that have not woken yet."""
        self._blocked = Order()
        """Parked bands, by the first of their sleeping lanes."""
        self._sources: list[Share | Band | None] = []
        self._unused: list[int] = []
        self._parked = Parked()
        self._levels: dict[int, int] = {}
        """The urgent ones: level by number of acceptance."""
        self._urgent: set[Lane] = set()
        self._leads = (0, 0, 0)
        self._on_waiting = on_waiting
        self._count = 0
        self._held = 0
        """Shares that are; most of the time none."""
        self._before: Before | None = None
        """During a trial."""
        self._served: Lane | None = None
        """Of the newest `head`. Whoever asked takes that job out next and charges that tenant: neither is looked up again."""

    def __len__(self) -> int:
        return self._count

    def __contains__(self, job: Job) -> bool:
        lane = self.lane_of(job)
        return lane is not None and job in lane

    # — jobs come and go —

    def add(self, job: Job, level: int = 0) -> None:
        """A job that is not in it. `level`: 0 on time, 1 at risk, 2 critical."""
        timeout = job.timeout_ms
        band = self._bands.get(job.shape if timeout is None else (job.shape, timeout.bit_length()))
        if band is None:
            band = self._open_band(band_key(job))
        if level:
            self._levels[job.seq] = level
            lane = band.lanes.get((job.tenant, level))
            rank = rank_of(job, level)
        else:
            lane = band.lanes.get(job.tenant)
            rank = job.seq - (job.priority << PRIORITY_BITS) if job.priority else job.seq  # as `rank_of`
        if lane is None:
            lane = self._open_lane(job.tenant, band, level)
        share = lane.share
        share.count += 1
        self._count += 1
        if share.count == 1 and self._on_waiting is not None:
            self._on_waiting(share.tenant, True)
        if lane.add(rank, job):
            self._list_lane(lane)

    def discard(self, job: Job) -> None:
        """The very record that was added."""
        lane = self._served
        if lane is None or lane.front is not job:
            lane = self.lane_of(job)
            assert lane is not None
        if lane.level:
            del self._levels[job.seq]
        share = lane.share
        if lane.discard(job) and lane.rank > share.bar and lane.count and not lane.is_asleep:
            share.sink(lane)
        share.count -= 1
        share.ready = None
        self._count -= 1
        if not lane.count:
            self._close_lane(lane)
            if not share.count and self._on_waiting is not None:
                self._on_waiting(share.tenant, False)

    def boost(self, job: Job, level: int) -> None:
        """It has become urgent, or is no longer: it moves to the lane of that level."""
        if self.level_of(job) != level:
            self.discard(job)
            self.add(job, level)

    # — who is next —

    def head(self) -> tuple[Lane, Job] | None:
        """The next job of those that are not parked. Every lane before it that is parked has fallen asleep."""
        order, sources = self._running, self._sources
        while order.near:
            entry = order.near[0]
            source = sources[entry & NUMBER_MASK]
            if source is None or source.listed != entry:
                order.drop_first()
                continue
            lane = source.ready
            if lane is None:
                lane = self._surface(source, entry)
                if lane is None:
                    continue
            if lane.band.is_parked:
                self._put_to_sleep(lane)
            else:
                self._served = lane
                assert lane.front is not None
                return lane, lane.front
        return None

    def blocked(self) -> tuple[Lane, Job] | None:
        """The first of those that are parked, and might be placed one day."""
        order, sources = self._blocked, self._sources
        while order.near:
            entry = order.near[0]
            band = sources[entry & NUMBER_MASK]
            if band is None or band.listed != entry or not band.is_parked:
                order.drop_first()
                continue
            lane = band.surface(entry, order)
            if lane is None:
                continue
            if lane.share.held:
                self._wake(lane)  # out of the running: nobody makes way for it
                continue
            assert lane.front is not None
            return lane, lane.front
        return None

    def is_before(self, first: Lane, second: Lane) -> bool:
        """Of two heads as `head` and `blocked` gave them."""
        return first.entry() < second.entry()

    def tag(self, tenant: TenantId, finish: int) -> None:
        """The tenant's account has changed. A tag that rose is noticed when it surfaces."""
        share = self._share_of(tenant) or self._open_share(tenant)
        has_fallen = finish < share.finish
        share.finish, share.tag = finish, finish << TAG_BITS
        share.ready = None
        entry, near = share.listed, self._running.near
        if has_fallen:
            self._relist(share)
        elif entry is not None and near and near[0] is entry:
            share.surface(entry, self._running)  # it was just served: put back now, while all of it is at hand

    def set_lead(self, lead: int) -> None:
        """How far a critical job may go ahead of its tenant's tag; one at risk, half of that."""
        if lead == self._leads[2]:
            return
        self._leads = (0, lead // 2, lead)
        for lane in self._urgent:
            lane.early = self._leads[lane.level]
            lane.share.ready = None
            self._relist(lane.share)

    # — parking: a shape finds no place; holding: a tenant is at a limit of its own —

    def park(
        self, band: Band, reasons: Reasons, *, scarce: str = "", yields: bool = False, is_hopeless: bool = False
    ) -> None:
        """`yields`: there is room, but it would delay `blocked`. `is_hopeless`: no node there is could take it ever."""
        if self._before is not None:
            self._before.note_band(band)
        band.is_parked, band.yields, band.is_hopeless = True, yields, is_hopeless
        band.waiting, band.scarce, band.listed = reasons, scarce, None
        self._parked.add(band)
        self._list(band)

    def unpark(self, band: Band) -> None:
        if self._before is not None:
            self._before.note_band(band)
        self._parked.discard(band)
        band.is_parked = band.yields = band.is_hopeless = False
        band.waiting, band.listed = (), None
        self._list(band)

    def parked(self) -> list[Band]:
        return list(self._parked)

    @property
    def has_parked(self) -> bool:
        return len(self._parked) > 0

    def begin_round(self) -> None:
        """Of placing: from here on, whoever is parked has been asked."""
        self._parked.begin_round()

    def first_parked(self, most: Resources, could_use: Callable[[Band], bool]) -> tuple[Band, Entry] | None:
        """The first of those that were not asked this round and could use what has grown, nowhere more than `most`. By the lanes
        that are asleep, as those are that `head` has passed; a band without any comes last."""
        return self._parked.first(most, partial(self._look, could_use))

    @property
    def has_moved(self) -> bool:
        """Another may be `first_parked` now."""
        return self._parked.has_moved

    def yielding(self) -> list[Band]:
        return self._parked.yielding()

    @property
    def has_yielding(self) -> bool:
        return self._parked.has_yielding

    def hopeless(self) -> list[Band]:
        return self._parked.hopeless()

    def hold(self, tenant: TenantId, reasons: Reasons) -> None:
        """The tenant is at a limit of its own: out of the running, all its lanes, until `let_go`. It keeps its tag."""
        share = self._shares.get(tenant) or self._open_share(tenant)
        if self._before is not None:
            self._before.note_share(share)
        self._held += bool(reasons) - bool(share.held)
        share.held, share.ready = reasons, None

    def let_go(self, tenant: TenantId) -> None:
        """Something of its was released, or its limits have changed: it may try again. Asking for no reason is fine."""
        if not self._held:
            return
        share = self._shares.get(tenant)
        if share is not None and share.held:
            if self._before is not None:
                self._before.note_share(share)
            share.held = ()
            self._held -= 1
            self._list(share)

    def begin_trial(self) -> None:
        assert self._before is None, "one trial at a time"
        self._before = Before()

    def end_trial(self) -> None:
        """When all jobs are back: who was parked or held is so again, for the same reasons, and nobody else is."""
        before, self._before = self._before, None
        assert before is not None
        for key, was in before.parkings.items():
            band = self._bands.get(key)
            if band is None or band.parking == was:
                continue
            if was is None:
                self.unpark(band)
            else:
                waiting, scarce, yields, is_hopeless = was
                self.park(band, waiting, scarce=scarce, yields=yields, is_hopeless=is_hopeless)
        for tenant, reasons in before.held.items():
            if reasons:
                self.hold(tenant, reasons)
            else:
                self.let_go(tenant)

    # — what there is to see —

    def held(self, tenant: TenantId) -> Reasons:
        """Why the tenant is held; empty when it is not."""
        share = self._shares.get(tenant)
        return share.held if share is not None else ()

    def lane_of(self, job: Job) -> Lane | None:
        band = self._bands.get(band_key(job))
        level = self.level_of(job)
        return band.lanes.get((job.tenant, level) if level else job.tenant) if band is not None else None

    def level_of(self, job: Job) -> int:
        return self._levels.get(job.seq, 0)

    def lanes(self) -> list[Lane]:
        return [lane for band in self._bands.values() for lane in band.lanes.values()]

    def waits(self, tenant: TenantId) -> int:
        """How many of its jobs are queued."""
        share = self._share_of(tenant)
        return share.count if share is not None else 0

    # — keeping the order —

    def _look(self, could_use: Callable[[Band], bool], band: Band) -> Entry:
        """Where a parked band is in the order, if the question is put to it."""
        if not could_use(band):
            return LAST
        lane = band.first_lane()
        while lane is not None and lane.share.held:
            self._wake(lane)
            lane = band.first_lane()
        if lane is None:
            band.listed = None
            return NOBODY
        true = band.true_entry(lane)
        if true != band.listed:
            self._enter(band, true)
        return true

    def _share_of(self, tenant: TenantId) -> Share | None:
        lane = self._served
        return lane.share if lane is not None and lane.share.tenant == tenant else self._shares.get(tenant)

    def _surface(self, source: Share | Band, entry: Entry) -> Lane | None:
        """The lane of a share or band whose turn it is. None: the entry was not true; now somebody else is first."""
        if source.is_parked:
            self._running.drop_first()
            return None
        lane = source.surface(entry, self._running)
        if lane is not None and source.is_band and lane.share.held:
            self._wake(lane)  # out of the running, with the others of its tenant
            return None
        return lane

    def _list(self, source: Share | Band) -> None:
        """Into its order with its true key, unless an entry is there that is no higher."""
        lane = source.first_lane()
        if lane is None or source.is_hopeless:
            return
        entry = source.true_entry(lane)
        if source.listed is not None and source.listed <= entry:
            return
        if isinstance(source, Share):
            source.ready = lane
        elif source.is_parked:
            self._parked.lower(source, entry)
        self._enter(source, entry)

    def _enter(self, source: Share | Band, entry: Entry) -> None:
        source.listed = entry
        order = self._blocked if source.is_parked else self._running
        order.push(entry)
        if len(order) > 2 * len(self._sources) + SLACK:
            order.reset(self._alive(is_parked=source.is_parked))

    def _alive(self, *, is_parked: bool) -> list[Entry]:
        return [
            source.listed
            for source in self._sources
            if source is not None and source.listed is not None and source.is_parked is is_parked
        ]

    def _list_lane(self, lane: Lane) -> None:
        """The lane has a new head, or its key has fallen."""
        source = lane.band if lane.is_asleep else lane.share
        if source.push(lane):
            self._list(source)

    def _relist(self, share: Share) -> None:
        """Its keys may have fallen."""
        if share.first is not None:
            self._list(share)
        for lane in share.asleep:
            if lane.band.push(lane):
                self._list(lane.band)

    def _wake(self, lane: Lane) -> None:
        lane.share.asleep.discard(lane)
        lane.is_asleep, lane.listed = False, None
        self._list_lane(lane)

    def _put_to_sleep(self, lane: Lane) -> None:
        share = lane.share
        share.remove(lane)
        share.asleep.add(lane)
        share.ready, lane.is_asleep = None, True
        self._list_lane(lane)

    # — opening and closing —

    def _number(self, source: Share | Band) -> None:
        if source.number == len(self._sources):
            self._sources.append(source)
        else:
            self._sources[source.number] = source

    def _next_number(self) -> int:
        return self._unused.pop() if self._unused else len(self._sources)

    def _open_share(self, tenant: TenantId) -> Share:
        share = self._shares[tenant] = Share(self._next_number(), tenant)
        self._number(share)
        return share

    def _open_band(self, key: BandKey) -> Band:
        band = self._bands[key] = Band(self._next_number(), key)
        self._number(band)
        return band

    def _open_lane(self, tenant: TenantId, band: Band, level: int) -> Lane:
        share = self._shares.get(tenant) or self._open_share(tenant)
        lane = Lane(share, band, level, self._leads[level])
        band.lanes[(tenant, level) if level else tenant] = lane
        if level:
            self._urgent.add(lane)
        return lane

    def _close_lane(self, lane: Lane) -> None:
        band, share = lane.band, lane.share
        if lane.is_asleep:
            share.asleep.discard(lane)
            lane.listed = None
        else:
            share.remove(lane)
        if lane.level:
            self._urgent.discard(lane)
        del band.lanes[(lane.tenant, lane.level) if lane.level else lane.tenant]
        band.leave(lane)
        if not band.lanes:
            if self._before is not None:
                self._before.note_band(band)
            self._parked.discard(band)
            del self._bands[band.key_in_queue]
            self._sources[band.number] = None
            self._unused.append(band.number)
