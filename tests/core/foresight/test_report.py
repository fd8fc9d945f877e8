"""What a simulation is shown as: in the terminal, as JSON, and as one page that needs nothing else."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click import UsageError
from click.testing import CliRunner, Result

from windlass.cli.app import build
from windlass.cli.render.figures import spark
from windlass.cli.render.report import report_page
from windlass.core.errors import Invalid
from windlass.core.foresight.generate import Making, generate
from windlass.core.foresight.measures import Report, compare
from windlass.core.foresight.variant import parse_variant

VARIANTS = ("fifo", "wfq", "late=deadlines weight.tenant-01=2 quota.*.jobs=50 pool.pool-1=3 lose=1@10m+5m backfill=off")
SHARED = str(Path(__file__).parents[3] / "examples/traces/shared.swf")
VOID = {"meta", "line", "rect", "br"}


def simulated(*words: str) -> Result:
    return CliRunner().invoke(build({}), ["simulate", *words], standalone_mode=False)


@pytest.mark.parametrize("column", ["user", "group", "queue"])
def test_who_pays_is_named_as_the_guide_says(column: str) -> None:
    assert simulated(SHARED, "--variant", "fifo", "--tenant-by", column).exception is None


@pytest.mark.parametrize("words", [("--load", "5"), ("--nodes", "7", "--seed", "4")], ids=" ".join)
def test_what_is_for_making_a_trace_up_is_refused_of_one_that_is_there(words: tuple[str, ...]) -> None:
    refusal = simulated(SHARED, *words).exception
    assert isinstance(refusal, UsageError)
    assert words[0] in refusal.message
    assert "only with --generate" in refusal.message


def test_one_file_is_not_written_over_by_another(tmp_path: Path) -> None:
    file = tmp_path / "one"
    for words in ((SHARED, "--html", str(file), "--save", f"{tmp_path}/./one"), (str(file), "--save", str(file))):
        refusal = simulated(*words).exception
        assert isinstance(refusal, UsageError)
        assert "are one file" in refusal.message
    assert not file.exists()


def test_a_column_is_chosen_only_where_there_are_columns(tmp_path: Path) -> None:
    record = tmp_path / "past.jsonl"
    record.write_text('{"kind": "NodeJoined", "at": "2026-01-01T00:00:00Z", "node": "n1"}\n')
    refusal = simulated(str(record), "--tenant-by", "user").exception
    assert isinstance(refusal, Invalid)
    assert refusal.faults[0].field == "--tenant-by"
    assert isinstance(simulated("--generate", "9", "--tenant-by", "user").exception, UsageError)


def test_a_loss_after_the_end_is_said_to_have_changed_nothing() -> None:
    result = simulated("--generate", "9", "--variant", "wfq lose=1@9000d")
    assert "wfq: 1 loss of nodes after the last end, " in result.stderr


def test_the_help_names_both_formats() -> None:
    text = " ".join(CliRunner().invoke(build({}), ["simulate", "--help"]).output.split())
    assert "Standard Workload Format" in text
    assert "events --all --everyone -o json" in text


def a_report() -> Report:
    trace = generate(Making(jobs=150, tenants=12, nodes=2, load=3))
    return compare(trace, [parse_variant(words) for words in VARIANTS])


class Nesting(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def test_the_page_is_whole_draws_its_plots_itself_and_fetches_nothing() -> None:
    page = report_page(a_report())
    nesting = Nesting()
    nesting.feed(page)
    assert nesting.open == []
    assert {"svg", "polyline", "rect", "table"} <= nesting.seen
    assert not {"script", "link", "img", "iframe"} & nesting.seen
    assert re.findall(r"https?://|src=|url\(", page) == []
    assert page == report_page(a_report())


def test_a_name_from_a_trace_is_text_and_nothing_else() -> None:
    report = a_report()
    figures = report.figures[0]
    evil = msgspec.structs.replace(figures.tenants[0], tenant="<script>alert(1)</script>")
    hostile = msgspec.structs.replace(figures, tenants=(evil, *figures.tenants[1:]))
    page = report_page(msgspec.structs.replace(report, figures=(hostile,)))
    assert "<script" not in page
    assert "&lt;script" in page


def test_the_command_prints_the_table_and_the_curves_and_writes_what_it_was_asked_to(tmp_path: Path) -> None:
    page, saved = tmp_path / "a.html", tmp_path / "a.swf"
    words = ("--generate", "80", "--nodes", "1", "--html", str(page), "--save", str(saved))
    done = simulated(*words, *(word for variant in VARIANTS for word in ("--variant", variant)))
    assert done.exception is None
    assert "80 jobs of 20 tenants" in done.output
    late = next(line for line in done.output.splitlines() if line.startswith("late"))
    assert {"deadlines", "weight.tenant-01=2", "quota.*.jobs=50", "pool.pool-1=3", "backfill=off"} <= set(late.split())
    assert "utilisation over time" in done.output
    assert page.read_text().startswith("<!doctype html>")
    again = simulated(str(saved), "--variant", "wfq", "-o", "json")
    assert again.exception is None
    assert msgspec.json.decode(again.stdout)["jobs"] == 80


def test_a_saved_trace_comes_to_the_same_on_the_same_cluster_deadlines_included(tmp_path: Path) -> None:
    saved = tmp_path / "a.swf"
    variants = ("--variant", "wfq", "--variant", "deadlines", "-o", "json")
    first = simulated("--generate", "400", "--nodes", "1", "--cores", "16", "--save", str(saved), *variants)
    again = simulated(str(saved), "--pool", "pool-1=1x16:64Gi", *variants)
    told, retold = (_without_names(msgspec.json.decode(done.stdout)) for done in (first, again))
    assert all(one["due"] for one in told)
    assert retold == told


def _without_names(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Tenants have numbers in that format, in the order of their names."""
    for one in report["figures"]:
        for tenant in one["tenants"]:
            del tenant["tenant"]
    return list(report["figures"])


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("a.swf", "--generate", "5"),
        ("--generate", "0"),
        ("--generate", "5", "--variant", "wfq", "--variant", "wfq"),
        ("--generate", "5", "--pool", "pool-1=2x8", "--pool", "pool-1=1x64"),
        ("--generate", "5", "--html", "-"),
        ("--generate", "5", "--save", "-"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(words: tuple[str, ...]) -> None:
    assert type(simulated(*words).exception).__name__ in ("UsageError", "BadParameter")


@pytest.mark.parametrize(
    ("words", "name"),
    [(("--generate", "5", "--html", ""), "--html"), (("--generate", "5", "--save", ""), "--save"), (("",), "TRACE")],
)
def test_a_file_without_a_name_is_refused_by_its_option(words: tuple[str, ...], name: str) -> None:
    refused = simulated(*words).exception
    assert isinstance(refused, UsageError)
    assert refused.message == f"{name} is empty: expected the name of a file"


def test_two_pools_of_one_name_are_refused_by_it() -> None:
    refused = simulated(SHARED, "--pool", "a=2x8", "--pool", "b=1x8", "--pool", "a=1x64").exception
    assert isinstance(refused, UsageError)
    assert refused.message.startswith("two pools are called a; ")


def test_where_everything_is_refused_it_is_said_how_many_and_why_and_nothing_of_waits(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    words = ("--generate", "20", "--pool", "other=4x64", "--variant", "fifo", "--variant", "wfq")
    done = simulated(*words, "--html", str(page))
    why = "refused 20 of 20 jobs: 20 fits-nowhere (no node is in pool pool-1; there are: other)"
    assert f"fifo, wfq {why}" in done.stdout
    assert "waited" not in done.output
    assert "waiting" not in done.output
    assert "nothing was started" in done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("wfq "))
    assert row.split() == ["wfq", "0", "(20", "refused)", "-", "-", "-", "0.0%", "-", "-", "0.00", "0.0s"]
    assert why in page.read_text()
    (figures, _) = msgspec.json.decode(simulated(*words, "-o", "json").stdout)["figures"]
    assert (figures["refused"], figures["waits"], figures["due"]) == (20, None, 0)


def test_a_record_without_nodes_is_refused_with_what_to_do_and_runs_on_a_cluster_that_is_named(tmp_path: Path) -> None:
    """As a member has it: nodes are an admin's to see."""
    log = tmp_path / "log.jsonl"
    lines = [
        {"kind": "Accepted", "at": "2026-01-01T00:00:00Z", "job": "a", "asked": {"resources": {"cpu": "1"}}},
        {"kind": "Running", "at": "2026-01-01T00:00:00Z", "job": "a"},
        {"kind": "Succeeded", "at": "2026-01-01T00:00:09Z", "job": "a"},
    ]
    log.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    refused = simulated(str(log)).exception
    assert isinstance(refused, Invalid)
    assert "names no node" in refused.message
    assert "--pool" in (refused.hint or "")
    assert simulated(str(log), "--pool", "a=1x1").exception is None


def test_some_that_are_refused_are_counted_with_the_first_reason_of_each_kind() -> None:
    done = simulated(SHARED, "--pool", "batch=4x8", "--variant", "wfq")
    assert done.exception is None
    (line,) = [line for line in done.stdout.splitlines() if " refused " in line]
    assert "fits-nowhere (asks for " in line


def test_jobs_that_never_start_have_waited(tmp_path: Path) -> None:
    """The one node is lost before the second job comes, and never comes back."""
    trace = tmp_path / "two.swf"
    line = "{number} {at} 0 10 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1\n"
    trace.write_text("".join(line.format(number=number, at=at) for number, at in ((1, 0), (2, 600))))
    done = simulated(str(trace), "--pool", "a=1x1", "--variant", "wfq lose=1@5m")
    assert "1 (1 never)" in done.stdout
    assert "nobody waited" not in done.stderr


def test_more_than_can_be_made_up_is_refused_by_name() -> None:
    refused = simulated("--generate", "5", "--tenants", "1000000", "--pools", "2000").exception
    assert isinstance(refused, Invalid)
    assert [fault.field for fault in refused.faults] == ["tenants", "pools"]


def test_a_curve_shows_everything_that_is_above_nothing() -> None:
    assert spark([0, 0.001, 1, 0.5], 1.0, width=4) == " ▁█▄"
    assert spark([], 1.0, width=3) == "   "
