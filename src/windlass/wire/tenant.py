"""The manifest of a tenant, as written: the one validator, the way to a Tenant, and the way back.

Numbers are bounded by `core.model.bounds`, the same that the World asks once more. `null` for a limit means that there is none;
a limit that is left out is the one a new tenant starts with.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from windlass.core.errors import Fault
from windlass.core.model import bounds
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.money import Micros
from windlass.core.model.resources import Resources
from windlass.core.model.tenant import (
    DEFAULT_QUOTA,
    TIER_WEIGHTS,
    Budget,
    BurstPolicy,
    Quota,
    QuotaPolicy,
    RateLimit,
    Tenant,
    Tier,
)
from windlass.wire import quantities
from windlass.wire.faults import show, validate
from windlass.wire.job import API_VERSION, Name, Strict, shared
from windlass.wire.quantities import DURATION_PATTERN, write_bytes, write_cpu, write_ratio, write_seconds
from windlass.wire.render import timestamp
from windlass.wire.written import Written, count, ratio

KIND: Final = "Tenant"
_DEFAULT: Final = DEFAULT_QUOTA.resources or Resources()
_BURST: Final = BurstPolicy()
_RATE: Final = RateLimit()
_TEXT: Final = {"type": "string"}
_THOUSANDTHS: Final = 1000
_TENTHS: Final = 10
"""Thresholds are kept in thousandths and written in percent."""


def duration(bound: bounds.Bound) -> Written:
    seconds = {"type": "integer", "minimum": -(-bound.least // 1000), "maximum": bound.most // 1000}
    schema = {"anyOf": [seconds, {**_TEXT, "pattern": DURATION_PATTERN}]}
    return Written(quantities.read_duration, bound, write=lambda millis: f"{write_seconds(millis)} s", schema=schema)


Weight = Annotated[int, ratio(bounds.WEIGHT, parts=_THOUSANDTHS)]
Cores = Annotated[
    int,
    Written(
        quantities.read_cores,
        bounds.CPU_MILLIS,
        write=write_cpu,
        schema={"anyOf": [{**_TEXT, "pattern": quantities.CPU_PATTERN}, {"type": "number", "minimum": 0}]},
    ),
]
Size = Annotated[
    int,
    Written(
        quantities.read_bytes,
        bounds.MEMORY_BYTES,
        write=write_bytes,
        schema={"anyOf": [{**_TEXT, "pattern": quantities.BYTES_PATTERN}, {"type": "integer", "minimum": 0}]},
    ),
]


class TenantMetadata(Strict):
    name: Name
    uid: Any = None
    """The server's, as the time is: read over on the way in, so that a document that was read can be applied."""
    creation_timestamp: Any = None


class QuotaDocument(Strict):
    cpu: Cores | None = _DEFAULT.cpu_millis
    memory: Size | None = _DEFAULT.memory_bytes
    gpu: Annotated[int, count(bounds.GPUS)] | None = _DEFAULT.gpus
    jobs: Annotated[int, count(bounds.JOBS)] | None = DEFAULT_QUOTA.jobs
    workers: Annotated[int, count(bounds.WORKERS)] | None = None
    queued_max: Annotated[int, count(bounds.QUEUED)] = DEFAULT_QUOTA.queued_max
    jobs_per_month: Annotated[int, count(bounds.JOBS_PER_MONTH)] | None = None
    cost_per_day: Annotated[int, count(bounds.MONEY)] | None = None
    """Micro-units."""
    pools: Annotated[list[Name], Field(max_length=bounds.POOLS_MAX)] = Field(default_factory=list)


class BurstDocument(Strict):
    factor: Annotated[int, ratio(bounds.BURST_FACTOR, parts=_THOUSANDTHS)] = _BURST.factor
    span: Annotated[int, duration(bounds.BURST_SPAN_MS)] = _BURST.span_ms
    cooldown: Annotated[int, duration(bounds.BURST_COOLDOWN_MS)] = _BURST.cooldown_ms
    sessions_per_day: Annotated[int, count(bounds.BURSTS_PER_DAY)] = _BURST.sessions_per_day
    price_factor: Annotated[int, ratio(bounds.BURST_PRICE, parts=_THOUSANDTHS)] = _BURST.price_factor


class BudgetDocument(Strict):
    per_month: Annotated[int, count(bounds.BUDGET)]
    """Micro-units."""
    thresholds: Annotated[
        list[Annotated[int, ratio(bounds.THRESHOLD, parts=_TENTHS)]], Field(max_length=bounds.THRESHOLDS_MAX)
    ] = Field(default_factory=lambda: [500, 750, 900, 1000])
    """Percent of it."""
    hard_stop: bool = False


class RateDocument(Strict):
    per_second: Annotated[int, count(bounds.RATE)] = _RATE.per_second
    at_once: Annotated[int, count(bounds.RATE)] = _RATE.at_once


class TenantSpecDocument(Strict):
    tier: Literal["free", "standard", "premium", "enterprise"] = "free"
    weight: Weight | None = None
    """Absent: its tier's."""
    policy: Literal["reject", "queue", "burst"] = "reject"
    quota: QuotaDocument = shared(QuotaDocument())
    burst: BurstDocument = shared(BurstDocument())
    budget: BudgetDocument | None = None
    rate: RateDocument | None = None
    sla: Annotated[int, duration(bounds.SPAN_MS)] | None = None
    default_timeout: Annotated[int, duration(bounds.SPAN_MS)] | None = None


class TenantDocument(Strict):
    """A tenant as an admin writes it. `status` is the server's and read over."""

    api_version: Literal["windlass.dev/v1"]
    kind: Literal["Tenant"]
    metadata: TenantMetadata
    spec: TenantSpecDocument = shared(TenantSpecDocument())
    status: Any = None


STARTS_WITH: Final = QuotaDocument()
"""What is left out of a quota, where the settings say nothing else."""


def read_tenant(data: object, *, pools: Collection[PoolId], starts_with: QuotaDocument = STARTS_WITH) -> Tenant:
    """What the document asks for, or Invalid with every fault. `pools` are those there are."""
    unknown = _unknown_pools(data, pools, by_default=starts_with.pools)
    document = validate(TenantDocument, data, what="the manifest", more=unknown)
    return to_core(document, starts_with)


def to_core(document: TenantDocument, starts_with: QuotaDocument = STARTS_WITH) -> Tenant:
    spec, tier = document.spec, Tier(document.spec.tier)
    rate, budget = spec.rate, spec.budget
    return Tenant(
        id=TenantId(document.metadata.name),
        tier=tier,
        weight=spec.weight if spec.weight is not None else TIER_WEIGHTS[tier],
        is_tier_weight=spec.weight is None,
        policy=QuotaPolicy(spec.policy),
        quota=_quota(_filled(spec.quota, starts_with)),
        burst=_burst(spec.burst),
        budget=None if budget is None else _budget(budget),
        rate=None if rate is None else RateLimit(per_second=rate.per_second, at_once=rate.at_once),
        sla_ms=None if spec.sla is None else Millis(spec.sla),
        default_timeout_ms=None if spec.default_timeout is None else Millis(spec.default_timeout),
    )


def tenant_manifest(tenant: Tenant, *, status: Mapping[str, Any], created_at: float) -> dict[str, Any]:
    """As it would have been written, every limit spelled out. What comes out can go in again."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": tenant.id, "creationTimestamp": timestamp(created_at)},
        "spec": tenant_spec(tenant),
        "status": dict(status),
    }


def tenant_spec(tenant: Tenant) -> dict[str, Any]:
    budget, rate, burst = tenant.budget, tenant.rate, tenant.burst
    return {
        "tier": tenant.tier.value,
        "weight": None if tenant.is_tier_weight else write_ratio(tenant.weight, parts=_THOUSANDTHS),
        "policy": tenant.policy.value,
        "quota": _quota_document(tenant.quota),
        "burst": {
            "factor": write_ratio(burst.factor, parts=_THOUSANDTHS),
            "span": write_seconds(burst.span_ms),
            "cooldown": write_seconds(burst.cooldown_ms),
            "sessionsPerDay": burst.sessions_per_day,
            "priceFactor": write_ratio(burst.price_factor, parts=_THOUSANDTHS),
        },
        "budget": None
        if budget is None
        else {
            "perMonth": budget.per_month,
            "thresholds": [write_ratio(one, parts=_TENTHS) for one in budget.thresholds],
            "hardStop": budget.is_hard,
        },
        "rate": None if rate is None else {"perSecond": rate.per_second, "atOnce": rate.at_once},
        "sla": None if tenant.sla_ms is None else write_seconds(tenant.sla_ms),
        "defaultTimeout": None if tenant.default_timeout_ms is None else write_seconds(tenant.default_timeout_ms),
    }


def merged(document: dict[str, Any], change: object) -> Any:
    """`document` with what `change` names in place of what was there; mappings are merged, null is a value like others."""
    if not isinstance(change, Mapping):
        return change
    result = dict(document)
    for name, value in change.items():
        known = result.get(name)
        result[name] = merged(known, value) if isinstance(known, dict) and isinstance(value, Mapping) else value
    return result


def _filled(document: QuotaDocument, starts_with: QuotaDocument) -> QuotaDocument:
    """What it does not name is as the settings have it. `null` is named: no limit."""
    left_out = set(QuotaDocument.model_fields) - document.model_fields_set
    return document.model_copy(update={name: getattr(starts_with, name) for name in left_out})


def _quota(document: QuotaDocument) -> Quota:
    """Resources are limited together or not at all; where only some are, the others are as large as can be said."""
    given = (document.cpu, document.memory, document.gpu)
    resources = None
    if given != (None, None, None):
        cpu, memory, gpu = given
        resources = Resources(
            cpu_millis=bounds.CPU_MILLIS.most if cpu is None else cpu,
            memory_bytes=bounds.MEMORY_BYTES.most if memory is None else memory,
            gpus=bounds.GPUS.most if gpu is None else gpu,
        )
    return Quota(
        resources=resources,
        jobs=document.jobs,
        workers=document.workers,
        queued_max=document.queued_max,
        jobs_per_month=document.jobs_per_month,
        cost_per_day=None if document.cost_per_day is None else Micros(document.cost_per_day),
        pools=tuple(PoolId(pool) for pool in dict.fromkeys(document.pools)),
    )


def _quota_document(quota: Quota) -> dict[str, Any]:
    held = quota.resources
    unlimited = held is None
    cpu, memory, gpu = (0, 0, 0) if held is None else (held.cpu_millis, held.memory_bytes, held.gpus)
    return {
        "cpu": None if unlimited or cpu >= bounds.CPU_MILLIS.most else write_cpu(cpu),
        "memory": None if unlimited or memory >= bounds.MEMORY_BYTES.most else write_bytes(memory),
        "gpu": None if unlimited or gpu >= bounds.GPUS.most else gpu,
        "jobs": quota.jobs,
        "workers": quota.workers,
        "queuedMax": quota.queued_max,
        "jobsPerMonth": quota.jobs_per_month,
        "costPerDay": quota.cost_per_day,
        "pools": list(quota.pools),
    }


def _burst(document: BurstDocument) -> BurstPolicy:
    return BurstPolicy(
        factor=document.factor,
        span_ms=Millis(document.span),
        cooldown_ms=Millis(document.cooldown),
        sessions_per_day=document.sessions_per_day,
        price_factor=document.price_factor,
    )


def _budget(document: BudgetDocument) -> Budget:
    return Budget(
        per_month=Micros(document.per_month),
        thresholds=tuple(sorted(set(document.thresholds))),
        is_hard=document.hard_stop,
    )


def _unknown_pools(data: object, pools: Collection[PoolId], *, by_default: list[str]) -> list[Fault]:
    """Judged on the document as written, so that it is named together with every other fault."""
    found = data
    for name in ("spec", "quota", "pools"):
        found = found.get(name) if isinstance(found, Mapping) else None
    if found is None:
        found = by_default
    if not isinstance(found, list):
        return []
    known = ", ".join(sorted(pools)) or "none yet"
    unknown = [one for one in found if isinstance(one, str) and one not in pools]
    return [Fault("spec.quota.pools", f"there is no pool “{show(one)}”; there are: {known}") for one in unknown[:10]]
