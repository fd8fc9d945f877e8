"""How the command line says no: what, where, what next; and the exit code that scripts rely on."""

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.cli.conftest import Invoke
from tests.cli.stub import Stub, a_job, problem

from windlass.cli import exits
from windlass.cli.app import build
from windlass.cli.lazy import Verb


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "invalid", exits.GENERAL),
        (400, "fits-nowhere", exits.GENERAL),
        (400, "exceeds-quota", exits.REFUSED),
        (401, "unauthenticated", exits.REFUSED),
        (403, "denied", exits.REFUSED),
        (404, "not-found", exits.NOT_FOUND),
        (409, "conflict", exits.CONFLICT),
        (413, "too-large", exits.REFUSED),
        (429, "quota-jobs", exits.REFUSED),
        (500, "internal", exits.GENERAL),
    ],
)
def test_each_refusal_has_its_exit_code(stub: Stub, windlass: Invoke, status: int, code: str, expected: int) -> None:
    stub.script("GET", problem(status, code, "no"))
    result = windlass("get", "job", "a")
    assert result.exit_code == expected
    assert result.stderr.startswith("error: no\n")


def test_faults_are_listed_and_the_hint_comes_last(stub: Stub, windlass: Invoke) -> None:
    faults = [
        {"field": "spec.resources.cpu", "message": "expected 500m, 1.5 or 2"},
        {"field": "spec.retries", "message": "≤ 100"},
    ]
    stub.script("POST", problem(400, "invalid", "the manifest has 2 faults", faults=faults, hint="see examples"))
    result = windlass("run", "-d", "--", "true")
    assert result.stderr == (
        "error: the manifest has 2 faults\n"
        "  - spec.resources.cpu: expected 500m, 1.5 or 2\n"
        "  - spec.retries: ≤ 100\n"
        "hint: see examples\n"
    )
    assert result.stdout == ""


def test_an_internal_error_names_the_request_to_look_for(stub: Stub, windlass: Invoke) -> None:
    stub.script("GET", problem(500, "internal", "something broke here"))
    assert "request: r-1" in windlass("get", "job", "a").stderr


def test_a_missing_token_says_where_one_comes_from(stub: Stub, windlass: Invoke) -> None:
    advice = "send the header Authorization: Bearer <token>"
    stub.script("GET", problem(401, "unauthenticated", "no token was sent", hint=advice))
    said = windlass("get", "jobs", WINDLASS_TOKEN="").stderr
    assert "hint: give --token or WINDLASS_TOKEN, or run this where `windlass up` wrote one" in said
    assert advice not in said


def test_a_token_that_does_not_hold_keeps_the_advice_of_the_server(stub: Stub, windlass: Invoke) -> None:
    stub.script("GET", problem(401, "token-expired", "the token has expired", hint="get a new one"))
    assert "hint: get a new one" in windlass("get", "jobs").stderr


def test_no_server_is_exit_69(windlass: Invoke, free_port: Callable[[], int]) -> None:
    result = windlass("get", "jobs", WINDLASS_URL=f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == exits.NO_SERVER
    assert "windlass up" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gett", "jobs"], "did you mean get?"),
        (["get", "things"], "there are jobs, nodes, volumes, pools and tenants"),
        (["run"], "give an image, or a command after `--`"),
        (["run", "a", "b", "--", "c"], "only the image stands before `--`"),
        (["run", "busybox", "ls", "-Z"], "put `--` before the command"),
        (["run", "busybox", "ls", "-l"], "put `--` before the command"),
        (["run", "busybox", "ls", "/tmp"], "the command comes after `--`: windlass run busybox -- ls /tmp"),
        (["exec", "a", "ls"], "the command comes after `--`: windlass exec a -- ls"),
        (["run", "--timeout", "soon", "a"], "is not a duration"),
        (["run", "-e", "NOT_SET_ANYWHERE", "a"], "expected KEY=VALUE"),
        (["run", "-l", "novalue", "a"], "expected KEY=VALUE"),
        (["run", "-it", "-d", "a"], "exclude each other"),
        (["run", "--rm", "-d", "a"], "exclude each other"),
        (["run", "--name", "", "a"], "expected a value, and it is empty"),
        (["run", "--project-dir", "", "a"], "expected a path, and it is empty"),
        (["run", "--webhook", "", "a"], "expected a value, and it is empty"),
        (["cp", "a", "b"], "one of SRC and DST is JOB:/PATH"),
        (["exec", "a"], "which command?"),
        (["debug", "a", "--exec", "echo 'a"], "cannot be split into words: no closing quotation"),
        (["get", "jobs", "-o", "xml"], "'xml' is not one of"),
    ],
)
def test_wrong_usage_is_exit_2_with_the_usage_line(stub: Stub, windlass: Invoke, words: list[str], said: str) -> None:
    result = windlass(*words)
    assert result.exit_code == exits.USAGE
    assert said in result.stderr
    assert "usage: windlass" in result.stderr
    assert "--help` says more" in result.stderr
    assert stub.asked == []


def test_everything_of_a_line_that_cannot_be_taken_is_said_at_once(stub: Stub, windlass: Invoke) -> None:
    result = windlass(
        "run", "--label", "=x", "--label", "ok=1", "--label", "y", "--gpu", "x", "--timeout", "abc", "img"
    )
    assert (result.exit_code, stub.asked) == (exits.USAGE, [])
    first, *rest = result.stderr.splitlines()
    assert first == "error: 4 of these cannot be taken"
    for said in ("'=x' has no key; expected KEY=VALUE", "'y' has no value; expected KEY=VALUE", "--gpu", "--timeout"):
        assert sum(said in line for line in rest) == 1, result.stderr
    assert rest[-2].startswith("usage: ")


def test_a_single_fault_of_a_line_is_said_as_it_is(stub: Stub, windlass: Invoke) -> None:
    result = windlass("run", "--label", "=x", "img")
    assert result.exit_code == exits.USAGE
    assert "Invalid value for '-l' / '--label': '=x' has no key; expected KEY=VALUE" in result.stderr.splitlines()[0]


@pytest.mark.parametrize(
    "words", [("run", "-e", "A=b\udcff", "--", "true"), ("run", "--", "b\udcff"), ("get", "job", "b\udcff")]
)
def test_bytes_that_are_no_text_are_named_and_not_called_a_bug(
    stub: Stub, windlass: Invoke, words: tuple[str, ...]
) -> None:
    result = windlass(*words)
    assert (result.exit_code, stub.asked) == (exits.USAGE, [])
    assert "not text in UTF-8: '" in result.stderr
    assert "b\\xff" in result.stderr
    assert "bug" not in result.stderr


def test_a_file_that_is_not_there_is_named(windlass: Invoke, tmp_path: Path) -> None:
    result = windlass("apply", "-f", str(tmp_path / "absent.yaml"))
    assert result.exit_code == exits.GENERAL
    assert result.stderr == f"error: {tmp_path}/absent.yaml: No such file or directory\n"


def test_a_file_that_is_not_utf_8_is_named(stub: Stub, windlass: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("kind: Job\nmetadata: {name: caf\xe9}\n".encode("latin-1"))
    result = windlass("apply", "-f", str(path))
    assert result.exit_code == exits.GENERAL
    assert result.stderr == f"error: {path}: not UTF-8, in line 2\nhint: save it as UTF-8\n"
    env_file = windlass("run", "--env-file", str(path), "a")
    assert (env_file.exit_code, f"{path} is not UTF-8" in env_file.stderr) == (exits.USAGE, True)
    assert stub.asked == []


def test_bad_yaml_names_file_and_line(windlass: Invoke, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: [1\nb: 2\n")
    result = windlass("apply", "-f", str(tmp_path / "x.yaml"))
    assert f"error: {tmp_path}/x.yaml: not YAML" in result.stderr
    assert "line 2" in result.stderr


@click.command()
def breaks() -> None:
    raise ZeroDivisionError("by hand")


def test_a_bug_shows_no_traceback_unless_asked_for() -> None:
    app = build({"breaks": f"{__name__}:breaks"})
    app._verbs["breaks"] = Verb(at=f"{__name__}:breaks")  # type: ignore[attr-defined]
    shown = CliRunner().invoke(app, ["breaks"])
    assert shown.exit_code == exits.GENERAL
    assert shown.stderr.startswith("error: ZeroDivisionError: by hand\n")
    assert "Traceback" not in shown.output
    debugged = CliRunner().invoke(app, ["breaks"], env={"WINDLASS_DEBUG": "1"})
    assert isinstance(debugged.exception, ZeroDivisionError)


def test_options_of_the_connection_may_stand_before_or_after_the_verb(stub: Stub, windlass: Invoke) -> None:
    stub.jobs["a"] = a_job("a")
    for words in (["--url", stub.url, "get", "job", "a"], ["get", "job", "a", "--url", stub.url]):
        assert windlass(*words, WINDLASS_URL="http://127.0.0.1:1").exit_code == 0


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [
        ("SUCCEEDED", 0, 0),
        ("FAILED", 3, 3),
        ("FAILED", 137, 137),
        ("FAILED", None, exits.NO_EXIT_CODE),
        ("FAILED", 0, exits.NO_EXIT_CODE),
        ("TIMED_OUT", 143, exits.TIMED_OUT),
        ("CANCELLED", 143, exits.INTERRUPTED),
    ],
)
def test_the_exit_code_of_a_job_is_passed_on(state: str, code: int | None, expected: int) -> None:
    assert exits.of_job(state, code) == expected
