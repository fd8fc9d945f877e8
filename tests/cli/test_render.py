"""Golden lines: what people see, at a fixed time and width."""

import click
import pytest
from tests.cli.stub import a_job, ended

from windlass.cli.render import lists, table
from windlass.cli.render.fit import columns
from windlass.cli.render.page import job_page
from windlass.cli.render.values import age, bytes_of, detail, first_line, memory, seconds_of, span

NOW = seconds_of("2026-11-15T12:05:00Z") or 0.0
AB, ABC = columns(("A", "B")), columns(("A", "B", "C"))
JOBS = [
    a_job("waits", status__waiting=["needs 4 cores, 1.5 free on 1 node", "2 jobs ahead"]),
    a_job("held", spec__suspend=True),
    a_job("pulls", status__state="STARTING", status__progress="pulling busybox"),
    a_job("runs", status__state="RUNNING", status__startedAt="2026-11-15T12:03:48Z"),
    ended(a_job("fine")),
    ended(a_job("broken"), 3),
]


def test_the_list_of_jobs_in_a_pipe() -> None:
    assert table.lines(lists.JOBS, lists.job_rows(JOBS, NOW)) == [
        "NAME    STATE      AGE  RAN    WHAT     DETAIL",
        "waits   PENDING    5m   -      busybox  needs 4 cores, 1.5 free on 1 node; 2 jobs ahead",
        "held    SUSPENDED  5m   -      busybox  waits to be released",
        "pulls   STARTING   5m   -      busybox  pulling busybox",
        "runs    RUNNING    5m   1m12s  busybox",
        "fine    SUCCEEDED  5m   3.2s   busybox",
        "broken  FAILED     5m   3.2s   busybox  exit code 3",
    ]


def test_what_was_waited_between_attempts_is_not_counted_as_run() -> None:
    started = {"status__startedAt": "2026-11-15T12:00:01Z", "status__attempt": 2, "status__ranSeconds": 7.5}
    again = a_job("again", status__state="RUNNING", status__runStartedAt="2026-11-15T12:04:52.5Z", **started)
    backing_off = a_job("backing-off", **started)
    failed = ended(a_job("failed"), 3)
    failed["status"] |= {"ranSeconds": 1.25}
    rows = lists.job_rows([again, backing_off, failed], NOW)
    assert [row[3] for row in rows] == ["15s", "7.5s", "1.2s"]


def test_a_signal_is_shown_by_its_name() -> None:
    killed = ended(a_job("killed"), 137)
    assert table.lines(lists.JOBS, lists.job_rows([killed], NOW))[1].endswith("exit code 137 (SIGKILL)")
    page = "\n".join(job_page(killed, [], [], now=NOW, is_coloured=False))
    assert "killed  FAILED  exit code 137 (SIGKILL)\n" in page
    assert "Exit code  137 (SIGKILL)\n" in page


def test_on_a_terminal_states_are_pills_and_nothing_is_wider_than_it() -> None:
    lines = table.lines(lists.JOBS, lists.job_rows(JOBS, NOW), is_coloured=True, width=60)
    plain = [click.unstyle(line) for line in lines]
    assert max(map(len, plain)) <= 60
    assert plain[1].endswith("needs 4 cores, 1.5 free…")
    assert "\x1b[" in lines[1]
    assert plain[5].startswith("fine     SUCCEEDED   5m")
    positions = {line.index("5m") for line in plain[1:]}
    assert len(positions) == 1, "pills do not disturb the columns"


def test_the_wide_list_names_node_needs_and_uid() -> None:
    job = ended(a_job("a", status__node="n1", status__cost=1_250_000, metadata__uid="u1"))
    assert table.lines(lists.JOBS_WIDE, lists.job_rows([job], NOW, is_wide=True)) == [
        "NAME  STATE      AGE  RAN   ATTEMPT  NODE  CPU  MEMORY  GPU  COST  UID  WHAT     DETAIL",
        "a     SUCCEEDED  5m   3.2s  1        n1    1    512Mi   0    1.25  u1   busybox",
    ]


def test_the_list_of_ephemeral_jobs_shows_phases() -> None:
    job = ended(a_job("cat", spec__model="resnet50", spec__resources={"gpu": 1}))
    assert table.lines(lists.EPHEMERAL, lists.ephemeral_rows([job], NOW)) == [
        "NAME  PHASE      MODEL     GPU  AGE  RAN   DETAIL",
        "cat   Succeeded  resnet50  1    5m   3.2s",
    ]


def test_nodes_and_volumes() -> None:
    node = {
        "name": "local",
        "state": "active",
        "pool": "default",
        "runtime": "docker 28",
        "runs": 2,
        "capacity": {"cpu": "4", "memory": "8Gi", "gpu": 0},
        "free": {"cpu": "2500m", "memory": "7Gi", "gpu": 0},
    }
    assert table.lines(lists.NODES, lists.node_rows([node]))[1] == (  # type: ignore[list-item]
        "local  active  default  docker 28  2     2500m of 4  7Gi of 8Gi   0 of 0"
    )
    volume = {
        "name": "artifacts-a",
        "state": "PRESENT",
        "job": "a",
        "node": "local",
        "expiresAt": "2026-11-15T13:05:00Z",
    }
    assert table.lines(lists.VOLUMES, lists.volume_rows([volume], NOW))[1] == (  # type: ignore[list-item]
        "artifacts-a  PRESENT  a    local  1h"
    )


def test_foreign_text_cannot_move_the_cursor() -> None:
    [_, line] = table.lines(("A", "B"), [("x\x1b[2Jy\n", "\x07bell")])
    assert line == "x [2Jy    bell"


def test_wide_characters_keep_the_columns_straight() -> None:
    lines = table.lines(("A", "B"), [("猫", "x"), ("ab", "y")])
    assert lines == ["A   B", "猫  x", "ab  y"]


def test_rows_that_come_over_time_only_widen() -> None:
    widths: list[int] = []
    first = table.stream_line(AB, ("a", "b"), widths)
    second = table.stream_line(AB, ("longer", "b"), widths)
    third = table.stream_line(AB, ("a", "b"), widths)
    assert (first, second, third) == ("a  b", "longer  b", "a       b")


def test_rows_that_are_known_before_the_first_is_shown_stand_in_one_table() -> None:
    widths, rows = [0, 3], [("a", "b", "c"), ("longer", "b", "c")]
    table.widen(widths, rows)
    assert [table.stream_line(ABC, row, widths) for row in rows] == ["a       b    c", "longer  b    c"]


def test_the_page_shows_the_most_a_job_may_cost_as_money() -> None:
    page = "\n".join(job_page(a_job(spec__maxCost=500_000), [], [], now=NOW, is_coloured=False))
    assert "maxCost    0.5\n" in page + "\n"


def test_the_page_about_a_job() -> None:
    run = {"id": "r-1", "attempt": 1, "state": "EXITED", "node": "n1", "exitCode": 3, "reason": "ExitCode"}
    job = ended(a_job("broken", metadata__uid="u-1", metadata__labels={"team": "vision"}, status__runs=[run]), 3)
    event = {"revision": 3, "at": "2026-11-15T12:00:00Z", "kind": "Accepted", "message": "queued"}
    line = {"at": "", "stream": "stdout", "text": "last words\x1b[2J"}
    page = "\n".join(job_page(job, [event], [line], now=NOW, is_coloured=False))  # type: ignore[list-item]
    assert page.startswith(
        "broken  FAILED  exit code 3\n\n  Kind       Job\n  Uid        u-1\n  Labels     team=vision\n"
    )
    for part in (
        "Attempt    1 of 1",
        "Exit code  3",
        "Reason     ExitCode",
        "Command    echo hi",
        "cpu 1, memory 512Mi, gpu 0",
    ):
        assert part in page
    assert "1        EXITED  n1" in page
    assert "Accepted        queued" in page
    assert page.endswith("Output\n  last words [2J")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0s"),
        (0.04, "0.0s"),
        (9.94, "9.9s"),
        (59, "59s"),
        (60, "1m"),
        (3_725, "1h2m"),
        (3_600, "1h"),
        (200_000, "2d7h"),
    ],
)
def test_spans_have_two_units_at_most(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


def test_small_values() -> None:
    assert [bytes_of(n) for n in (0, 1023, 1024, 5 << 20, 3 << 30, 2 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 MiB",
        "3.0 GiB",
        "2.0 TiB",
    ]
    assert [age(t, NOW) for t in (None, "nonsense", "2026-11-15T12:05:00Z", "2026-11-13T12:05:00Z")] == [
        "-",
        "-",
        "0s",
        "2d",
    ]


def test_a_thing_that_nobody_created_has_no_age() -> None:
    assert age("1970-01-01T00:00:00.000Z", NOW) == "-"


def test_memory_is_shown_as_people_say_it() -> None:
    shown = [memory(q) for q in ("24684100Ki", "512Mi", 1073741824, "1000", "1536Mi", "odd", 5 << 40)]
    assert shown == ["23.5Gi", "512Mi", "1Gi", "1000", "1.5Gi", "odd", "5Ti"]


def test_the_end_of_a_log_in_a_message_is_left_to_the_log() -> None:
    assert first_line("memory ran out; its last lines:\none\ntwo") == "memory ran out"


def test_an_end_without_an_exit_code_is_told_by_reason_and_message() -> None:
    job = a_job("a", status__state="FAILED", status__reason="ImagePull", status__message="no such image\nmore")
    assert detail(job) == "ImagePull: no such image"  # type: ignore[arg-type]
