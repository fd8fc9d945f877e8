"""The read model's tables in SQLite, in memory or in a file of their own beside the store's."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import apsw
from msgspec import json
from msgspec.structs import replace

from windlass.adapters.readmodel import costs, events, schema
from windlass.adapters.readmodel.audit import asked
from windlass.adapters.readmodel.taking import TakenIn, hook_told
from windlass.adapters.readmodel.told import Told
from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable
from windlass.core.model.audit import AuditPage, AuditQuery
from windlass.core.model.calendar import Day
from windlass.core.model.costs import CostQuery, CostRow, MeteredRun
from windlass.core.model.hook import Hook
from windlass.core.model.ids import JobId, Millis, PoolId, TenantId
from windlass.core.model.job import Job, JobSpec
from windlass.core.model.node import Node
from windlass.core.model.run import Run
from windlass.core.model.views import Event, EventQuery, JobPage, JobQuery, JobView, VolumeView, ran_over
from windlass.core.model.volume import Volume
from windlass.core.scaling import ScalingStep
from windlass.ports.store import Change

_PREFIX_LENGTH_MIN = 8
_job = json.Decoder(Job)
_spec = json.Decoder(JobSpec)
_run = json.Decoder(Run)
_volume = json.Decoder(Volume)
_node = json.Decoder(Node)
_hook = json.Decoder(Hook)
_step = json.Decoder(ScalingStep)


class SqliteReadTables:
    def __init__(self, path: Path | str) -> None:
        self._db = apsw.Connection(str(path))
        try:
            self._db.pragma("journal_mode", "wal")
        except apsw.Error as error:
            raise Unavailable(
                f"{path} cannot be opened: {error}",
                code="history-damaged",
                hint="move it away: lists of live jobs are refilled from the store, older history is lost",
            ) from error
        # What is lost in a power cut is taken in again from the store's watch: no sync per commit is needed.
        self._db.pragma("synchronous", "normal")
        self._migrate()
        self._seq = cast(int, self._one("SELECT seq FROM position"))

    def close(self) -> None:
        self._db.close()

    def revision(self) -> int:
        return cast(int, self._one("SELECT revision FROM position"))

    def apply(self, changes: Sequence[Change], revision: int, *, tells: bool = True) -> tuple[JobView, ...]:
        taken = TakenIn(self._job_before, self._node_before, self._view_of, Told(self._db), seq=self._seq)
        taken.take_all(changes)
        with self._db:
            taken.write(self._db)
            self._db.execute("UPDATE position SET revision = ?, seq = ?", (revision, taken.seq))
        self._seq = taken.seq
        if not tells:
            return ()
        left = (view for job in taken.touched if (view := self._view_of(job)) is not None)
        return (*left, *taken.erased)

    def views_in(self, changes: Sequence[Change]) -> tuple[JobView, ...]:
        """The jobs that changed, when the changes were taken in already."""
        taken = TakenIn(self._job_before, self._node_before, self._view_of, Told(self._db), seq=self._seq)
        taken.take_all(changes)
        return tuple(view for job in taken.touched if (view := self._view_of(job)) is not None)

    def reset(self, changes: Sequence[Change], revision: int) -> None:
        with self._db:
            self._db.execute("DELETE FROM volumes")
        self.apply(changes, revision)

    # — questions —

    def find_job(self, tenant: TenantId | None, ref: str) -> JobView:
        job = self._resolve(tenant, ref)
        view = self._view_of(job) if job is not None else None
        if view is None:
            raise NotFound(f"no job {ref!r}", hint="`windlass get jobs` lists them")
        return view

    def jobs(self, query: JobQuery) -> JobPage:
        where, values = _conditions(query)
        order = "DESC" if query.newest_first else "ASC"
        sql = f"""SELECT jobs.id, jobs.doc, jobs.revision, specs.doc FROM jobs JOIN specs ON specs.job = jobs.id
                  WHERE {where} ORDER BY jobs.id {order} LIMIT ?"""  # noqa: S608 — `where` is made of constants only
        rows = self._db.execute(sql, (*values, query.limit + 1)).fetchall()
        shown = rows[: query.limit]
        items = tuple(self._listed(_view(doc, spec, revision)) for _, doc, revision, spec in shown)
        more = len(rows) > query.limit
        return JobPage(items=items, next_cursor=str(shown[-1][0]) if more else None, revision=self.revision())

    def events(self, query: EventQuery) -> tuple[Event, ...]:
        return events.asked(self._db, query)

    def volumes(self, tenant: TenantId | None) -> tuple[VolumeView, ...]:
        rows = self._db.execute(
            """SELECT volumes.doc, jobs.name FROM volumes
               LEFT JOIN jobs ON jobs.id = json_extract(volumes.doc, '$.job')
               WHERE ?1 IS NULL OR volumes.tenant = ?1 ORDER BY volumes.id""",
            (tenant,),
        )
        return tuple(
            VolumeView(volume=_volume.decode(cast(bytes, doc)), job_name=str(name or "")) for doc, name in rows
        )

    def jobs_over_before(self, moment: Millis, *, limit: int) -> tuple[JobView, ...]:
        rows = self._db.execute(
            "SELECT id FROM jobs WHERE finished_at IS NOT NULL AND finished_at < ? ORDER BY finished_at LIMIT ?",
            (moment, limit),
        ).fetchall()
        return tuple(view for (job,) in rows if (view := self._view_of(JobId(str(job)))) is not None)

    def counts(self) -> dict[str, int]:
        rows = self._db.execute("SELECT state, count(*) FROM jobs GROUP BY state")
        return {str(state): cast(int, count) for state, count in rows}

    # — audit —

    def audit(self, query: AuditQuery) -> AuditPage:
        return AuditPage(**asked(self._db, query), revision=self.revision())

    def forget_audit(self, before: Millis) -> None:
        with self._db:
            self._db.execute("DELETE FROM audit WHERE at < ?", (before,))

    # — the ledger —

    def costs(self, query: CostQuery) -> tuple[CostRow, ...]:
        return costs.sums(self._db, query)

    def metered(self, tenant: TenantId | None, *, since: Day, limit: int) -> tuple[MeteredRun, ...]:
        return costs.metered(self._db, tenant, since=since, limit=limit)

    def drop_costs(self, before: Day) -> None:
        with self._db:
            costs.drop(self._db, before)

    # — pools —

    def scaling(self, pool: PoolId, *, before: int | None, limit: int, since: Millis) -> tuple[ScalingStep, ...]:
        rows = self._db.execute(
            "SELECT doc FROM scaling WHERE pool = ?1 AND (?2 IS NULL OR number < ?2) AND at >= ?4 "
            "ORDER BY number DESC LIMIT ?3",
            (pool, before, limit, since),
        )
        return tuple(_step.decode(cast(bytes, doc)) for (doc,) in rows)

    def forget_scaling(self, before: Millis) -> None:
        with self._db:
            self._db.execute("DELETE FROM scaling WHERE at < ?", (before,))

    # — helpers —

    def _job_before(self, job: JobId) -> Job | None:
        doc = self._one("SELECT doc FROM jobs WHERE id = ?", (job,))
        return _job.decode(doc) if doc is not None else None

    def _node_before(self, node: str) -> Node | None:
        doc = self._one("SELECT doc FROM nodes WHERE id = ?", (node,))
        return _node.decode(doc) if doc is not None else None

    def _migrate(self) -> None:
        version = cast(int, self._db.pragma("user_version"))
        if version > schema.VERSION:
            raise Unavailable(
                f"the read model was written by a newer version (schema {version}, this one knows {schema.VERSION})",
                code="schema-newer",
                hint="upgrade windlass, or remove the read model's file: it is refilled from the store",
            )
        for step, statements in enumerate(schema.STEPS[version:], start=version + 1):
            with self._db:
                for statement in statements:
                    self._db.execute(statement)
                self._db.pragma("user_version", step)

    def _resolve(self, tenant: TenantId | None, ref: str) -> JobId | None:
        by_name = "SELECT id FROM jobs WHERE (?1 IS NULL OR tenant = ?1) AND name = ?2 ORDER BY id DESC LIMIT 1"
        named = self._one(by_name, (tenant, ref))
        if named is not None:
            return JobId(str(named))
        if len(ref) < _PREFIX_LENGTH_MIN:
            return None
        by_id = "SELECT id FROM jobs WHERE id >= ?2 AND id < ?2 || '\x7f' AND (?1 IS NULL OR tenant = ?1) LIMIT 2"
        rows = self._db.execute(by_id, (tenant, ref)).fetchall()
        if len(rows) > 1:
            raise Conflict(
                f"{ref!r} is the beginning of more than one job's id", code="ambiguous", hint="give more of it"
            )
        return JobId(str(rows[0][0])) if rows else None

    def _view_of(self, job: JobId) -> JobView | None:
        row = self._db.execute(
            "SELECT jobs.doc, specs.doc, jobs.revision FROM jobs JOIN specs ON specs.job = jobs.id WHERE id = ?", (job,)
        ).fetchone()
        if row is None:
            return None
        view = _view(*row, runs=self._runs_of(job))
        return replace(view, hook=self._hook_of(job)) if view.job.webhook and view.job.is_over else view

    def _listed(self, view: JobView) -> JobView:
        """Without its runs; they are looked at only for how long they ran."""
        job = view.job
        return replace(view, ran_ms=ran_over(job, self._runs_of(job.id))) if job.started_at is not None else view

    def _runs_of(self, job: JobId) -> tuple[Run, ...]:
        rows = self._db.execute("SELECT doc FROM runs WHERE job = ?", (job,))
        runs = [_run.decode(cast(bytes, doc)) for (doc,) in rows]
        return tuple(sorted(runs, key=lambda run: (run.attempt, run.index)))

    def _hook_of(self, job: JobId) -> Hook | None:
        doc = self._one("SELECT doc FROM told WHERE key = ?", (hook_told(job),))
        return _hook.decode(doc) if doc is not None else None

    def _one(self, sql: str, values: Iterable[Any] = ()) -> Any:
        row = self._db.execute(sql, tuple(values)).fetchone()
        return row[0] if row is not None else None


def _view(job: Any, spec: Any, revision: Any, *, runs: tuple[Run, ...] = ()) -> JobView:
    known = _job.decode(job)
    return JobView(job=known, spec=_spec.decode(spec), runs=runs, ran_ms=ran_over(known, runs), revision=revision)


def _conditions(query: JobQuery) -> tuple[str, list[Any]]:
    """Constant SQL with one placeholder per value."""
    clauses: list[str] = ["1"]
    values: list[Any] = []

    def add(clause: str, *given: Any) -> None:
        clauses.append(clause)
        values.extend(given)

    if query.tenant is not None:
        add("jobs.tenant = ?", query.tenant)
    if query.states or query.with_suspended:
        held = " OR (jobs.state = 'PENDING' AND json_extract(jobs.doc, '$.is_suspended'))" * query.with_suspended
        add(f"(jobs.state IN ({', '.join('?' * len(query.states))}){held})", *query.states)
    if query.kind is not None:
        add("jobs.kind = ?", query.kind)
    if query.name_prefix:
        add("jobs.name >= ? AND jobs.name < ? || '\x7f'", query.name_prefix, query.name_prefix)
    for key, value in query.labels.items():
        add("jobs.id IN (SELECT job FROM labels WHERE key = ? AND value = ?)", key, value)
    if query.cursor:
        if len(query.cursor) != 36:
            raise Invalid("that is not a cursor of this list", code="cursor", hint="begin without one")
        add("jobs.id < ?" if query.newest_first else "jobs.id > ?", query.cursor)
    return " AND ".join(clauses), values
