"""Where money could be saved, from what really ran: idle runs, needs that were asked for and never used, cheaper pools.

Runs of one tenant with equal needs in one pool are judged together. A finding says what it rests on: how many runs, how many of
them were measured, what they used at most. Where nothing was measured nothing is claimed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from windlass.core.model.costs import MeteredRun
from windlass.core.model.ids import PoolId, TenantId
from windlass.core.model.money import RATE_SCALE, Micros, PriceBook, rate
from windlass.core.model.resources import Resources

IDLE_BELOW: Final = 100
"""Thousandths of the processor time asked for: whoever uses less is idle."""
HEADROOM: Final = 1250
"""Thousandths of the highest use that is worth asking for."""
_CPU_STEP: Final = 50
_MEMORY_STEP: Final = 16 << 20
_MEMORY_MIN: Final = 16 << 20
_EXAMPLES_MAX: Final = 3


class SavingKind(StrEnum):
    IDLE = "idle"
    """It held its place and hardly computed."""
    OVER_ASKED = "over-asked"
    """It never used what it asked for."""
    CHEAPER_POOL = "cheaper-pool"
    """Another pool that its tenant may use would have taken it for less."""


class Evidence(Struct, frozen=True, kw_only=True):
    runs: int
    measured: int
    """Of these, with processor time and memory from their node."""
    span_ms: int
    cost: Micros
    cpu_used_ms: int
    """Of the measured runs, together."""
    cpu_millis_most: int
    """The highest average use of one run."""
    memory_peak_bytes: int
    jobs: tuple[str, ...]
    """Some of them, dearest first."""


class Saving(Struct, frozen=True, kw_only=True):
    kind: SavingKind
    tenant: TenantId
    pool: PoolId
    asked: Resources
    advised: Resources | None = None
    advised_pool: PoolId | None = None
    saves: Micros
    """Of what these runs have cost."""
    evidence: Evidence


class PoolOffer(Struct, frozen=True, kw_only=True):
    """A pool a tenant may use: the largest of its nodes, and its prices for that tenant."""

    pool: PoolId
    largest: tuple[Resources, ...]
    prices: PriceBook


Offers = Callable[[TenantId], Sequence[PoolOffer]]


def find_savings(runs: Iterable[MeteredRun], offers: Offers) -> list[Saving]:
    """Largest first."""
    groups: defaultdict[tuple[TenantId, PoolId, Resources], list[MeteredRun]] = defaultdict(list)
    for run in runs:
        groups[run.tenant, run.pool, run.needs].append(run)
    found = [saving for those in groups.values() for saving in _judge(those, offers)]
    return sorted((one for one in found if one.saves > 0), key=lambda one: -one.saves)


def _judge(runs: list[MeteredRun], offers: Offers) -> Iterator[Saving]:
    first, evidence = runs[0], _evidence(runs)
    measured = [run for run in runs if run.cpu_used_ms is not None and run.memory_peak_bytes is not None]
    idle = [run for run in measured if _use(run) * 1000 < IDLE_BELOW * run.needs.cpu_millis]
    if idle:
        yield Saving(
            kind=SavingKind.IDLE,
            tenant=first.tenant,
            pool=first.pool,
            asked=first.needs,
            saves=_spared(idle, _slim_cpu(first.needs, max(map(_use, idle)))),
            evidence=_evidence(idle),
        )
    advised = _enough(evidence, first.needs)
    if measured and advised != first.needs:
        yield Saving(
            kind=SavingKind.OVER_ASKED,
            tenant=first.tenant,
            pool=first.pool,
            asked=first.needs,
            advised=advised,
            saves=_spared(measured, advised),
            evidence=evidence,
        )
    cheapest = _cheapest(first, offers(first.tenant))
    if cheapest is not None:
        yield Saving(
            kind=SavingKind.CHEAPER_POOL,
            tenant=first.tenant,
            pool=first.pool,
            asked=first.needs,
            advised_pool=cheapest.pool,
            saves=Micros(sum(run.cost - _price(run.needs, run.ran_ms, cheapest.prices) for run in runs)),
            evidence=evidence,
        )


def _slim_cpu(needs: Resources, used_millis: int) -> Resources:
    cpu = _up(used_millis * HEADROOM // 1000, _CPU_STEP)
    return Resources(cpu_millis=min(needs.cpu_millis, cpu), memory_bytes=needs.memory_bytes, gpus=needs.gpus)


def _enough(evidence: Evidence, needs: Resources) -> Resources:
    memory = max(_MEMORY_MIN, _up(evidence.memory_peak_bytes * HEADROOM // 1000, _MEMORY_STEP))
    slim = _slim_cpu(needs, evidence.cpu_millis_most)
    return Resources(cpu_millis=slim.cpu_millis, memory_bytes=min(needs.memory_bytes, memory), gpus=needs.gpus)


def _evidence(runs: list[MeteredRun]) -> Evidence:
    measured = [run for run in runs if run.cpu_used_ms is not None and run.memory_peak_bytes is not None]
    dearest = sorted(runs, key=lambda run: -run.cost)
    return Evidence(
        runs=len(runs),
        measured=len(measured),
        span_ms=sum(run.ran_ms for run in runs),
        cost=Micros(sum(run.cost for run in runs)),
        cpu_used_ms=sum(run.cpu_used_ms or 0 for run in measured),
        cpu_millis_most=max(map(_use, measured), default=0),
        memory_peak_bytes=max((run.memory_peak_bytes or 0 for run in measured), default=0),
        jobs=tuple(dict.fromkeys(run.job_name or run.job for run in dearest))[:_EXAMPLES_MAX],
    )


def _use(run: MeteredRun) -> int:
    """Average millicores."""
    return (run.cpu_used_ms or 0) * 1000 // max(1, run.ran_ms)


def _spared(runs: list[MeteredRun], advised: Resources) -> Micros:
    return Micros(sum(max(0, run.cost - _price(advised, run.ran_ms, run.prices)) for run in runs))


def _price(needs: Resources, span_ms: int, prices: PriceBook) -> int:
    return rate(needs, prices) * span_ms // RATE_SCALE


def _cheapest(run: MeteredRun, offers: Sequence[PoolOffer]) -> PoolOffer | None:
    """The cheapest pool that could have taken it, if it is cheaper than the one that did."""
    able = [one for one in offers if any(run.needs.fits_in(node) for node in one.largest)]
    best = min(able, key=lambda one: rate(run.needs, one.prices), default=None)
    is_cheaper = best is not None and rate(run.needs, best.prices) < rate(run.needs, run.prices)
    return best if is_cheaper and best is not None and best.pool != run.pool else None


def _up(value: int, step: int) -> int:
    return max(step, -(-value // step) * step)


def by_kind(savings: Iterable[Saving]) -> Mapping[SavingKind, Micros]:
    """What each kind adds up to."""
    sums: defaultdict[SavingKind, int] = defaultdict(int)
    for one in savings:
        sums[one.kind] += one.saves
    return {kind: Micros(value) for kind, value in sums.items()}
