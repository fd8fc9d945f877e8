"""The ledger's tables: segments of runs that are over, taken in once however often they come, and summed as they are asked for."""

from typing import Any, Final, cast

import apsw
from msgspec import json

from windlass.core.metering import total
from windlass.core.model.calendar import Day, day_of
from windlass.core.model.costs import CostBy, CostQuery, CostRow, MeteredRun
from windlass.core.model.ids import Millis, TenantId
from windlass.core.model.money import Micros
from windlass.core.world.records import RunOver, VolumeStored, WorkerOver

_COLUMNS: Final = {CostBy.TENANT: "tenant", CostBy.POOL: "pool", CostBy.DAY: "day", CostBy.JOB: "job"}
_PUT: Final = "INSERT OR REPLACE INTO costs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_metered = json.Decoder(MeteredRun)


def take(db: apsw.Connection, over: RunOver) -> None:
    """Inside the caller's transaction; its job's row is there already."""
    if not over.segments:
        return
    run = over.run
    named = db.execute("SELECT name FROM jobs WHERE id = ?", (run.job,)).fetchone()
    name = str(named[0]) if named is not None else ""
    rows = [
        (
            run.id,
            ordinal,
            run.tenant,
            run.pool,
            part.day,
            run.job,
            name,
            part.start,
            part.span_ms,
            part.cost,
            part.is_burst,
            False,
        )
        for ordinal, part in enumerate(over.segments)
    ]
    db.executemany(_PUT, rows)
    line = MeteredRun(
        run=run.id,
        job=run.job,
        job_name=name,
        tenant=run.tenant,
        pool=run.pool,
        day=day_of(run.ended_at or run.since),
        needs=run.needs,
        ran_ms=run.ran_ms or Millis(0),
        cost=total(over.segments),
        prices=run.prices,
        cpu_used_ms=run.cpu_used_ms,
        memory_peak_bytes=run.memory_peak_bytes,
    )
    row = (run.id, run.tenant, line.day, json.encode(line))
    db.execute("INSERT OR REPLACE INTO metered VALUES (?, ?, ?, ?)", row)


def take_worker(db: apsw.Connection, over: WorkerOver) -> None:
    """What its being there cost: no job's, so it has none; of everybody's pool, no tenant's either."""
    worker = over.worker
    rows = [
        (
            worker.id,
            ordinal,
            worker.payer,
            worker.pool,
            part.day,
            "",
            worker.id,
            part.start,
            part.span_ms,
            part.cost,
            False,
            False,
        )
        for ordinal, part in enumerate(over.segments)
    ]
    db.executemany(_PUT, rows)


def take_stored(db: apsw.Connection, over: VolumeStored) -> None:
    """What a volume cost where it lay: its job's, but no run of it."""
    volume = over.volume
    rows = [
        (
            f"{volume.id}/{volume.stored_at}",
            ordinal,
            volume.tenant,
            volume.pool,
            part.day,
            volume.job or "",
            volume.job_name,
            part.start,
            part.span_ms,
            part.cost,
            False,
            True,
        )
        for ordinal, part in enumerate(over.segments)
    ]
    db.executemany(_PUT, rows)


def sums(db: apsw.Connection, query: CostQuery) -> tuple[CostRow, ...]:
    columns = [_COLUMNS[by] for by in query.by]
    chosen = "".join(f"{column}, " for column in columns)
    grouped = f"GROUP BY {', '.join(columns)}" if columns else ""
    order = "day, cost DESC" if CostBy.DAY in query.by else "cost DESC"
    sql = f"""SELECT {chosen} max(name), sum(cost) AS cost, sum(cost * is_burst),
                sum(cost * is_stored), count(DISTINCT iif(job = '' OR is_stored, NULL, run)),
                sum(iif(is_stored, 0, span_ms))
              FROM costs WHERE (?1 IS NULL OR tenant = ?1) AND day BETWEEN ?2 AND ?3 {grouped}
              ORDER BY {order} LIMIT ?4"""  # noqa: S608 — columns are constants
    rows = db.execute(sql, (query.tenant, query.since, query.until, query.limit)).fetchall()
    return tuple(_row(query, row) for row in rows if row[-1] is not None)


def metered(db: apsw.Connection, tenant: TenantId | None, *, since: Day, limit: int) -> tuple[MeteredRun, ...]:
    rows = db.execute(
        """SELECT doc FROM metered WHERE (?1 IS NULL OR tenant = ?1) AND day >= ?2
           ORDER BY json_extract(doc, '$.cost') DESC LIMIT ?3""",
        (tenant, since, limit),
    )
    return tuple(_metered.decode(cast(bytes, doc)) for (doc,) in rows)


def drop(db: apsw.Connection, before: Day) -> None:
    db.execute("DELETE FROM costs WHERE day < ?", (before,))
    db.execute("DELETE FROM metered WHERE day < ?", (before,))


def _row(query: CostQuery, row: tuple[Any, ...]) -> CostRow:
    keys = dict(zip(query.by, row, strict=False))
    name, cost, burst, stored, runs, span = row[len(query.by) :]
    return CostRow(
        tenant=str(keys.get(CostBy.TENANT, "")),
        pool=str(keys.get(CostBy.POOL, "")),
        day=Day(int(keys[CostBy.DAY])) if CostBy.DAY in keys else None,
        job=str(keys.get(CostBy.JOB, "")),
        job_name=str(name) if CostBy.JOB in keys else "",
        cost=Micros(int(cost)),
        burst_cost=Micros(int(burst)),
        stored_cost=Micros(int(stored)),
        runs=int(runs),
        span_ms=Millis(int(span)),
    )
