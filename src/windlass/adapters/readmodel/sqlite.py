"""The read model's tables in SQLite, in memory or in a file of their own beside the store's."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import apsw
from msgspec import json
from msgspec.structs import replace

from windlass.adapters.readmodel import schema
from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable
from windlass.core.model.ids import JobId, Millis, TenantId, VolumeId
from windlass.core.model.job import Job, JobSpec, JobState
from windlass.core.model.narrate import narrate
from windlass.core.model.run import Run
from windlass.core.model.views import JobEvent, JobPage, JobQuery, JobView, VolumeView
from windlass.core.model.volume import Volume
from windlass.core.world.records import JobErased, JobOver, RunOver, Table, decode, parse_key
from windlass.ports.store import Change

_PREFIX_LENGTH_MIN = 8
_job = json.Decoder(Job)
_spec = json.Decoder(JobSpec)
_run = json.Decoder(Run)
_volume = json.Decoder(Volume)
_event = json.Decoder(JobEvent)


class SqliteReadTables:
    def __init__(self, path: Path | str) -> None:
        self._db = apsw.Connection(str(path))
        self._db.pragma("journal_mode", "wal")
        # What is lost in a power cut is taken in again from the store's watch: no sync per commit is needed.
        self._db.pragma("synchronous", "normal")
        self._erased: list[JobView] = []
        self._migrate()

    def close(self) -> None:
        self._db.close()

    def revision(self) -> int:
        return cast(int, self._one("SELECT revision FROM position"))

    def apply(self, changes: Sequence[Change], revision: int) -> tuple[JobView, ...]:
        changed: dict[JobId, None] = {}
        self._erased.clear()
        with self._db:
            for change in changes:
                job = self._take_in(change)
                if job is not None:
                    changed[job] = None
            self._db.execute("UPDATE position SET revision = ?", (revision,))
        left = (view for job in changed if (view := self._view_of(job)) is not None)
        return (*left, *self._erased)

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
        items = tuple(_view(doc, spec, revision) for _, doc, revision, spec in shown)
        more = len(rows) > query.limit
        return JobPage(items=items, next_cursor=str(shown[-1][0]) if more else None, revision=self.revision())

    def events(self, job: JobId, *, after: int, limit: int) -> tuple[JobEvent, ...]:
        rows = self._db.execute(
            "SELECT doc FROM events WHERE job = ? AND revision > ? ORDER BY revision, ordinal LIMIT ?",
            (job, after, limit),
        )
        return tuple(_event.decode(cast(bytes, row[0])) for row in rows)

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

    # — taking changes in —

    def _take_in(self, change: Change) -> JobId | None:
        """The job the change was about. A key that goes away does not take its row along: history is made of such rows."""
        parsed = parse_key(change.key)
        if parsed is None:
            return None
        table, key = parsed
        if change.value is None:
            if table is Table.VOLUMES:
                self._db.execute("DELETE FROM volumes WHERE id = ?", (key,))
            return None
        match table:
            case Table.JOBS:
                return self._put_job(_job.decode(change.value), change.revision)
            case Table.SPECS:
                self._db.execute("INSERT OR REPLACE INTO specs VALUES (?, ?)", (key, change.value))
            case Table.RUNS:
                return self._put_run(_run.decode(change.value))
            case Table.VOLUMES:
                self._put_volume(VolumeId(key), _volume.decode(change.value))
            case Table.OUTBOX:
                return self._put_outgoing(decode(Table.OUTBOX, change.value), change.revision)
        return None

    def _put_outgoing(self, outgoing: JobOver | RunOver | JobErased, revision: int) -> JobId | None:
        match outgoing:
            case JobOver(job=job):
                return self._put_job(job, revision)
            case RunOver(run=run):
                return self._put_run(run)
            case JobErased():
                self._erase(outgoing, revision)
        return None

    def _put_job(self, job: Job, revision: int) -> JobId:
        old = self._one("SELECT doc FROM jobs WHERE id = ?", (job.id,))
        before = _job.decode(cast(bytes, old)) if old is not None else None
        self._db.execute(
            "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                job.id,
                job.tenant,
                job.name,
                job.state,
                job.kind,
                job.created_at,
                job.finished_at,
                revision,
                json.encode(job),
            ),
        )
        if before is None and job.labels:
            self._db.executemany(
                "INSERT OR IGNORE INTO labels VALUES (?, ?, ?)", [(k, v, job.id) for k, v in job.labels]
            )
        for ordinal, event in enumerate(narrate(before, job, revision=revision)):
            self._db.execute(
                "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?)", (job.id, revision, ordinal, json.encode(event))
            )
        return job.id

    def _put_run(self, run: Run) -> JobId:
        self._db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (run.job, run.id, json.encode(run)))
        return run.job

    def _put_volume(self, key: VolumeId, volume: Volume) -> None:
        self._db.execute("INSERT OR REPLACE INTO volumes VALUES (?, ?, ?)", (key, volume.tenant, json.encode(volume)))

    def _erase(self, erased: JobErased, revision: int) -> None:
        """Its rows go; who follows it is told once more, with the job as over and deleted."""
        job = erased.job
        last = self._view_of(job)
        if last is not None:
            state = last.job.state if last.job.is_over else JobState.CANCELLED
            over = replace(last.job, state=state, finished_at=last.job.finished_at or erased.at, is_deleted=True)
            self._erased.append(replace(last, job=over, revision=revision))
        for sql in (
            "DELETE FROM jobs WHERE id = ?",
            "DELETE FROM specs WHERE job = ?",
            "DELETE FROM runs WHERE job = ?",
            "DELETE FROM labels WHERE job = ?",
            "DELETE FROM events WHERE job = ?",
        ):
            self._db.execute(sql, (job,))

    # — helpers —

    def _migrate(self) -> None:
        version = cast(int, self._db.pragma("user_version"))
        if version > schema.VERSION:
            raise Unavailable(
                f"the read model was written by a newer version (schema {version}, this one knows {schema.VERSION})",
                code="schema-newer",
                hint="upgrade windlass, or remove the read model's file: it is refilled from the store",
            )
        if version == schema.VERSION:
            return
        with self._db:
            for statement in schema.STATEMENTS:
                self._db.execute(statement)
            self._db.pragma("user_version", schema.VERSION)

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
        runs = self._db.execute("SELECT doc FROM runs WHERE job = ?", (job,))
        ordered = sorted((_run.decode(cast(bytes, doc)) for (doc,) in runs), key=lambda run: (run.attempt, run.index))
        return _view(*row, runs=tuple(ordered))

    def _one(self, sql: str, values: Iterable[Any] = ()) -> Any:
        row = self._db.execute(sql, tuple(values)).fetchone()
        return row[0] if row is not None else None


def _view(job: Any, spec: Any, revision: Any, *, runs: tuple[Run, ...] = ()) -> JobView:
    return JobView(job=_job.decode(job), spec=_spec.decode(spec), runs=runs, revision=revision)


def _conditions(query: JobQuery) -> tuple[str, list[Any]]:
    """Constant SQL with one placeholder per value."""
    clauses: list[str] = ["1"]
    values: list[Any] = []

    def add(clause: str, *given: Any) -> None:
        clauses.append(clause)
        values.extend(given)

    if query.tenant is not None:
        add("jobs.tenant = ?", query.tenant)
    if query.states:
        add(f"jobs.state IN ({', '.join('?' * len(query.states))})", *query.states)
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
