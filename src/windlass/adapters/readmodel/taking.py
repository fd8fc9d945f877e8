"""Changes of the store on their way into the tables: gathered per table, written together, so that a batch costs few calls."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import apsw
from msgspec import json
from msgspec.structs import replace

from windlass.adapters.readmodel import audit, costs, events
from windlass.adapters.readmodel.told import Told
from windlass.core.happenings import (
    narrate_budget,
    narrate_gone,
    narrate_hook,
    narrate_labels,
    narrate_step,
    narrate_worker,
)
from windlass.core.model.hook import Hook
from windlass.core.model.ids import JobId, Millis
from windlass.core.model.job import Job, JobState
from windlass.core.model.narrate import narrate, narrate_node
from windlass.core.model.node import Node
from windlass.core.model.pool import Pool, Worker
from windlass.core.model.run import Run
from windlass.core.model.spending import BudgetMark
from windlass.core.model.views import Event, JobView
from windlass.core.model.volume import Volume
from windlass.core.scaling import ScalingStep
from windlass.core.world.records import (
    NUMBER_KEY,
    Deeds,
    HookOver,
    JobErased,
    JobOver,
    Mark,
    Outgoing,
    RunOver,
    Table,
    VolumeStored,
    WorkerOver,
    decode,
    parse_key,
)
from windlass.ports.store import Change

Row = tuple[Any, ...]


def hook_told(job: JobId) -> str:
    """Under what `told` has the webhook of a job."""
    return f"{Table.HOOKS}/{job}"


_PUT: Final = {
    "jobs": "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "specs": "INSERT OR REPLACE INTO specs VALUES (?, ?)",
    "runs": "INSERT OR REPLACE INTO runs VALUES (?, ?, ?)",
    "labels": "INSERT OR IGNORE INTO labels VALUES (?, ?, ?)",
    "events": events.PUT,
    "nodes": "INSERT OR REPLACE INTO nodes VALUES (?, ?)",
    "volumes": "INSERT OR REPLACE INTO volumes VALUES (?, ?, ?)",
    "audit": audit.PUT,
    "scaling": "INSERT OR REPLACE INTO scaling VALUES (?, ?, ?, ?)",
}
_ERASE: Final = (
    "DELETE FROM jobs WHERE id = ?",
    "DELETE FROM specs WHERE job = ?",
    "DELETE FROM runs WHERE job = ?",
    "DELETE FROM events WHERE subject = ?",
)
_RETOLD: Final = (Table.WORKERS, Table.BUDGETS, Table.POOLS)
_UNLABEL: Final = "DELETE FROM labels WHERE key = ? AND value = ? AND job = ?"
_job = json.Decoder(Job)
_run = json.Decoder(Run)
_volume = json.Decoder(Volume)
_node = json.Decoder(Node)
_worker = json.Decoder(Worker)
_pool = json.Decoder(Pool)
_mark = json.Decoder(BudgetMark)
_hook = json.Decoder(Hook)
_number = json.Decoder(Mark)


class TakenIn:
    """One batch. A key that goes away does not take its row along: history is made of such rows."""

    def __init__(
        self,
        before: Callable[[JobId], Job | None],
        node_before: Callable[[str], Node | None],
        view: Callable[[JobId], JobView | None],
        told: Told,
        *,
        seq: int,
    ) -> None:
        """`seq` is the highest acceptance number taken in before: what is above it cannot be known yet."""
        self.seq = seq
        self._moments: dict[int, Millis] = {}
        """When each commit was made."""
        self._before = before
        self._node_before = node_before
        self._view = view
        self._told = told
        self._trimmed: dict[str, None] = {}
        self._rows: dict[str, dict[Any, Row]] = {table: {} for table in _PUT}
        self._jobs: dict[JobId, Job] = {}
        self._nodes: dict[str, Node | None] = {}
        self._erasures: list[JobErased] = []
        self._over: list[RunOver] = []
        self._workers_over: list[WorkerOver] = []
        self._stored: list[VolumeStored] = []
        self._volumes_gone: list[str] = []
        self._hooks: list[tuple[Hook, int]] = []
        self.touched: dict[JobId, None] = {}
        self.erased: list[JobView] = []

    def take_all(self, changes: Sequence[Change]) -> None:
        self._moments = {
            change.revision: _number.decode(change.value).at
            for change in changes
            if change.key == NUMBER_KEY and change.value is not None
        }
        for change in changes:
            self._take(change)
        for hook, revision in self._hooks:  # last: a snapshot has them before the jobs they are of
            self._put_hook(hook, revision)

    def write(self, db: apsw.Connection) -> None:
        """Inside the caller's transaction. Erasures last: a batch may hold a job's end and its deletion."""
        for table, rows in self._rows.items():
            if rows:
                db.executemany(_PUT[table], list(rows.values()))
        if self._volumes_gone:
            db.executemany("DELETE FROM volumes WHERE id = ?", [(key,) for key in self._volumes_gone])
        for over in self._over:  # before erasures: a job deleted in the same breath is named in the ledger all the same
            costs.take(db, over)
        for gone in self._workers_over:
            costs.take_worker(db, gone)
        for stored in self._stored:
            costs.take_stored(db, stored)
        for erased in self._erasures:
            self._erase(db, erased)
        if self._nodes:
            db.executemany(
                "DELETE FROM nodes WHERE id = ?", [(key,) for key, node in self._nodes.items() if node is None]
            )
        self._told.write(db)
        if self._trimmed:
            events.trim(db, self._trimmed)

    def _take(self, change: Change) -> None:
        parsed = parse_key(change.key)
        if parsed is None:
            return
        table, key = parsed
        if change.value is None:
            self._take_away(table, key, change.revision)
        elif table in _RETOLD:
            self._retell(table, key, change.value, change.revision)
        else:
            self._take_in(table, key, change.value, change.revision)

    def _moment(self, revision: int) -> Millis:
        return self._moments.get(revision, Millis(0))

    def _take_away(self, table: Table, key: str, revision: int) -> None:
        if table is Table.VOLUMES:
            self._rows["volumes"].pop(key, None)
            self._volumes_gone.append(key)
        elif table is Table.NODES:
            self._put_node(key, None, revision)
        elif table in _RETOLD:
            self._told.forget(f"{table}/{key}")

    def _take_in(self, table: Table, key: str, value: bytes, revision: int) -> None:
        match table:
            case Table.JOBS:
                self._put_job(_job.decode(value), value, revision)
            case Table.NODES:
                self._put_node(key, _node.decode(value), revision)
            case Table.SPECS:
                self._rows["specs"][key] = (key, value)
            case Table.RUNS:
                self._put_run(_run.decode(value), value)
            case Table.VOLUMES:
                self._rows["volumes"][key] = (key, _volume.decode(value).tenant, value)
            case Table.HOOKS:
                self._hooks.append((_hook.decode(value), revision))
            case Table.OUTBOX:
                self._put_outgoing(decode(Table.OUTBOX, value), revision)

    def _retell(self, table: Table, key: str, value: bytes, revision: int) -> None:
        """Of records that are kept only to tell what changed about them."""
        before = self._told.swap(f"{table}/{key}", value)
        if table is Table.WORKERS:
            worker = _worker.decode(before) if before is not None else None
            self._tell(narrate_worker(worker, _worker.decode(value), revision=revision))
        elif table is Table.POOLS:
            pool, now = _pool.decode(before) if before is not None else None, self._moment(revision)
            self._tell(narrate_labels(pool, _pool.decode(value), revision=revision, now=now))
        else:
            mark = _mark.decode(before) if before is not None else None
            self._tell(narrate_budget(mark, _mark.decode(value), revision=revision))

    def _put_job(self, job: Job, doc: bytes, revision: int) -> None:
        before = self._jobs.get(job.id)
        if before is None and job.seq <= self.seq:
            before = self._before(job.id)
        self._jobs[job.id] = job
        self.seq = max(self.seq, job.seq)
        self.touched[job.id] = None
        self._rows["jobs"][job.id] = (
            job.id,
            job.tenant,
            job.name,
            job.state,
            job.kind,
            job.created_at,
            job.finished_at,
            revision,
            doc,
        )
        if before is None:
            self._rows["labels"].update({(k, v, job.id): (k, v, job.id) for k, v in job.labels})
        for event in narrate(before, job, revision=revision, now=self._moment(revision)):
            self._put_event(event)

    def _put_node(self, key: str, node: Node | None, revision: int) -> None:
        before = self._nodes[key] if key in self._nodes else self._node_before(key)
        self._nodes[key] = node
        if node is not None:
            self._rows["nodes"][key] = (key, json.encode(node))
        else:
            self._rows["nodes"].pop(key, None)
        self._tell(narrate_node(before, node, revision=revision, now=self._moment(revision)))

    def _tell(self, happened: Iterable[Event]) -> None:
        """Of anything but a job."""
        for event in happened:
            self._put_event(event)
            self._trimmed[events.subject(event)] = None

    def _put_event(self, event: Event) -> None:
        rows = self._rows["events"]
        ordinal = len(rows)
        rows[event.revision, ordinal] = events.row(event, ordinal)

    def _put_run(self, run: Run, doc: bytes) -> None:
        self.touched[run.job] = None
        self._rows["runs"][run.id] = (run.job, run.id, doc)

    def _put_hook(self, hook: Hook, revision: int) -> None:
        """Kept where it was last told from: that is also where its job's status has it from."""
        job = self._jobs.get(hook.job) or self._before(hook.job)
        if job is None:
            return
        before = self._told.swap(hook_told(hook.job), json.encode(hook))
        for event in narrate_hook(_hook.decode(before) if before else None, hook, job, revision=revision):
            self._put_event(event)
        self.touched[hook.job] = None

    def _put_outgoing(self, outgoing: Outgoing, revision: int) -> None:
        match outgoing:
            case JobOver(job=job):
                self._put_job(job, json.encode(job), revision)
            case RunOver(run=run):
                self._put_run(run, json.encode(run))
                self._over.append(outgoing)
            case JobErased(job=job_id):
                self._erasures.append(outgoing)
                self._told.forget(hook_told(job_id))
            case HookOver(hook=hook):
                self._hooks.append((hook, revision))
            case ScalingStep(pool=pool, number=number, at=at):
                self._rows["scaling"][pool, number] = (pool, number, at, json.encode(outgoing))
                if self._told.is_news(revision):
                    self._tell([narrate_step(outgoing, revision=revision)])
            case WorkerOver(worker=worker, at=at):
                self._workers_over += [outgoing] if outgoing.segments else []
                if self._told.is_news(revision):
                    self._tell([narrate_gone(worker, at, revision=revision)])
            case VolumeStored():
                self._stored.append(outgoing)
            case Deeds(records=records):
                self._rows["audit"].update((deed.number, audit.row(deed)) for deed in records)

    def _erase(self, db: apsw.Connection, erased: JobErased) -> None:
        """Its rows go; who follows it is told once more, with the job as over and deleted."""
        last = self._view(erased.job)
        if last is not None:
            state = last.job.state if last.job.is_over else JobState.CANCELLED
            over = replace(last.job, state=state, finished_at=last.job.finished_at or erased.at, is_deleted=True)
            self.erased.append(replace(last, job=over))
            db.executemany(_UNLABEL, [(key, value, erased.job) for key, value in last.job.labels])
        for sql in _ERASE:
            db.execute(sql, (erased.job,))
