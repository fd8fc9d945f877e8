"""The verbs as a person uses them, against a stub server: what is sent, what is printed, which exit code."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Invoke
from tests.cli.stub import Stub, a_job, ended, problem

from windlass import __version__
from windlass.cli import exits


def test_run_streams_both_streams_and_returns_the_jobs_exit_code(stub: Stub, windlass: Invoke) -> None:
    stub.lines["shout"] = [("stdout", "one"), ("stderr", "oops"), ("stdout", "two")]
    stub.exit_codes["shout"] = 3

    result = windlass("run", "--name", "shout", "busybox", "--", "sh", "-c", "exit 3")

    assert result.stdout == "one\ntwo\n"
    assert result.stderr.startswith("oops\n")
    assert "shout FAILED after 3.2s: exit code 3" in result.stderr
    assert result.exit_code == 3
    [create] = stub.requests("POST /api/v1/jobs")
    assert create.json["spec"] == {"image": "busybox", "command": ["sh", "-c", "exit 3"]}


def test_run_sends_what_was_asked_for_and_nothing_else(stub: Stub, windlass: Invoke, tmp_path: Path) -> None:
    (tmp_path / "vars").write_text("# comment\nA=1\nexport B='two words'\n")
    result = windlass(
        "run", "--detach", "--cpu", "500m", "--memory", "1Gi", "--gpu", "0", "-e", "C=x=y", "--env-file", str(tmp_path / "vars"),
        "--timeout", "10m", "--retries", "2", "--workdir", "/w", "--ttl", "30", "--volume-ttl", "2h", "--label", "team=vision",
        "--priority", "5", "--pool", "fast", "--webhook", "https://example.com/x", "alpine", "--", "--looks-like", "-o",
    )  # fmt: skip
    assert result.output == "made-up-name\n"
    [create] = stub.requests("POST /api/v1/jobs")
    assert create.json == {
        "apiVersion": "windlass.dev/v1",
        "kind": "Job",
        "metadata": {"labels": {"team": "vision"}},
        "spec": {
            "image": "alpine",
            "command": ["--looks-like", "-o"],
            "env": {"A": "1", "B": "two words", "C": "x=y"},
            "workdir": "/w",
            "timeoutSeconds": 600,
            "retries": 2,
            "priority": 5,
            "ttlSecondsAfterFinished": 30,
            "pvcTTLSecondsAfterFinished": 7200,
            "pool": "fast",
            "webhook": {"url": "https://example.com/x"},
            "resources": {"cpu": "500m", "memory": "1Gi", "gpu": 0},
        },
    }
    assert create.headers["Authorization"] == "Bearer t0ken"
    assert len(create.headers["Idempotency-Key"]) >= 20


def test_run_without_an_image_sends_only_the_command(stub: Stub, windlass: Invoke) -> None:
    assert windlass("run", "-d", "--", "make", "test").exit_code == 0
    [create] = stub.requests("POST /api/v1/jobs")
    assert create.json["spec"] == {"command": ["make", "test"]}


def test_run_with_a_project_uploads_before_it_releases(stub: Stub, windlass: Invoke, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print('hi')\n")
    result = windlass("run", "-d", "--project-dir", str(tmp_path), "python", "--", "python", "main.py")
    assert result.exit_code == 0, result.output
    verbs = [repr(asked).split("/")[0] + asked.path.split("/")[-1] for asked in stub.asked]
    assert verbs == ["POST jobs", "PUT artifacts", "POST release"]
    assert stub.requests("POST /api/v1/jobs")[0].json["spec"]["suspend"] is True
    assert b"main.py" in stub.uploads[""]


def test_a_failed_upload_takes_the_job_back(stub: Stub, windlass: Invoke, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    stub.script("PUT /api/v1/jobs", problem(413, "too-large", "at most 2 GiB"))
    result = windlass("run", "--project-dir", str(tmp_path), "python", "--", "true")
    assert result.exit_code == 4
    assert "error: at most 2 GiB" in result.stderr
    assert stub.jobs == {}


def test_get_jobs_is_an_aligned_table_in_a_pipe(stub: Stub, windlass: Invoke) -> None:
    stub.jobs = {"a": ended(a_job("a")), "long-name": ended(a_job("long-name"), 3)}
    lines = windlass("get", "jobs").output.splitlines()
    assert [line.split()[:2] for line in lines] == [["NAME", "STATE"], ["a", "SUCCEEDED"], ["long-name", "FAILED"]]
    assert lines[2].endswith("exit code 3")
    assert "\x1b" not in "".join(lines)


def test_get_job_as_json_is_the_servers_document(stub: Stub, windlass: Invoke) -> None:
    stub.jobs = {"a": a_job("a", status__somethingNew=[1, {"x": None}])}
    assert json.loads(windlass("get", "job", "a", "-o", "json").output) == stub.jobs["a"]


def test_get_walks_all_pages(stub: Stub, windlass: Invoke) -> None:
    stub.jobs = {f"j{i:04d}": a_job(f"j{i:04d}") for i in range(2500)}
    result = windlass("get", "jobs", "--all", "-o", "name")
    assert len(result.output.splitlines()) == 2500
    assert len(stub.requests("GET /api/v1/jobs")) == 3


def test_get_says_when_there_is_more(stub: Stub, windlass: Invoke) -> None:
    stub.jobs = {f"j{i}": a_job(f"j{i}") for i in range(5)}
    result = windlass("get", "jobs", "--limit", "2")
    assert len(result.stdout.splitlines()) == 3
    assert "--all" in result.stderr


def test_apply_creates_then_finds_unchanged_then_refuses_a_change(stub: Stub, windlass: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    one = "apiVersion: windlass.dev/v1\nkind: Job\nmetadata: {name: one}\nspec: {image: a, env: {FLAG: 'no'}}\n"
    file.write_text(one + "---\n" + one.replace("one", "two"))
    assert windlass("apply", "-f", str(file)).output == "job/one created\njob/two created\n"
    assert windlass("apply", "-f", str(file)).output == "job/one unchanged\njob/two unchanged\n"
    result = windlass("apply", "-f", "-", stdin=one.replace("image: a", "image: b"))
    assert result.exit_code == 5
    assert "error: one: the spec of a job cannot change" in result.stderr


def test_apply_reads_everything_before_it_sends_anything(stub: Stub, windlass: Invoke) -> None:
    result = windlass("apply", "-f", "-", stdin="metadata: {name: good}\n---\nkind: Job\n---\n- 1\n")
    assert result.exit_code == 1
    assert "document 2: metadata.name" in result.stderr
    assert "document 3" in result.stderr
    assert stub.asked == []


def test_apply_reads_yaml_as_people_mean_it(stub: Stub, windlass: Invoke) -> None:
    windlass(
        "apply", "-f", "-", stdin="metadata: {name: a}\nspec: {env: {A: no, B: 012, C: 1:30}, resources: {cpu: 1.5}}\n"
    )
    [put] = stub.requests("PUT")
    assert put.json["spec"] == {"env": {"A": "no", "B": "012", "C": "1:30"}, "resources": {"cpu": 1.5}}


def test_describe_shows_reason_runs_events_and_the_end_of_the_output(stub: Stub, windlass: Invoke) -> None:
    run = {"id": "r1", "attempt": 1, "state": "EXITED", "node": "n1", "exitCode": 3, "reason": "ExitCode"}
    stub.jobs["a"] = ended(a_job("a", status__runs=[run]), 3)
    stub.exit_codes["a"] = 3
    stub.lines["a"] = [("stdout", f"line {i}") for i in range(40)]
    stub.happened["a"] = [
        {"revision": 4, "at": "2026-11-15T12:00:00Z", "kind": "Accepted", "reason": "", "message": ""}
    ]
    page = windlass("describe", "job", "a").output
    for part in ("a  FAILED  exit code 3", "Accepted", "n1", "line 39", "busybox"):
        assert part in page
    assert "line 24" not in page


def test_logs_keep_the_streams_apart(stub: Stub, windlass: Invoke) -> None:
    stub.jobs["a"] = a_job("a")
    stub.lines["a"] = [("stdout", "x"), ("stderr", "y")]
    result = windlass("logs", "a", "--timestamps")
    assert result.stdout == "2026-11-15T12:00:00.000000000Z x\n"
    assert result.stderr == "2026-11-15T12:00:01.000000000Z y\n"
    assert windlass("logs", "a", "--tail", "1").output == "y\n"


def test_cancel_does_the_rest_when_one_is_missing(stub: Stub, windlass: Invoke) -> None:
    stub.jobs = {"b": a_job("b")}
    result = windlass("cancel", "a", "b")
    assert result.exit_code == 3
    assert result.stdout == "job/b cancelled\n"
    assert "error: there is no job a" in result.stderr


@pytest.mark.parametrize("verb", ["cancel", "delete"])
def test_of_several_the_last_in_line_goes_first_so_that_none_takes_the_room_of_another(
    stub: Stub, windlass: Invoke, verb: str
) -> None:
    def at(name: str, second: int, **changes: Any) -> dict[str, Any]:
        return a_job(name, metadata__creationTimestamp=f"2026-11-15T12:00:{second:02}.000Z", **changes)

    stub.jobs = {
        "b0": at("b0", 0, status__state="RUNNING"),
        "b1": at("b1", 1),
        "b2": at("b2", 2),
        "first": at("first", 3, spec__priority=5),
    }
    result = windlass(verb, "b0", "b1", "gone", "b2", "first")
    sent = [asked.path.split("/")[4] for asked in stub.asked if asked.method in {"POST", "DELETE"}]
    assert sent == ["b2", "b1", "first", "b0", "gone"]
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["job/b0", "job/b1", "job/b2", "job/first"]
    assert (result.exit_code, result.stderr) == (3, "error: there is no job gone\n")


@pytest.mark.parametrize("words", [("cancel", "a", "b"), ("release", "a", "b"), ("pools", "delete", "a", "b")])
def test_a_server_that_does_not_answer_is_told_once_however_many_are_named(
    windlass: Invoke, free_port: Callable[[], int], words: tuple[str, ...]
) -> None:
    result = windlass(*words, WINDLASS_URL=f"http://127.0.0.1:{free_port()}")
    assert (result.exit_code, result.stderr.count("no Windlass server at")) == (exits.NO_SERVER, 1)


def test_apply_tells_once_that_no_server_answers_and_what_was_not_applied(
    windlass: Invoke, free_port: Callable[[], int]
) -> None:
    documents = "---\n".join(
        f"kind: {kind}\nmetadata: {{name: {kind.lower()}}}\n" for kind in ("Tenant", "Pool", "Job")
    )
    result = windlass("apply", "-f", "-", stdin=documents, WINDLASS_URL=f"http://127.0.0.1:{free_port()}")
    assert (result.exit_code, result.stdout) == (exits.NO_SERVER, "")
    assert result.stderr.count("no Windlass server at") == 1
    assert "not applied: tenant, pool, job" in result.stderr


def test_release_does_the_rest_when_one_is_missing(stub: Stub, windlass: Invoke) -> None:
    stub.jobs = {"b": a_job("b", spec__suspend=True)}
    result = windlass("release", "a", "b")
    assert (result.exit_code, result.stdout) == (3, "job/b released\n")
    assert stub.jobs["b"]["spec"]["suspend"] is False
    assert "error: there is no job a" in result.stderr


def test_a_log_that_ends_because_the_job_was_deleted_says_so(stub: Stub, windlass: Invoke) -> None:
    stub.jobs["a"] = a_job("a")
    stub.lines["a"] = [("stdout", "x")]
    uid = stub.jobs["a"]["metadata"]["uid"]
    stub.script(f"GET /api/v1/jobs/{uid}", problem(404, "not-found", "no job"))
    result = windlass("logs", "-f", "a")
    assert (result.exit_code, "the job was deleted" in result.stderr) == (3, True)
    assert windlass("logs", "-f", "absent").stderr == "error: there is no job absent\n"


def test_the_version_needs_no_server(stub: Stub, windlass: Invoke) -> None:
    result = windlass("--version")
    assert (result.output, result.exit_code) == (f"windlass {__version__}\n", 0)
    assert stub.asked == []


def test_what_o_name_prints_can_be_given_back(stub: Stub, windlass: Invoke) -> None:
    stub.jobs = {"a": a_job("a"), "b": a_job("b")}
    printed = windlass("get", "jobs", "-o", "name").output.split()
    assert sorted(printed) == ["job/a", "job/b"]
    assert sorted(windlass("get", "jobs", *printed, "-o", "name").output.split()) == ["job/a", "job/b"]
    assert windlass("describe", "job/a").exit_code == 0
    assert windlass("describe", "job", "job/a").exit_code == 0
    assert windlass("logs", "job/a").exit_code == 0
    assert windlass("cancel", "job/a").output == "job/a cancelled\n"
    assert windlass("delete", *sorted(printed)).output.splitlines() == [
        "job/a deleted; its volume stays until its TTL",
        "job/b deleted; its volume stays until its TTL",
    ]


def test_delete_names_what_happens_to_the_volume(stub: Stub, windlass: Invoke) -> None:
    stub.jobs = {"a": a_job("a"), "b": a_job("b")}
    assert windlass("delete", "a").output == "job/a deleted; its volume stays until its TTL\n"
    assert windlass("delete", "b", "--volume").output == "job/b deleted, its volume too\n"
    assert [asked.query["volume"] for asked in stub.requests("DELETE")] == [["false"], ["true"]]


def test_delete_says_of_what_still_ends_that_it_is_being_deleted(stub: Stub, windlass: Invoke) -> None:
    stub.jobs = {name: a_job(name, status__state="RUNNING") for name in ("a", "b")}
    assert windlass("delete", "a").output == "job/a is being deleted; its volume stays until its TTL\n"
    assert windlass("delete", "b", "--volume").output == "job/b is being deleted, its volume too\n"


def test_cleanup_counts_and_on_request_explains(stub: Stub, windlass: Invoke) -> None:
    stub.cleaned = {
        "deleted": 1,
        "skipped": 1,
        "items": [
            {"name": "artifacts-a", "action": "deleted", "why": "expired"},
            {"name": "b", "action": "skipped", "why": "in use"},
        ],
    }
    assert windlass("cleanup").output == "1 deleted, 1 skipped\n"
    assert "artifacts-a  deleted  expired" in windlass("cleanup", "-v").output


def test_a_job_may_ask_for_nodes_by_their_labels(stub: Stub, windlass: Invoke) -> None:
    windlass("run", "--detach", "--node-selector", "disk=ssd", "--node-selector", "zone=a", "img")
    assert stub.asked[0].json["spec"]["nodeSelector"] == {"disk": "ssd", "zone": "a"}


def test_one_of_many_is_shown_as_one(stub: Stub, windlass: Invoke) -> None:
    for name in ("a", "b"):
        stub.jobs[name] = a_job(name)
    assert "the newest one is shown; --all shows every one" in windlass("get", "jobs", "--limit", "1").stderr


def test_events_of_a_job_without_a_name_are_refused_and_not_those_of_all(stub: Stub, windlass: Invoke) -> None:
    result = windlass("events", "--job", "")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--job" in result.stderr
    assert "it is empty" in result.stderr
    assert stub.asked == []


def test_where_nothing_has_happened_yet_events_say_so_beside_what_machines_read(stub: Stub, windlass: Invoke) -> None:
    result = windlass("events")
    assert (result.exit_code, result.stdout, result.stderr.strip()) == (0, "", "nothing yet")
    assert windlass("events", "-o", "json").stdout == ""
    assert all("job" not in asked.query for asked in stub.asked)


def test_events_are_all_of_them_or_the_newest_so_many_and_not_both(stub: Stub, windlass: Invoke) -> None:
    result = windlass("events", "--all", "--last", "3")
    assert result.exit_code == 2
    assert "--all shows everything that is kept, --last the newest so many: give one of them" in result.stderr
    assert stub.asked == []
