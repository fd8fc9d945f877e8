"""The World's records and the indexes derived from them. Loading, deciding and undoing are the same act: replace a record.

Nothing here decides. Because every index follows from the records alone, a World rebuilt from the store equals the live one,
and a change is taken back by putting the old record in its place.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from windlass.core.admission.budget import cost_reached_at, next_threshold_at
from windlass.core.admission.reserve import Reserve
from windlass.core.admission.usage import Usage
from windlass.core.fairness.account import Account
from windlass.core.fairness.deadlines import Urgency, lead_of, next_change, urgency
from windlass.core.fairness.lanes import Reasons
from windlass.core.fairness.queue import WaitingQueue
from windlass.core.fairness.standings import Standings
from windlass.core.fairness.typical import Typical
from windlass.core.model.burst import BurstSession
from windlass.core.model.calendar import DAY_MS, day_start
from windlass.core.model.ids import JobId, Millis, NodeId, PoolId, RunId, TenantId, VolumeId
from windlass.core.model.job import PENDING, Job
from windlass.core.model.money import PriceBook, Prices
from windlass.core.model.node import Node
from windlass.core.model.run import ENDED, Run
from windlass.core.model.shape import Shape
from windlass.core.model.spending import BudgetMark, DayTotal
from windlass.core.model.tenant import SHARE, Tenant
from windlass.core.model.token import IssuedToken
from windlass.core.model.volume import Volume
from windlass.core.placement.nodes import Nodes
from windlass.core.placement.promise import Reservation
from windlass.core.world.fleet import Fleet
from windlass.core.world.kept import Kept
from windlass.core.world.namesakes import Namesakes
from windlass.core.world.records import Key, Record, Table
from windlass.core.world.standstill import Standstill
from windlass.core.world.timers import Due, Timers

_NO_TIME: Final = Millis(0)
_ANYWHERE: Final[frozenset[NodeId]] = frozenset()
_VOLUME_TTL: Final = Due.VOLUME_TTL
K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
_SHAPES_KEPT: Final = 10_000
MONEY_KEPT_MS: Final = Millis(62 * DAY_MS)
"""Totals and burst sessions: this month's and the last one's. The read model has the older ones."""


class Tables(Kept):
    def __init__(
        self, *, boost_cap: int | None = 0, boost_window_ms: Millis = _NO_TIME, burst_reserve: int = 0
    ) -> None:
        """`boost_cap`: what deadlines may borrow, in thousandths of a window of service; None: they reorder nothing at all.
        `burst_reserve`: thousandths of the capacity."""
        super().__init__()
        self._boost_cap = boost_cap
        self._boost_window_ms = boost_window_ms
        self.now = Millis(0)
        self.revoked: set[tuple[TenantId, str]] = set()
        """Tokens by tenant and id: looked at by every request."""
        self.standings = Standings(self.weight_of)
        """Measured, like `typical`."""
        self.queue = WaitingQueue(on_waiting=self.standings.waits)
        self.backing_off: set[JobId] = set()
        """Jobs that wait, but not in the queue yet."""
        self.urgent: dict[JobId, Urgency] = {}
        """Queued jobs whose deadline is near or past."""
        self.missed = 0
        """Deadlines that have passed while their jobs waited. Measured as well."""
        self.weights = 0
        """Of all tenants."""
        self.reservation: Reservation | None = None
        """What is kept free for the first of those that found no place; see `world.backfill`."""
        self.places = Nodes()
        self.fleet = Fleet(self.places)
        self.allowed: dict[TenantId, tuple[PoolId, ...]] = {}
        """Of tenants whose quota names pools: which, sorted."""
        self.timers = Timers()
        self.typical = Typical()
        """Measured, not derived: it begins empty, and an undo leaves it alone."""
        self.usage: defaultdict[TenantId, Usage] = defaultdict(Usage)
        self.reserve = Reserve(burst_reserve)
        self.runs_of: dict[JobId, tuple[RunId, ...]] = {}
        """Sorted; nearly always one."""
        self.runs_on: defaultdict[NodeId, set[RunId]] = defaultdict(set)
        self._namesakes = Namesakes()
        self.volume_named = self._namesakes.newest
        self.stored: dict[VolumeId, Volume] = {}
        """Volumes that are paid for."""
        self.grown: set[NodeId] = set()
        """Nodes with more room than at the last placement: parked lanes may fit there now."""
        self.has_other_nodes = False
        """A node has come or changed since: what no node could ever take may have found one."""
        self.woken: list[JobId] | None = None
        """During a trial: jobs whose backoff has ended or whose deadline has come near in it, to be sent back."""
        self._short_of_room: dict[TenantId, frozenset[NodeId]] = {}
        """Held until room grows: on these nodes, where it may be on no others; with none named, anywhere."""
        self._makes_way: set[TenantId] = set()
        self.held_until: dict[TenantId, Millis] = {}
        """Tenants with a timer that lets them try again."""
        self._shapes: dict[Shape, Shape] = {}
        self._books: dict[tuple[str, PoolId], PriceBook] = {}
        """What was asked of the prices, until they change."""
        self.seq = 0
        self.replacing: Final = self._replacers()
        """A table that is not here is written and never kept."""

    @property
    def is_trial(self) -> bool:
        return self.woken is not None

    def replace(self, table: Table, key: str, new: Record | None) -> Record | None:
        """Put `new` in the place of the record under `key` (None removes it); answers what was there."""
        replacing = self.replacing.get(table)
        return replacing(key, new) if replacing is not None else None

    def shared(self, shape: Shape) -> Shape:
        """The one object for all that are equal: found in every index by identity, and a million jobs have a few hundred."""
        known = self._shapes.get(shape)
        if known is None:
            if len(self._shapes) >= _SHAPES_KEPT:
                self._shapes.clear()
            known = self._shapes[shape] = shape
        return known

    def book(self, tenant: TenantId, pool: PoolId) -> PriceBook:
        """What it pays in that pool; the same object for all who pay the same there."""
        owner = self.tenants.get(tenant)
        key = (owner.tier if owner is not None else "", pool)
        known = self._books.get(key)
        if known is None:
            known = self._books[key] = self.prices.book(*key)
        return known

    def begin_trial(self) -> Standstill:
        """What no record has, to be given back at the end of the trial."""
        self.queue.begin_trial()
        promised = self.reservation
        slot = self.places.slot(promised.node) if promised is not None else None
        return Standstill(
            grown=frozenset(self.grown),
            has_other_nodes=self.has_other_nodes,
            has_other_pools=self.fleet.has_changed,
            short_of_room=dict(self._short_of_room),
            makes_way=frozenset(self._makes_way),
            held_until=dict(self.held_until),
            is_shut=self.reserve.is_shut,
            promised=promised,
            age=slot.version - promised.version if slot is not None and promised is not None else 0,
        )

    def end_trial(self, before: Standstill) -> None:
        """When all records are as they were, and all jobs are back in the queue."""
        self.queue.end_trial()
        self.grown = set(before.grown)
        self.has_other_nodes, self.fleet.has_changed = before.has_other_nodes, before.has_other_pools
        self._short_of_room = dict(before.short_of_room)
        self._makes_way = set(before.makes_way)
        self.held_until = dict(before.held_until)
        self.reserve.is_shut = before.is_shut
        promised = before.promised
        slot = self.places.slot(promised.node) if promised is not None else None
        if promised is not None and slot is not None:
            promised = replace(promised, version=slot.version - before.age)  # the node is as it was; its count is not
        self.reservation = promised

    def hold(self, tenant: TenantId, reasons: Reasons, until: Millis | None) -> None:
        """Out of the running until something of it is released, its limits change, or the moment comes."""
        self.queue.hold(tenant, reasons)
        if until is not None and self.held_until.get(tenant) != until:
            self.held_until[tenant] = until
            self.timers.add(until, Due.HOLD, tenant)

    def hold_for_room(
        self, tenant: TenantId, reasons: Reasons, until: Millis | None, *, on: frozenset[NodeId] = _ANYWHERE
    ) -> None:
        """As `hold`; room that anybody frees may be what it waits for, or only what is freed `on` those nodes."""
        self.hold(tenant, reasons, until)
        self._short_of_room[tenant] = on

    def hold_for_promise(self, tenant: TenantId, reasons: Reasons) -> None:
        """As `hold_for_room`; there is some, on the nodes it may be on, but somebody who is first was promised it."""
        self.hold_for_room(tenant, reasons, None)
        self._makes_way.add(tenant)

    def let_go_for_room(self) -> None:
        """Those who could use what has grown. Who waits for nodes of its own is not asked about others: with every tenant at such
        a limit, each end of a run would have all of them asked."""
        grown, waiting = self.grown, self._short_of_room
        for tenant in sorted(one for one, on in waiting.items() if not on or not on.isdisjoint(grown)):
            self.queue.let_go(tenant)
            del waiting[tenant]
        self._makes_way.clear()
        self.reserve.is_shut = False

    def let_go_for_pools(self) -> None:
        """Which nodes take whose jobs has changed: all who wait for room are asked again."""
        for tenant in sorted(self._short_of_room):
            self.queue.let_go(tenant)
        self._short_of_room.clear()

    # — one table each: put the new record in its place, keep what follows from it, answer the old one —

    def _replacers(self) -> dict[Table, Callable[[Any, Any], Record | None]]:
        return {
            Table.JOBS: self._replace_job,
            Table.RUNS: self._replace_run,
            Table.POOLS: self.fleet.replace_pool,
            Table.WORKERS: self.fleet.replace_worker,
            Table.GROWTHS: self.fleet.replace_growth,
            Table.NODES: self._replace_node,
            Table.VOLUMES: self._replace_volume,
            Table.ACCOUNTS: self._replace_account,
            Table.TENANTS: self._replace_tenant,
            Table.PRICES: self._replace_prices,
            Table.TOTALS: self._replace_total,
            Table.BURSTS: self._replace_burst,
            Table.BUDGETS: self._replace_mark,
            Table.GONE: partial(_swap, self.gone),
            Table.TOKENS: self._replace_token,
            Table.NAMES: partial(_swap, self.names),
            Table.HOOKS: partial(_swap, self.hooks),
            Table.KEYS: self._replace_key,
            Table.SECRETS: self.vault.replace_secret,
            Table.LOGINS: self.vault.replace_login,
        }

    def _replace_tenant(self, key: TenantId, new: Tenant | None) -> Tenant | None:
        old = _swap(self.tenants, key, new)
        self.weights += (new.weight if new is not None else 0) - (old.weight if old is not None else 0)
        self.standings.weigh(key)
        self._set_lead()
        if old is not None:
            self.reserve.note_tenant(old, -1)
        if new is not None:
            self.reserve.note_tenant(new, 1)
        self._allow(key, new.quota.pools if new is not None else ())
        self.let_go_for_room()
        self.queue.let_go(key)
        self.watch_budget(key)
        return old

    def _allow(self, tenant: TenantId, pools: tuple[PoolId, ...]) -> None:
        """What its queued jobs' shapes say is put right as their turn comes; those that are parked have to have one."""
        allowed = tuple(sorted(pools))
        if allowed == self.allowed.get(tenant, ()):
            return
        if allowed:
            self.allowed[tenant] = allowed
        else:
            del self.allowed[tenant]
        self.fleet.has_changed = True

    def _replace_prices(self, key: str, new: Prices | None) -> Prices:
        old, self.prices = self.prices, new or Prices()
        self._books.clear()
        return old

    def _replace_total(self, key: str, new: DayTotal | None) -> DayTotal | None:
        old: DayTotal | None = _swap(self.totals, key, new)
        if old is not None:
            self.usage[old.tenant].note_total(old, new)
            self.queue.let_go(old.tenant)
        elif new is not None:
            self.usage[new.tenant].note_total(old, new)
            self.timers.add(Millis(day_start(new.day) + MONEY_KEPT_MS), Due.TOTAL, key)
        return old

    def _replace_burst(self, key: str, new: BurstSession | None) -> BurstSession | None:
        tenant = TenantId(key.partition("/")[0])
        old = _swap(self.bursts[tenant], key, new)
        if new is not None:
            self.timers.add(Millis(new.ends_at + new.is_closed * MONEY_KEPT_MS), Due.BURST, key)
        if not self.bursts[tenant]:
            del self.bursts[tenant]
        self.queue.let_go(tenant)
        return old

    def _replace_mark(self, key: TenantId, new: BudgetMark | None) -> BudgetMark | None:
        old = _swap(self.marks, key, new)
        self.watch_budget(key)
        return old

    def watch_budget(self, tenant: TenantId) -> None:
        """Look again when, at the present rate, the next threshold is passed."""
        owner = self.tenants.get(tenant)
        if owner is None or owner.budget is None:
            return
        usage = self.usage.get(tenant)
        if usage is not None:
            at = next_threshold_at(owner.budget, self.marks.get(tenant), usage, self.now)
            if at is not None:
                self.timers.add(at, Due.BUDGET, tenant)

    def watch_cost(self, job: Job) -> None:
        """Look again when the job comes near to, or to the end of, what it may cost."""
        if job.cost_max is None:
            return
        for run in (self.runs[key] for key in self.runs_of.get(job.id, ())):
            at = cost_reached_at(job, run)
            if at is not None:
                self.timers.add(at, Due.JOB_COST, job.id)

    def _replace_account(self, key: TenantId, new: Account | None) -> Account | None:
        self.queue.tag(key, new.finish if new is not None else 0)
        return self.ledger.replace(key, new)

    def _replace_token(self, key: str, new: IssuedToken | None) -> IssuedToken | None:
        old = _swap(self.tokens, key, new)
        if old is not None:
            self.revoked.discard((old.tenant, old.id))
        if new is not None and new.revoked_at is not None:
            self.revoked.add((new.tenant, new.id))
        return old

    def _replace_job(self, key: JobId, new: Job | None) -> Job | None:
        old = _swap(self.jobs, key, new)
        if old is not None:
            if old.state is PENDING and _waits(old):
                self.dequeue(old)
            if new is not None:
                self.usage[old.tenant].note_change(old, new)
            else:
                self.usage[old.tenant].note_job(old, -1)
            if old.secrets:
                self.vault.note_job(old, is_there=False)
        if new is not None:
            if new.seq > self.seq:
                self.seq = new.seq
            if old is None:
                self.usage[new.tenant].note_job(new, 1)
            if new.secrets:
                self.vault.note_job(new, is_there=True)
            if new.cost_max is not None:
                self.watch_cost(new)
            if new.state is PENDING and _waits(new):
                self.enqueue(new)
        return old

    def enqueue(self, job: Job) -> None:
        """Into its lane, or onto the timer that will bring it there after its backoff."""
        if job.not_before > self.now:
            self.backing_off.add(job.id)
            self.timers.add(job.not_before, Due.BACKOFF, job.id)
            return
        if job.due_at is None:
            self.queue.add(job)
        else:
            urgent = urgency(job, self.now)
            self.queue.add(job, self._level(urgent))
            self._note_urgency(job, urgent)
        self.queue.let_go(job.tenant)  # held for what its first job asks: this one may be the first now

    def dequeue(self, job: Job) -> None:
        """A job that waits, out of its lane or out of its backoff."""
        if self.backing_off and job.id in self.backing_off:
            self.backing_off.discard(job.id)
        else:
            self.queue.discard(job)
            self.queue.let_go(job.tenant)  # another may be its first now
            if self.urgent:
                self.urgent.pop(job.id, None)

    def hurry(self, job: Job) -> None:
        """Its deadline has come nearer."""
        urgent = urgency(job, self.now)
        if urgent is Urgency.MISSED and self.urgent.get(job.id) is not urgent and not self.is_trial:
            self.missed += 1
        self.queue.boost(job, self._level(urgent))
        self.queue.let_go(job.tenant)
        self._note_urgency(job, urgent)

    def _level(self, urgent: Urgency) -> int:
        return urgent.level if self._boost_cap is not None else 0

    def _note_urgency(self, job: Job, urgent: Urgency) -> None:
        if urgent:
            self.urgent[job.id] = urgent
        at = next_change(job, self.now)
        if at is not None:
            self.timers.add(at, Due.DEADLINE, job.id)

    def promise_due(self) -> Millis | None:
        """When a run that it counts on is late, if anybody makes way for it."""
        promised = self.reservation
        return promised.holds_until if promised is not None and self.has_yielding else None

    @property
    def has_yielding(self) -> bool:
        """Somebody makes way for whoever is first."""
        return bool(self._makes_way) or self.queue.has_yielding

    def forget_promise(self) -> None:
        """Nothing is kept free; those that made way are looked at again."""
        self.reservation = None
        self.ask_who_made_way()

    def ask_who_made_way(self) -> None:
        for band in self.queue.yielding():
            self.queue.unpark(band)
        for tenant in sorted(self._makes_way):
            self.queue.let_go(tenant)
        self._makes_way.clear()

    def weight_of(self, tenant: TenantId) -> int:
        owner = self.tenants.get(tenant)
        return owner.weight if owner is not None else SHARE

    def _set_lead(self) -> None:
        """How far deadlines reach follows from what all nodes can do and how many share it."""
        cap = self._boost_cap or 0
        self.queue.set_lead(lead_of(self.places.capacity, self._boost_window_ms, cap, self.weights))

    def _replace_run(self, key: RunId, new: Run | None) -> Run | None:
        old = _swap(self.runs, key, new)
        held = old is not None and old.state not in ENDED
        holds = new is not None and new.state not in ENDED
        if old is not None and new is not None and held and holds and _holds_the_same(old, new):
            self.usage[new.tenant].note_progress(old, new)
            self.places.renew(new)
        else:
            if old is not None:
                self._forget_run(old, held)
            if new is not None:
                self._note_run(new, holds)
        if new is not None:
            self._watch_run(new, holds)
        if old is not None and held and not holds:
            self.queue.let_go(old.tenant)
            self.grown.add(old.node)
        return old

    def _forget_run(self, run: Run, held: bool) -> None:
        runs_of, job = self.runs_of, run.job
        if len(runs_of[job]) == 1:
            del runs_of[job]
        else:
            runs_of[job] = tuple(one for one in runs_of[job] if one != run.id)
        runs_on = self.runs_on[run.node]
        runs_on.discard(run.id)
        if not runs_on:
            del self.runs_on[run.node]
        if held:
            self.usage[run.tenant].note_run(run, -1)
            self.reserve.note_run(run, -1)
            self.places.release(run)
            if self.woken is None:
                self.fleet.note_idle(run, self.now)

    def _note_run(self, run: Run, holds: bool) -> None:
        others = self.runs_of.get(run.job)
        self.runs_of[run.job] = (run.id,) if others is None else tuple(sorted((*others, run.id)))
        self.runs_on[run.node].add(run.id)
        if holds:
            self.usage[run.tenant].note_run(run, 1)
            self.reserve.note_run(run, 1)
            self.places.hold(run)

    def _watch_run(self, run: Run, holds: bool) -> None:
        """For what time alone will do to it: its end once it is over, its cost while it runs."""
        if run.keep_until is not None:
            self.timers.add(run.keep_until, Due.RUN_TTL, run.id)
        if holds and run.started_at is not None:
            self.watch_budget(run.tenant)
            job = self.jobs.get(run.job)
            if job is not None:
                self.watch_cost(job)

    def _replace_node(self, key: NodeId, new: Node | None) -> Node | None:
        old = _swap(self.nodes, key, new)
        self.has_other_nodes = True
        if old is not None:
            self.reserve.note_node(old, -1)
        if new is not None:
            self.reserve.note_node(new, 1)
        if new is None:
            self.places.remove(key)
        else:
            held = (self.runs[run] for run in self.runs_on.get(key, ()))
            self.places.set(new, [run for run in held if not run.is_over])
            self.grown.add(key)
        self._set_lead()
        return old

    def _replace_volume(self, key: VolumeId, new: Volume | None) -> Volume | None:
        old = _swap(self.volumes, key, new)
        if old is None or new is None or old.name != new.name:
            if old is not None:
                self._namesakes.discard(old)
            if new is not None:
                self._namesakes.add(new)
        if new is not None and new.expires_at is not None:
            self.timers.add(new.expires_at, _VOLUME_TTL, key)
        if (old is not None and old.stored_at is not None) or (new is not None and new.stored_at is not None):
            self._note_stored(key, old, new)
        return old

    def _note_stored(self, key: VolumeId, old: Volume | None, new: Volume | None) -> None:
        """Where storing has a price."""
        if old is not None and old.stored_at is not None:
            self.usage[old.tenant].note_stored(old, -1)
            del self.stored[key]
        if new is not None and new.stored_at is not None:
            self.usage[new.tenant].note_stored(new, 1)
            self.stored[key] = new
            self.watch_budget(new.tenant)

    def _replace_key(self, key: str, new: Key | None) -> Key | None:
        if new is not None:
            self.timers.add(new.expires_at, Due.KEY, key)
        return _swap(self.keys, key, new)


def _swap(table: dict[K, R], key: K, new: R | None) -> R | None:
    old = table.pop(key, None) if new is None else table.get(key)
    if new is not None:
        table[key] = new
    return old


def _waits(job: Job) -> bool:
    """`Job.is_waiting`, of one that is pending: a record's own properties are never compiled."""
    return not job.is_suspended and not job.is_cancelled


def _holds_the_same(old: Run, new: Run) -> bool:
    """Of two that are not over: what it holds is where it was, and what else changed is the run's own affair."""
    return (
        old.node == new.node
        and (old.needs is new.needs or old.needs == new.needs)
        and old.gpu_ids == new.gpu_ids
        and old.burst == new.burst
    )
