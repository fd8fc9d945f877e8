"""Where money could be saved, from what really ran: idle runs, needs that were asked for and never used, cheaper pools.

Runs of one tenant with equal needs in one pool are judged together. A finding says what it rests on: how many runs, how many of
them were measured, what they used at most. Where nothing was measured nothing is claimed.

No unit of money is promised twice: a measured run is either idle or asked for too much, and a cheaper pool saves of what is left
once that advice is taken. So the sum of all findings is what following all of them would have saved.
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
    first = runs[0]
    idle, busy, unknown = _sorted_by_use(runs)
    slim = [(run, run.needs) for run in unknown]
    for kind, those in ((SavingKind.IDLE, idle), (SavingKind.OVER_ASKED, busy)):
        evidence = _evidence(those)
        advised = _enough(evidence, first.needs)
        slim += [(run, advised) for run in those]
        if advised == first.needs:
            continue
        yield Saving(
            kind=kind,
            tenant=first.tenant,
            pool=first.pool,
            asked=first.needs,
            advised=advised,
            saves=Micros(sum(run.cost - _left(run, advised) for run in those)),
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
            saves=Micros(sum(_left(run, needs) - _moved(run, needs, cheapest) for run, needs in slim)),
            evidence=_evidence(runs),
        )


def _sorted_by_use(runs: list[MeteredRun]) -> tuple[list[MeteredRun], list[MeteredRun], list[MeteredRun]]:
    """Idle, not idle, not measured."""
    idle, busy, unknown = list[MeteredRun](), list[MeteredRun](), list[MeteredRun]()
    for run in runs:
        if not _is_measured(run):
            unknown.append(run)
        elif _use(run) * 1000 < IDLE_BELOW * run.needs.cpu_millis:
            idle.append(run)
        else:
            busy.append(run)
    return idle, busy, unknown


def _slim_cpu(needs: Resources, used_millis: int) -> Resources:
    cpu = _up(used_millis * HEADROOM // 1000, _CPU_STEP)
    return Resources(cpu_millis=min(needs.cpu_millis, cpu), memory_bytes=needs.memory_bytes, gpus=needs.gpus)


def _enough(evidence: Evidence, needs: Resources) -> Resources:
    memory = max(_MEMORY_MIN, _up(evidence.memory_peak_bytes * HEADROOM // 1000, _MEMORY_STEP))
    slim = _slim_cpu(needs, evidence.cpu_millis_most)
    return Resources(cpu_millis=slim.cpu_millis, memory_bytes=min(needs.memory_bytes, memory), gpus=needs.gpus)


def _evidence(runs: list[MeteredRun]) -> Evidence:
    measured = [run for run in runs if _is_measured(run)]
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


def _is_measured(run: MeteredRun) -> bool:
    return run.cpu_used_ms is not None and run.memory_peak_bytes is not None


def _left(run: MeteredRun, needs: Resources) -> int:
    """What is left of its cost had it asked for this."""
    return min(run.cost, _price(needs, run.ran_ms, run.prices))


def _moved(run: MeteredRun, needs: Resources, offer: PoolOffer) -> int:
    """What is left of that in another pool."""
    return min(_left(run, needs), _price(needs, run.ran_ms, offer.prices))


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
