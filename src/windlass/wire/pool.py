"""The manifest of a pool, as written: the one validator, the way to a Pool with its prices, and the way back.

Numbers are bounded by `core.model.bounds`, the same that the World asks once more; what a machine has room for is the World's.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field, StringConstraints

from windlass.core.model import bounds
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.money import PriceBook
from windlass.core.model.pool import Measure, Pool, PoolKind, Scaling, Schedule, Trigger
from windlass.core.model.resources import Resources
from windlass.wire.faults import validate
from windlass.wire.job import API_VERSION, Labels, Name, Strict, shared
from windlass.wire.money import PriceBookDocument
from windlass.wire.quantities import write_bytes, write_cpu, write_seconds
from windlass.wire.render import timestamp
from windlass.wire.tenant import Cores, Size, TenantMetadata, duration
from windlass.wire.written import count

KIND: Final = "Pool"
_SCALING: Final = Scaling()
_CRON_CHARACTERS_MAX: Final = 200
_BOOK_FIELDS: Final = tuple(PriceBookDocument.model_fields)


def _cron(text: str) -> str:
    try:
        CronSim(text, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise ValueError(f"expected five fields of cron, such as “0 8 * * 1-5” ({error})") from None
    return text


PoolName = Annotated[Name, StringConstraints(max_length=bounds.POOL_NAME_MAX)]


class PoolMetadata(TenantMetadata):
    name: PoolName


class WorkerDocument(Strict):
    cpu: Cores
    memory: Size


class TriggerDocument(Strict):
    """`cpu` and `memory` in percent held, `depth` in jobs, `wait` in seconds."""

    measure: Literal["cpu", "memory", "depth", "wait"]
    up: Annotated[int, count(bounds.DEPTH)]
    down: Annotated[int, count(bounds.DEPTH)]
    target: Annotated[int, count(bounds.DEPTH)] | None = None
    step_up: Annotated[int, count(bounds.STEP)] = 1
    step_down: Annotated[int, count(bounds.STEP)] = 1


class ScheduleDocument(Strict):
    cron: Annotated[str, Field(min_length=1, max_length=_CRON_CHARACTERS_MAX), AfterValidator(_cron)]
    workers: Annotated[int, count(bounds.POOL_WORKERS)]


class ScalingDocument(Strict):
    min: Annotated[int, count(bounds.POOL_WORKERS)] = _SCALING.workers_min
    max: Annotated[int, count(bounds.POOL_WORKERS)] = _SCALING.workers_max
    worker: WorkerDocument
    triggers: Annotated[list[TriggerDocument], Field(max_length=bounds.TRIGGERS_MAX)] | None = None
    """Absent: cpu 80/30 %, memory 85/40 %, depth 50/5, wait 300/60 s."""
    schedules: Annotated[list[ScheduleDocument], Field(max_length=bounds.SCHEDULES_MAX)] = Field(default_factory=list)
    spares: Annotated[int, count(bounds.POOL_WORKERS)] = _SCALING.spares
    cooldown_up: Annotated[int, duration(bounds.COOLDOWN_MS)] = _SCALING.cooldown_up_ms
    cooldown_down: Annotated[int, duration(bounds.COOLDOWN_MS)] = _SCALING.cooldown_down_ms
    up_per_minute: Annotated[int, count(bounds.PER_MINUTE)] = _SCALING.up_per_minute
    down_per_minute: Annotated[int, count(bounds.PER_MINUTE)] = _SCALING.down_per_minute
    idle: Annotated[int, duration(bounds.IDLE_MS)] = _SCALING.idle_ms
    runs_per_worker: Annotated[int, count(bounds.RUNS_PER_WORKER)] = _SCALING.runs_per_worker
    ready_within: Annotated[int, duration(bounds.READY_MS)] = _SCALING.ready_within_ms


class PoolSpecDocument(Strict):
    kind: Literal["static", "dynamic"] = "static"
    labels: Annotated[Labels, Field(max_length=bounds.POOL_LABELS_MAX)] = Field(default_factory=dict)
    """As jobs may ask for them: what no selector could name would be of no use."""
    tenants: Annotated[list[Name], Field(max_length=bounds.POOL_TENANTS_MAX)] = Field(default_factory=list)
    """Who may use it; nobody named: everybody."""
    prices: PriceBookDocument | None = None
    """Absent: the list's."""
    provisioner: Literal["slice"] | None = None
    scaling: ScalingDocument | None = None
    paused: bool = False


class PoolDocument(Strict):
    """A pool as an admin writes it. `status` is the server's and read over."""

    api_version: Literal["windlass.dev/v1"]
    kind: Literal["Pool"]
    metadata: PoolMetadata
    spec: PoolSpecDocument = shared(PoolSpecDocument())
    status: Any = None


def read_pool(data: object) -> tuple[Pool, PriceBook | None]:
    """What the document asks for, or Invalid with every fault."""
    document = validate(PoolDocument, data, what="the manifest")
    spec, book = document.spec, document.spec.prices
    pool = Pool(
        id=PoolId(document.metadata.name),
        kind=PoolKind(spec.kind),
        labels=tuple(sorted(spec.labels.items())),
        tenants=tuple(sorted({TenantId(one) for one in spec.tenants})),
        provisioner=spec.provisioner or ("slice" if spec.kind == "dynamic" else ""),
        scaling=None if spec.scaling is None else _scaling(spec.scaling),
        is_paused=spec.paused,
    )
    return pool, None if book is None else PriceBook(**{name: getattr(book, name) for name in _BOOK_FIELDS})


def pool_manifest(
    pool: Pool, prices: PriceBook | None, *, status: Mapping[str, Any], created_at: float
) -> dict[str, Any]:
    """As it would have been written, everything spelled out. What comes out can go in again."""
    book = (
        None
        if prices is None
        else PriceBookDocument.model_construct(**{name: getattr(prices, name) for name in _BOOK_FIELDS})
    )
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": pool.id, "creationTimestamp": timestamp(created_at)},
        "spec": {
            "kind": pool.kind.value,
            "labels": dict(pool.labels),
            "tenants": list(pool.tenants),
            "prices": None if book is None else book.model_dump(by_alias=True),
            "provisioner": pool.provisioner or None,
            "scaling": None if pool.scaling is None else _scaling_document(pool.scaling),
            "paused": pool.is_paused,
        },
        "status": dict(status),
    }


def _scaling(document: ScalingDocument) -> Scaling:
    given = document.triggers
    return Scaling(
        workers_min=document.min,
        workers_max=document.max,
        worker=Resources(cpu_millis=document.worker.cpu, memory_bytes=document.worker.memory),
        triggers=_SCALING.triggers if given is None else tuple(_trigger(one) for one in given),
        schedules=tuple(Schedule(cron=one.cron, workers=one.workers) for one in document.schedules),
        spares=document.spares,
        cooldown_up_ms=Millis(document.cooldown_up),
        cooldown_down_ms=Millis(document.cooldown_down),
        up_per_minute=document.up_per_minute,
        down_per_minute=document.down_per_minute,
        idle_ms=Millis(document.idle),
        runs_per_worker=document.runs_per_worker,
        ready_within_ms=Millis(document.ready_within),
    )


_UNITS: Final = {Measure.CPU: 10, Measure.MEMORY: 10, Measure.DEPTH: 1, Measure.WAIT: 1000}
"""Percent into thousandths, seconds into milliseconds."""


def _trigger(document: TriggerDocument) -> Trigger:
    measure = Measure(document.measure)
    unit = _UNITS[measure]
    return Trigger(
        measure=measure,
        up=document.up * unit,
        down=document.down * unit,
        target=None if document.target is None else document.target * unit,
        step_up=document.step_up,
        step_down=document.step_down,
    )


def _scaling_document(scaling: Scaling) -> dict[str, Any]:
    return {
        "min": scaling.workers_min,
        "max": scaling.workers_max,
        "worker": {"cpu": write_cpu(scaling.worker.cpu_millis), "memory": write_bytes(scaling.worker.memory_bytes)},
        "triggers": [_trigger_document(one) for one in scaling.triggers],
        "schedules": [{"cron": one.cron, "workers": one.workers} for one in scaling.schedules],
        "spares": scaling.spares,
        "cooldownUp": write_seconds(scaling.cooldown_up_ms),
        "cooldownDown": write_seconds(scaling.cooldown_down_ms),
        "upPerMinute": scaling.up_per_minute,
        "downPerMinute": scaling.down_per_minute,
        "idle": write_seconds(scaling.idle_ms),
        "runsPerWorker": scaling.runs_per_worker,
        "readyWithin": write_seconds(scaling.ready_within_ms),
    }


def _trigger_document(trigger: Trigger) -> dict[str, Any]:
    unit = _UNITS[trigger.measure]
    return {
        "measure": trigger.measure.value,
        "up": trigger.up // unit,
        "down": trigger.down // unit,
        "target": None if trigger.target is None else trigger.target // unit,
        "stepUp": trigger.step_up,
        "stepDown": trigger.step_down,
    }
