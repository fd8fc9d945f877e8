"""How tables give way: what is cut, what is left out, and what never is."""

from windlass.cli.render import lists, pools, queues, table
from windlass.cli.render import tenants as render
from windlass.cli.render.fit import LEFT_OUT, columns, fitted, left_out, total
from windlass.cli.render.money import BURSTS, SAVINGS, cost_columns

SHAPE = columns(("NAME", "AGE", "WHAT", "WHY"), ("WHAT", 6), ("WHY", 8), "AGE", ("NAME", 5), ("WHY", 4), "WHAT")
NATURAL = [10, 3, 20, 30]
EVERY_TABLE = {
    "jobs": lists.JOBS,
    "ephemeral": lists.EPHEMERAL,
    "nodes": lists.NODES,
    "volumes": lists.VOLUMES,
    "secrets": lists.SECRETS,
    "logins": lists.LOGINS,
    "tenants": render.TENANTS,
    "tokens": render.TOKENS,
    "audit": render.AUDIT,
    "pools": pools.POOLS,
    "history": pools.HISTORY,
    "fairness": queues.FAIRNESS,
    "queues": queues.QUEUES,
    "bursts": BURSTS,
    "savings": SAVINGS,
    "cost": cost_columns(("tenant", "day")),
}
NUMBERS = {
    "AGE",
    "RAN",
    "RUNS",
    "CPU",
    "MEMORY",
    "GPU",
    "JOBS",
    "COST",
    "WAITING",
    "LAG",
    "BY",
    "MIN",
    "MAX",
    "WEIGHT",
} | {
    "CPU FREE",
    "MEMORY FREE",
    "GPU FREE",
    "DESERVED",
    "RECEIVED",
    "SHARE",
    "READY",
    "DEPTH",
    "ASKED",
    "ADVISED",
    "SAVES",
    "DAY",
}


def test_what_fits_is_left_as_it_is() -> None:
    assert fitted(SHAPE, NATURAL, 69) == NATURAL


def test_the_least_important_is_cut_first_and_only_as_far_as_needed() -> None:
    assert fitted(SHAPE, NATURAL, 65) == [10, 3, 16, 30]
    assert fitted(SHAPE, NATURAL, 50) == [10, 3, 6, 25]


def test_what_a_column_leaves_free_goes_back_to_those_that_were_cut() -> None:
    widths = fitted(SHAPE, NATURAL, 31)
    assert widths == [10, LEFT_OUT, 6, 11]
    assert total(widths) == 31
    assert left_out(SHAPE, widths) == ["AGE"]


def test_what_cannot_fit_comes_as_near_as_it_may() -> None:
    assert fitted(SHAPE, NATURAL, 5) == [5, LEFT_OUT, LEFT_OUT, 4]


def test_a_column_that_nobody_named_is_never_touched() -> None:
    assert fitted(columns(("A", "B")), [40, 40], 20) == [40, 40]


def test_a_number_at_the_cut_goes_whole() -> None:
    text = "needs 4 cores, 1.5 free on 12 nodes"
    assert [table.shortened(text, width) for width in (16, 17, 18, 19, 20, 99)] == [
        "needs 4 cores,…",
        "needs 4 cores,…",
        "needs 4 cores,…",
        "needs 4 cores, 1.5…",
        "needs 4 cores, 1.5…",
        text,
    ]
    assert table.shortened("run-2047-of-many", 9) == "run-2047…", "a name that has digits in it is no number"


def test_columns_of_numbers_are_whole_or_not_there() -> None:
    for name, shape in EVERY_TABLE.items():
        cut = {give.heading for give in shape.gives if give.least}
        numbers = NUMBERS - ({"BY"} if name == "bursts" else set())  # there it says who
        assert not cut & numbers, name
        assert {give.heading for give in shape.gives} <= set(shape.headings), name


def test_a_bar_is_drawn_smaller_instead_of_being_cut() -> None:
    items = [
        {"tenant": t, "weight": 1.0, "waiting": 0, "deserved": 1, "received": 1, "lag": lag}
        for t, lag in (("behind", 1_000_000), ("ahead", -1_000_000))
    ]
    for width in (80, 200):
        _, behind, ahead = table.lines(queues.FAIRNESS, queues.fairness_rows(items), width=width)
        assert behind.index("┃") == ahead.index("┃")
        assert behind.count("█") == ahead.count("█") > 6
        assert "…" not in behind + ahead
