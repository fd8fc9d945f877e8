"""The simulation is the World on virtual time: it agrees with a brute-force reference, and counts right what it saw."""

import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.core.foresight.reference import Wish, figures, serve
from windlass.core.errors import Invalid
from windlass.core.foresight.generate import Making, generate
from windlass.core.foresight.measures import compare, jain, measure, percentile, spread
from windlass.core.foresight.simulate import Outcome, simulate
from windlass.core.foresight.trace import SimPool, Trace, TracedJob, in_order
from windlass.core.foresight.variant import Order, parse_variant
from windlass.core.model.ids import Millis, PoolId, TenantId
from windlass.core.model.resources import Resources

GIB = 1 << 30
ONCE_APART = (1038, 1040, 1100, 1114, 1236, 1279)
"""Seeds with which the World and the reference once differed over who is promised a node, and since when."""
SEEDS = (*range(60), *ONCE_APART)
ORDERS = (
    "fifo",
    "fifo backfill=off",
    "wfq",
    "wfq weight.a=3 weight.c=0.5",
    "wfq backfill=off",
    "deadlines",
    "deadlines weight.a=3 weight.c=0.5",
    "deadlines backfill=off",
    "deadlines weight.a=3 weight.c=0.5 backfill=off",
)


def a_job(at: int = 0, *, tenant: str = "a", cores: int = 1, ran: int = 60_000, due: int | None = None) -> TracedJob:
    needs = Resources(cpu_millis=cores * 1000, memory_bytes=cores * GIB)
    return TracedJob(
        Millis(at), TenantId(tenant), needs, Millis(ran), Millis(ran), due_ms=Millis(due) if due is not None else None
    )


def a_trace(*jobs: TracedJob, nodes: int = 1, cores: int = 2) -> Trace:
    each = Resources(cpu_millis=cores * 1000, memory_bytes=64 * GIB)
    return Trace(jobs=in_order(jobs), pools=(SimPool(name=PoolId("p"), nodes=nodes, each=each),))


def begun(trace: Trace, words: str) -> list[tuple[int, int]]:
    return [(run.job, run.began) for run in simulate(trace, parse_variant(words)).runs]


def suited(words: str, wishes: list[Wish]) -> str:
    """Without the weights of tenants that have no job in this trace: naming those is refused."""
    absent = set("abc") - {wish.tenant for wish in wishes}
    return " ".join(word for word in words.split() if not word.startswith(tuple(f"weight.{who}=" for who in absent)))


def wishes_of(chance: random.Random) -> list[Wish]:
    deadlines = random.Random(chance.random())
    wishes = [
        Wish(
            at=chance.randrange(0, 40) * 1000,
            tenant=chance.choice("abc") if number > 2 else "abc"[number],  # all of them: weights name them
            cores=chance.choice((1, 1, 2, 4)),
            gib=chance.choice((1, 2)),
            ran=chance.randrange(1, 60) * 1000,
            expected=chance.choice((None, 10_000, 60_000)),
            priority=chance.choice((0, 0, 0, 5)),
        )
        for number in range(chance.randrange(5, 45))
    ]
    first = min(wish.at for wish in wishes)
    for wish in wishes:
        wish.at -= first  # a trace begins with its first job
        wish.due = deadlines.choice((None, None, 20_000, 60_000, 300_000))
    return sorted(wishes, key=lambda wish: wish.at)


def trace_of(wishes: list[Wish], nodes: int, cores: int) -> Trace:
    jobs = [
        TracedJob(
            Millis(wish.at),
            TenantId(wish.tenant),
            Resources(cpu_millis=wish.cores * 1000, memory_bytes=wish.gib * GIB),
            Millis(wish.ran),
            Millis(wish.expected) if wish.expected is not None else None,
            wish.priority,
            due_ms=Millis(wish.due) if wish.due is not None else None,
        )
        for wish in wishes
    ]
    each = Resources(cpu_millis=cores * 1000, memory_bytes=cores * GIB)
    return Trace(jobs=tuple(jobs), pools=(SimPool(name=PoolId("p"), nodes=nodes, each=each),))


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(SEEDS, id="some"),
        pytest.param(range(2_000), id="many", marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
    ],
)
@pytest.mark.parametrize("words", ORDERS)
def test_every_start_and_every_figure_is_what_the_brute_force_reference_finds(words: str, seeds: Sequence[int]) -> None:
    variant = parse_variant(words)
    shared = missed = 0
    for seed in seeds:
        chance = random.Random(seed)
        wishes, nodes = wishes_of(chance), [(4, 4)] * chance.randrange(1, 4)
        weights = {tenant: variant.weight(TenantId(tenant)) for tenant in "abc"}
        expected = serve(
            wishes,
            nodes,
            weights,
            is_fair=variant.order is not Order.FIFO,
            has_deadlines=variant.order is Order.DEADLINES,
            is_backfilling=variant.is_backfilling,
        )
        trace = trace_of(wishes, len(nodes), 4)
        outcome = simulate(trace, parse_variant(suited(words, wishes)))
        assert [(run.job, run.began) for run in outcome.runs] == expected, f"seed {seed}"
        found, reference = measure(trace, outcome), figures(wishes, expected, nodes, weights)
        assert (found.waits.p50_ms, found.waits.p95_ms, found.waits.p99_ms) == reference.waits, f"seed {seed}"
        assert found.jain == pytest.approx(reference.jain, abs=0.0002), f"seed {seed}: rounded once, and sums of floats"
        assert (found.utilisation, found.missed, found.cost_micros) == (
            reference.utilisation,
            reference.missed,
            reference.cost,
        ), f"seed {seed}"
        shared += found.jain is not None
        missed += found.missed
    assert shared > len(seeds) // 2
    assert missed > len(seeds)


def test_first_come_first_served_lets_the_first_tenant_go_first_and_the_fair_queue_takes_turns() -> None:
    jobs = [a_job(tenant="a", cores=2) for _ in range(4)] + [a_job(tenant="b", cores=2) for _ in range(2)]
    assert [job for job, _ in begun(a_trace(*jobs), "fifo")] == [0, 1, 2, 3, 4, 5]
    assert [job for job, _ in begun(a_trace(*jobs), "wfq")] == [0, 4, 1, 5, 2, 3]


def test_deadlines_that_the_scheduler_is_told_of_are_missed_less() -> None:
    """Ten tenants keep a small cluster busy; one of them has jobs that must start soon."""
    jobs = [a_job(second * 1_000, tenant=f"t{second % 9}", cores=2) for second in range(90)]
    jobs += [a_job(second * 1_000, tenant="t0", cores=2, ran=5_000, due=1_200_000) for second in range(0, 90, 9)]
    trace = a_trace(*jobs, nodes=2)
    wfq, told = compare(trace, [parse_variant("wfq"), parse_variant("deadlines")]).figures
    assert wfq.due == told.due == 10
    assert told.missed < wfq.missed


def test_without_backfill_whoever_fits_goes_past_a_big_job_that_waits() -> None:
    jobs = [a_job(ran=60_000), a_job(1_000, cores=2), a_job(2_000, ran=90_000)]
    assert dict(begun(a_trace(*jobs), "wfq backfill=off"))[2] == 2_000
    assert dict(begun(a_trace(*jobs), "wfq"))[1] == 60_000


def test_a_lost_node_takes_its_runs_along_and_they_are_run_again_elsewhere_or_when_it_is_back() -> None:
    trace = a_trace(a_job(ran=60_000), a_job(ran=60_000), nodes=2, cores=1)
    outcome = simulate(trace, parse_variant("wfq lose=1@30s+50s"))
    lost = [run for run in outcome.runs if run.is_lost]
    assert [(run.began, run.ended) for run in lost] == [(0, 30_000)]
    again = outcome.runs[-1]
    assert (again.job, again.began, again.ended) == (lost[0].job, 60_000, 120_000)  # the other node was free by then
    figures = measure(trace, outcome)
    assert (figures.started, figures.lost_runs, figures.makespan_ms) == (2, 1, 120_000)
    assert figures.utilisation == round((30 + 60 + 60) / (2 * 120 - 50), 4)


def test_a_pool_that_grows_shortens_the_waits() -> None:
    trace = a_trace(*(a_job(cores=2) for _ in range(4)))
    few, many = compare(trace, [parse_variant("wfq"), parse_variant("more=wfq pool.p=4")]).figures
    assert few.waits.longest_ms == 180_000
    assert many.waits.longest_ms == 0


def test_what_can_run_nowhere_is_refused_and_counted_and_the_rest_goes_on() -> None:
    outcome = simulate(a_trace(a_job(cores=64), a_job()), parse_variant("wfq"))
    assert (outcome.refused, sorted(outcome.refused_jobs)) == ((("fits-nowhere", 1),), [0])
    assert [run.job for run in outcome.runs] == [1]


def test_a_pool_nobody_has_is_named() -> None:
    with pytest.raises(Invalid) as refused:
        simulate(a_trace(a_job()), parse_variant("wfq pool.gpu=3"))
    assert refused.value.faults[0].field == "pool.gpu"
    assert "there are p" in refused.value.faults[0].message


def test_more_nodes_cannot_be_lost_than_there_are() -> None:
    trace = a_trace(a_job(), nodes=2)
    for words in ("wfq lose=3@1s", "wfq lose=p:3@1s", "wfq pool.p=1 lose=2@1s"):
        with pytest.raises(Invalid) as refused:
            simulate(trace, parse_variant(words))
        assert refused.value.faults[0].field.startswith("lose=")
    simulate(trace, parse_variant("wfq lose=1@1s lose=p:2@2s+1s"))


def test_a_loss_when_all_is_over_is_counted() -> None:
    trace = a_trace(a_job(), nodes=2)
    late = [measure(trace, simulate(trace, parse_variant(f"wfq lose=1@{at}"))).late_losses for at in ("59s", "60s")]
    assert late == [0, 1]


def test_a_tenant_nobody_has_is_named_and_all_of_them_are_somebody() -> None:
    with pytest.raises(Invalid) as refused:
        simulate(a_trace(a_job()), parse_variant("wfq weight.nobody=3 quota.noone.jobs=1 weight.*=2"))
    assert [fault.field for fault in refused.value.faults] == ["weight.nobody", "quota.noone"]
    assert "there are" in refused.value.faults[0].message
    simulate(a_trace(a_job()), parse_variant("wfq weight.*=2"))


def test_the_figures_are_those_of_an_example_done_by_hand() -> None:
    trace = a_trace(a_job(due=1_000), a_job(due=30_000), a_job(60_000, ran=60_000), cores=1)
    figures = measure(trace, simulate(trace, parse_variant("fifo")))
    assert (figures.waits.p50_ms, figures.waits.longest_ms) == (60_000, 60_000)
    assert (figures.due, figures.missed) == (2, 1)
    assert (figures.utilisation, figures.makespan_ms, figures.started) == (1.0, 180_000, 3)
    assert figures.events == 12
    assert figures.cost_micros == 3 * (60_000 * 50_000 // 3_600_000 + GIB * 60_000 * 10_000 // (10**9 * 3_600_000))


def test_percentiles_are_values_that_occurred() -> None:
    assert [percentile(range(1, 101), percent) for percent in (50, 95, 99, 100)] == [50, 95, 99, 100]
    assert percentile([7], 99) == 7
    assert percentile([], 50) == 0


def test_what_is_spread_over_parts_of_time_adds_up() -> None:
    chance = random.Random(5)
    for _ in range(200):
        end = chance.randrange(1, 500)
        intervals = []
        for _ in range(chance.randrange(1, 10)):
            since, to = sorted((chance.randrange(0, end + 1), chance.randrange(0, end + 1)))
            intervals.append((since, to, chance.randrange(1, 9)))
        parts = spread(intervals, end, chance.randrange(1, 13))
        assert sum(parts) == sum((to - since) * size for since, to, size in intervals)
        assert min(parts) >= 0


def test_jains_index_is_one_for_equals_and_one_nth_for_a_single_winner() -> None:
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)


def test_the_fair_queue_is_fairer_than_first_come_first_served_to_a_small_tenant_behind_a_large_one() -> None:
    jobs = [a_job(tenant="large", cores=2) for _ in range(200)] + [a_job(1, tenant="small", cores=2) for _ in range(50)]
    fifo, wfq = compare(a_trace(*jobs), [parse_variant("fifo"), parse_variant("wfq")]).figures
    assert fifo.jain is not None
    assert wfq.jain is not None
    assert fifo.jain < 0.55 < 0.95 < wfq.jain


def concurrent_most(outcome: Outcome) -> int:
    edges = sorted([(run.began, 1) for run in outcome.runs] + [(run.ended, -1) for run in outcome.runs])
    running = most = 0
    for _, step in edges:
        running += step
        most = max(most, running)
    return most


def test_a_thousand_tenants_fifty_pools_and_ten_thousand_jobs_at_once() -> None:
    made = generate(Making(jobs=12_000, tenants=1_000, pools=50, nodes=2, cores=2_048))
    trace = replace(made, jobs=tuple(replace(job, at=Millis(0)) for job in made.jobs))
    outcome = simulate(trace, parse_variant("wfq"))
    assert len(trace.pools) == 50
    assert len(trace.tenants) == 1_000
    assert len(outcome.runs) == 12_000
    assert concurrent_most(outcome) >= 10_000
