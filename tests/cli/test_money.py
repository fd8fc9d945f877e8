"""Tenants and money on the command line, against a stub server: what is refused before it is sent, what is said after."""

import pytest
from tests.cli.conftest import Invoke
from tests.cli.stub import Stub

from windlass.cli import exits

SESSION = {
    "openedAt": "2026-11-15T12:00:00Z",
    "endsAt": "2026-11-15T13:00:00Z",
    "state": "open",
    "openedBy": "request",
    "runs": 0,
    "cost": 0,
}


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "two", ""])
@pytest.mark.parametrize(
    "verb",
    [
        ("weight", "vision"),
        ("create", "vision", "--weight"),
        ("create", "vision", "--rate"),
        ("create", "vision", "--jobs"),
        ("quota", "vision", "--cpu"),
        ("quota", "vision", "--memory"),
        ("quota", "vision", "--gpu"),
        ("quota", "vision", "--queued-max"),
        ("quota", "vision", "--cost-per-day"),
        ("budget", "vision", "--per-month"),
        ("budget", "vision", "--threshold"),
    ],
)
def test_what_is_no_number_is_refused_before_it_is_sent(
    stub: Stub, windlass: Invoke, verb: tuple[str, ...], word: str
) -> None:
    given = verb if verb[-1].startswith("--") else (*verb, "--")
    result = windlass("tenants", *given, word)
    assert result.exit_code == exits.USAGE, result.output
    assert "expected" in result.stderr or "not a valid integer" in result.stderr
    assert stub.asked == []


@pytest.mark.parametrize("verb", ["cost", "savings"])
def test_one_tenants_money_or_everybodys(stub: Stub, windlass: Invoke, verb: str) -> None:
    result = windlass(verb, "--all", "--tenant", "vision")
    assert (result.exit_code, stub.asked) == (exits.USAGE, [])
    assert "--tenant or --all, not both" in result.stderr


def test_days_that_end_before_they_begin_are_refused(stub: Stub, windlass: Invoke) -> None:
    result = windlass("cost", "--since", "2026-11-02", "--until", "2026-11-01")
    assert (result.exit_code, stub.asked) == (exits.USAGE, [])
    assert "--since 2026-11-02 is after --until 2026-11-01" in result.stderr


@pytest.mark.parametrize(("option", "method", "done"), [("--open", "POST", "opened"), ("--end", "DELETE", "ended")])
def test_a_burst_that_was_opened_or_ended_says_so_first(
    stub: Stub, windlass: Invoke, option: str, method: str, done: str
) -> None:
    path = "/api/v1/tenants/vision/burst"
    for form in ((), ("-o", "json")):
        stub.script(f"{method} {path}", (200, SESSION))
        stub.script(f"GET {path}", (200, {"tenant": "vision", "items": [SESSION]}))
        result = windlass("tenants", "burst", "vision", option, *form)
        assert result.exit_code == 0, result.output
        first = result.stdout.splitlines()[0]
        assert first == ("{" if form else f"burst session of tenant vision {done}")


@pytest.mark.parametrize(
    ("typed", "micros"), [("250", 250_000_000), ("0.05", 50_000), ("0.000001", 1), ("12.5", 12_500_000), ("", None)]
)
def test_money_is_typed_as_it_is_shown_and_travels_in_micro_units(
    stub: Stub, windlass: Invoke, typed: str, micros: int | None
) -> None:
    given = () if micros is None else ("--max-cost", typed)
    windlass("run", "--detach", *given, "--", "true")
    assert stub.asked[0].json["spec"].get("maxCost") == micros


def test_a_job_that_may_cost_nothing_is_refused_before_it_is_sent(stub: Stub, windlass: Invoke) -> None:
    result = windlass("run", "--max-cost", "0", "--", "true")
    assert (result.exit_code, stub.asked) == (exits.USAGE, [])
    assert "expected more than 0" in result.stderr


def test_a_budget_of_nothing_is_refused_with_what_takes_it_away(stub: Stub, windlass: Invoke) -> None:
    result = windlass("tenants", "budget", "vision", "--per-month", "0")
    assert (result.exit_code, stub.asked) == (exits.USAGE, [])
    assert "expected more than 0: nothing runs for nothing; none takes it away" in result.stderr
    most = windlass("tenants", "budget", "vision", "--per-month", "1000000000.000001")
    assert (most.exit_code, stub.asked) == (exits.USAGE, [])
    assert "is too much; expected at most 1000000000" in most.stderr


@pytest.mark.parametrize("typed", ["0.0000001", "1e3", "-1", "1,5", "none"])
def test_what_is_no_amount_of_money_is_refused_before_it_is_sent(stub: Stub, windlass: Invoke, typed: str) -> None:
    result = windlass("run", f"--max-cost={typed}", "--", "true")
    assert (result.exit_code, stub.asked) == (exits.USAGE, [])
    assert "expected one such as 250 or 0.05, six decimals at most" in result.stderr


BOOK = {"coreHour": 50_000, "gigabyteHour": 10_000, "gpuHour": 2_500_000, "workerHour": 0, "storedGigabyteHour": 0}
PRICES = {"every": BOOK, "pools": {"night": {**BOOK, "coreHour": 20_000}}, "tiers": {"enterprise": 80}}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--core-hour", "0.04"), {**PRICES, "every": {**BOOK, "coreHour": 40_000}}),
        (
            ("--pool", "day", "--gpu-hour", "2"),
            {**PRICES, "pools": {**PRICES["pools"], "day": {**BOOK, "gpuHour": 2_000_000}}},
        ),
        (("--pool", "night", "--reset"), {**PRICES, "pools": {}}),
        (("--tier", "premium=90"), {**PRICES, "tiers": {"enterprise": 80, "premium": 90}}),
    ],
)
def test_prices_change_what_is_named_and_leave_the_rest(
    stub: Stub, windlass: Invoke, options: tuple[str, ...], expected: object
) -> None:
    for method in ("GET", "PUT"):
        stub.script(f"{method} /api/v1/prices", (200, PRICES))
    result = windlass("prices", "set", *options)
    assert result.exit_code == 0, result.output
    assert stub.asked[-1].json == expected
    assert "tier enterprise pays 80 %" in result.stdout


def test_a_budget_that_is_untouched_has_no_empty_line_for_its_bar(stub: Stub, windlass: Invoke) -> None:
    found = {"tenant": "vision", "month": "2026-11", "spent": 0, "perMonth": 5_000_000, "hardStop": False, "passed": []}
    stub.script("GET /api/v1/tenants/vision/budget", (200, found))
    assert windlass("tenants", "budget", "vision").stdout.splitlines() == ["2026-11  0 of 5 (0%)"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--timeout", "99999999999999999999d"), "'99999999999999999999d' is too long; expected at most 366d"),
        (("--timeout", "367d"), "'367d' is too long; expected at most 366d"),
        (("--max-cost", "1000000001"), "'1000000001' is too much; expected at most 1000000000"),
        (("--max-cost", "9" * 40), f"'{'9' * 24}…' is too much"),
    ],
)
def test_what_is_too_large_is_said_to_be_with_the_limit(
    stub: Stub, windlass: Invoke, options: tuple[str, ...], said: str
) -> None:
    result = windlass("run", *options, "--", "true")
    assert (result.exit_code, stub.asked) == (exits.USAGE, [])
    assert said in " ".join(result.stderr.split())


def test_a_drain_says_what_is_left_and_waits_if_it_is_asked_to(stub: Stub, windlass: Invoke) -> None:
    def nodes(runs: int) -> dict[str, object]:
        return {"items": [{"name": "n1", "runs": runs}, {"name": "n2", "runs": 9}]}

    stub.script("POST /api/v1/nodes/n1/drain", (200, {"state": "draining"}), (200, {"state": "draining"}))
    stub.script("GET /api/v1/nodes", (200, nodes(1)), (200, nodes(2)), (200, nodes(0)))
    assert windlass("nodes", "drain", "n1").stdout == "node/n1 draining, 1 run left\n"
    assert windlass("nodes", "drain", "n1", "--wait").stdout == "node/n1 drained\n"


def test_a_pool_that_is_deleted_says_whose_quotas_named_it(stub: Stub, windlass: Invoke) -> None:
    def gone(name: str, *tenants: str) -> None:
        stub.script(f"DELETE /api/v1/pools/{name}", (202, {"name": name, "leftQuotasOf": list(tenants)}))

    gone("a")
    gone("b", "acme")
    gone("c", *(f"t{at}" for at in range(7)))
    assert windlass("pools", "delete", "a", "b", "c").stdout.splitlines() == [
        "pool/a deleted",
        "pool/b deleted; no longer in the quota of acme",
        "pool/c deleted; no longer in the quotas of t0, t1, t2, t3, t4 and 2 more",
    ]


def test_what_held_a_pool_back_again_and_again_is_one_line_of_its_history(stub: Stub, windlass: Invoke) -> None:
    seen = {"ready": 1, "coming": 0, "idle": 0, "depth": 7}
    held = {"by": 0, "wanted": 3, "rule": "depth 7 of 1", "held": ["cooldown, 9 s left"], "seen": seen}
    grew = {**held, "by": 1, "held": []}
    steps = [
        {**one, "at": "2026-11-15T12:00:00Z"} for one in (held, {**held, "held": ["cooldown, 31 s left"]}, grew, grew)
    ]
    stub.script("GET /api/v1/pools/grow/scaling/history", (200, {"items": steps, "next": None}))
    lines = windlass("pools", "history", "grow").stdout.splitlines()
    assert len(lines) == 1 + 3, "changes are never folded"
    assert "cooldown, 9 s left (told 2 times)" in lines[1]
