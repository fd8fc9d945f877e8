"""The World's records and the indexes derived from them. Loading, deciding and undoing are the same act: replace a record.

Nothing here decides. Because every index follows from the records alone, a World rebuilt from the store equals the live one,
and a change is taken back by putting the old record in its place.
"""

from collections import defaultdict
from collections.abc import Hashable
from typing import TypeVar, cast

from windlass.core.fairness.ledger import Account, Ledger
from windlass.core.fairness.queue import WaitingQueue
from windlass.core.fairness.typical import Typical
from windlass.core.model.ids import JobId, Millis, NodeId, RunId, TenantId, VolumeId
from windlass.core.model.job import Job
from windlass.core.model.node import Node
from windlass.core.model.resources import NOTHING, Resources
from windlass.core.model.run import Run
from windlass.core.model.tenant import Tenant
from windlass.core.model.volume import Volume
from windlass.core.placement.nodes import Nodes
from windlass.core.world.records import Hook, Key, Name, Record, Table
from windlass.core.world.timers import Due, Timers

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
M = TypeVar("M")


class Usage:
    """What a tenant holds: its runs that are not over, and its jobs that are not."""

    __slots__ = ("jobs", "resources", "runs")

    def __init__(self) -> None:
        self.jobs = 0
        self.runs = 0
        self.resources: Resources = NOTHING


class Tables:
    def __init__(self) -> None:
        self.now = Millis(0)
        self.tenants: dict[TenantId, Tenant] = {}
        self.nodes: dict[NodeId, Node] = {}
        self.jobs: dict[JobId, Job] = {}
        self.runs: dict[RunId, Run] = {}
        self.volumes: dict[VolumeId, Volume] = {}
        self.names: dict[str, Name] = {}
        self.keys: dict[str, Key] = {}
        self.hooks: dict[JobId, Hook] = {}
        self.ledger = Ledger()
        # derived
        self.queue = WaitingQueue()
        self.places = Nodes()
        self.timers = Timers()
        self.typical = Typical()
        """Measured, not derived: it begins empty, and an undo leaves it alone."""
        self.usage: defaultdict[TenantId, Usage] = defaultdict(Usage)
        self.runs_of: defaultdict[JobId, set[RunId]] = defaultdict(set)
        self.runs_on: defaultdict[NodeId, set[RunId]] = defaultdict(set)
        self.volume_named: dict[tuple[TenantId, str], VolumeId] = {}
        self._volumes_named: defaultdict[tuple[TenantId, str], set[VolumeId]] = defaultdict(set)
        self.grown: set[NodeId] = set()
        """Nodes with more room than at the last placement: parked lanes may fit there now."""
        self.woken: list[JobId] | None = None
        """During a trial: jobs whose backoff has ended in it, to be sent back."""
        self.seq = 0

    @property
    def is_trial(self) -> bool:
        return self.woken is not None

    def replace(self, table: Table, key: str, new: Record | None) -> Record | None:
        """Put `new` in the place of the record under `key` (None removes it); answers what was there."""
        match table:
            case Table.JOBS:
                return self._replace_job(JobId(key), cast(Job | None, new))
            case Table.RUNS:
                return self._replace_run(RunId(key), cast(Run | None, new))
            case Table.NODES:
                return self._replace_node(NodeId(key), cast(Node | None, new))
            case Table.VOLUMES:
                return self._replace_volume(VolumeId(key), cast(Volume | None, new))
            case Table.ACCOUNTS:
                return self._replace_account(TenantId(key), cast(Account | None, new))
            case Table.TENANTS:
                return _swap(self.tenants, TenantId(key), cast(Tenant | None, new))
            case Table.NAMES:
                return _swap(self.names, key, cast(Name | None, new))
            case Table.HOOKS:
                return _swap(self.hooks, JobId(key), cast(Hook | None, new))
            case Table.KEYS:
                return self._replace_key(key, cast(Key | None, new))
            case Table.SPECS | Table.ANSWERS | Table.OUTBOX:
                return None  # written, never kept

    def _replace_account(self, key: TenantId, new: Account | None) -> Account | None:
        self.queue.tag(key, new.finish if new is not None else 0)
        return self.ledger.replace(key, new)

    def _replace_job(self, key: JobId, new: Job | None) -> Job | None:
        old = _swap(self.jobs, key, new)
        if old is not None:
            self.queue.discard(old)
            self.usage[old.tenant].jobs -= not old.is_over
        if new is not None:
            self.seq = max(self.seq, new.seq)
            self.usage[new.tenant].jobs += not new.is_over
            if new.is_waiting:
                self.enqueue(new)
        return old

    def enqueue(self, job: Job) -> None:
        """Into its lane, or onto the timer that will bring it there after its backoff."""
        if job.not_before > self.now:
            self.timers.add(job.not_before, Due.BACKOFF, job.id)
        else:
            self.queue.add(job)

    def _replace_run(self, key: RunId, new: Run | None) -> Run | None:
        old = _swap(self.runs, key, new)
        if old is not None:
            self._forget_run(old)
        if new is not None:
            self._note_run(new)
        return old

    def _forget_run(self, run: Run) -> None:
        _discard(self.runs_of, run.job, run.id)
        _discard(self.runs_on, run.node, run.id)
        if run.is_over:
            return
        usage = self.usage[run.tenant]
        usage.runs -= 1
        usage.resources = usage.resources - run.needs
        slot = self.places.slot(run.node)
        if slot is not None:
            slot.release(run)
            self.grown.add(run.node)

    def _note_run(self, run: Run) -> None:
        self.runs_of[run.job].add(run.id)
        self.runs_on[run.node].add(run.id)
        if run.keep_until is not None:
            self.timers.add(run.keep_until, Due.RUN_TTL, run.id)
        if run.is_over:
            return
        usage = self.usage[run.tenant]
        usage.runs += 1
        usage.resources = usage.resources + run.needs
        slot = self.places.slot(run.node)
        if slot is not None:
            slot.hold(run)

    def _replace_node(self, key: NodeId, new: Node | None) -> Node | None:
        old = _swap(self.nodes, key, new)
        if new is None:
            self.places.remove(key)
        else:
            held = (self.runs[run] for run in self.runs_on.get(key, ()))
            self.places.set(new, [run for run in held if not run.is_over])
            self.grown.add(key)
        return old

    def _replace_volume(self, key: VolumeId, new: Volume | None) -> Volume | None:
        old = _swap(self.volumes, key, new)
        if old is not None:
            self._name_volume(old, is_there=False)
        if new is not None:
            self._name_volume(new, is_there=True)
            if new.expires_at is not None:
                self.timers.add(new.expires_at, Due.VOLUME_TTL, key)
        return old

    def _name_volume(self, volume: Volume, *, is_there: bool) -> None:
        """A deleted job may leave its volume to its TTL while its name is used again: the name means the newest one."""
        name = volume.tenant, volume.name
        if is_there:
            self._volumes_named[name].add(volume.id)
        else:
            _discard(self._volumes_named, name, volume.id)
        namesakes = self._volumes_named.get(name)
        if namesakes:
            self.volume_named[name] = max(namesakes)  # ids are UUIDv7: the greatest is the newest
        else:
            self.volume_named.pop(name, None)

    def _replace_key(self, key: str, new: Key | None) -> Key | None:
        if new is not None:
            self.timers.add(new.expires_at, Due.KEY, key)
        return _swap(self.keys, key, new)


def _swap(table: dict[K, R], key: K, new: R | None) -> R | None:
    old = table.pop(key, None) if new is None else table.get(key)
    if new is not None:
        table[key] = new
    return old


def _discard(index: defaultdict[K, set[M]], key: K, member: M) -> None:
    members = index.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del index[key]
