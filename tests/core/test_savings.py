"""Where money could be saved, judged from runs whose use is known, and nothing claimed where it is not."""

from msgspec.structs import replace

from windlass.core.model.calendar import Day
from windlass.core.model.costs import MeteredRun
from windlass.core.model.ids import JobId, Millis, PoolId, RunId, TenantId
from windlass.core.model.money import LIST_PRICES, RATE_SCALE, Micros, PriceBook, rate
from windlass.core.model.resources import Resources
from windlass.core.savings import PoolOffer, Saving, SavingKind, find_savings

HOUR = Millis(3_600_000)
ACME = TenantId("acme")
NEEDS = Resources(cpu_millis=4000, memory_bytes=8 << 30)
HERE, THERE = PoolId("here"), PoolId("there")


def a_run(number: int, *, cpu_used_ms: int | None, peak: int | None, prices: PriceBook = LIST_PRICES) -> MeteredRun:
    return MeteredRun(
        run=RunId(f"r{number}"),
        job=JobId(f"j{number}"),
        job_name=f"job-{number}",
        tenant=ACME,
        pool=HERE,
        day=Day(1),
        needs=NEEDS,
        ran_ms=HOUR,
        cost=Micros(rate(NEEDS, prices) * HOUR // RATE_SCALE),
        prices=prices,
        cpu_used_ms=cpu_used_ms,
        memory_peak_bytes=peak,
    )


def offers(*pools: PoolOffer) -> list[PoolOffer]:
    mine = PoolOffer(pool=HERE, largest=(NEEDS,), prices=LIST_PRICES)
    return [mine, *pools]


def kinds(found: list[Saving]) -> dict[SavingKind, Saving]:
    return {one.kind: one for one in found}


def price(needs: Resources, prices: PriceBook = LIST_PRICES) -> int:
    return rate(needs, prices) * HOUR // RATE_SCALE


def test_runs_that_used_what_they_asked_for_are_left_alone() -> None:
    busy = [a_run(n, cpu_used_ms=4 * HOUR, peak=8 << 30) for n in range(3)]
    assert find_savings(busy, lambda _: offers()) == []


def test_the_highest_use_of_all_runs_and_a_quarter_more_is_advised() -> None:
    runs = [a_run(1, cpu_used_ms=HOUR, peak=1 << 30), a_run(2, cpu_used_ms=2 * HOUR, peak=2 << 30)]
    found = kinds(find_savings(runs, lambda _: offers()))[SavingKind.OVER_ASKED]
    assert found.advised == Resources(cpu_millis=2500, memory_bytes=5 << 29)
    assert found.saves == 2 * (price(NEEDS) - price(found.advised))
    assert (found.evidence.runs, found.evidence.measured, found.evidence.cpu_millis_most) == (2, 2, 2000)
    assert found.evidence.memory_peak_bytes == 2 << 30


def test_a_run_that_hardly_computed_is_idle() -> None:
    found = kinds(find_savings([a_run(1, cpu_used_ms=HOUR // 10, peak=8 << 30)], lambda _: offers()))
    assert found[SavingKind.IDLE].evidence.cpu_millis_most == 100
    assert found[SavingKind.IDLE].saves == price(NEEDS) - price(Resources(cpu_millis=150, memory_bytes=8 << 30))


def test_a_run_is_idle_or_over_asked_and_never_both() -> None:
    idle = a_run(1, cpu_used_ms=HOUR // 10, peak=1 << 30)
    wasteful = a_run(2, cpu_used_ms=2 * HOUR, peak=2 << 30)
    found = kinds(find_savings([idle, wasteful], lambda _: offers()))
    assert {kind: one.evidence.jobs for kind, one in found.items()} == {
        SavingKind.IDLE: ("job-1",),
        SavingKind.OVER_ASKED: ("job-2",),
    }
    assert found[SavingKind.IDLE].advised == Resources(cpu_millis=150, memory_bytes=5 << 28)
    assert found[SavingKind.OVER_ASKED].advised == Resources(cpu_millis=2500, memory_bytes=5 << 29)


def test_the_sum_of_all_findings_is_what_following_all_of_them_would_have_saved() -> None:
    half = PriceBook(core_hour=25_000, gigabyte_hour=5_000, gpu_hour=1_250_000)
    cheap = PoolOffer(pool=THERE, largest=(NEEDS,), prices=half)
    runs = [
        a_run(1, cpu_used_ms=HOUR // 10, peak=1 << 30),
        a_run(2, cpu_used_ms=2 * HOUR, peak=2 << 30),
        a_run(3, cpu_used_ms=None, peak=None),
    ]
    found = find_savings(runs, lambda _: offers(cheap))
    slim = [one.advised for one in found if one.advised is not None]
    assert len(slim) == 2
    followed = sum(price(needs, half) for needs in (*slim, NEEDS))
    assert sum(one.saves for one in found) == 3 * price(NEEDS) - followed


def test_a_dearer_hour_of_a_burst_is_no_saving_of_what_was_used() -> None:
    used = a_run(1, cpu_used_ms=4 * HOUR, peak=8 << 30)
    assert find_savings([replace(used, cost=Micros(used.cost * 3 // 2))], lambda _: offers()) == []


def test_nothing_is_claimed_of_runs_that_nobody_measured() -> None:
    unmeasured = [a_run(n, cpu_used_ms=None, peak=None) for n in range(3)]
    assert find_savings(unmeasured, lambda _: offers()) == []


def test_a_cheaper_pool_that_could_take_it_is_named_with_the_difference() -> None:
    half = PriceBook(core_hour=25_000, gigabyte_hour=5_000, gpu_hour=1_250_000)
    cheap = PoolOffer(pool=THERE, largest=(NEEDS,), prices=half)
    small = PoolOffer(pool=PoolId("small"), largest=(Resources(cpu_millis=100),), prices=PriceBook(core_hour=1))
    runs = [a_run(n, cpu_used_ms=None, peak=None) for n in range(2)]
    [found] = find_savings(runs, lambda _: offers(cheap, small))
    assert (found.kind, found.advised_pool) == (SavingKind.CHEAPER_POOL, THERE)
    assert found.saves == 2 * (price(NEEDS) - price(NEEDS, half))
    assert found.evidence.jobs == ("job-0", "job-1")
