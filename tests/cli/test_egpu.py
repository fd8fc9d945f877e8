"""`egpu` with its own verbs and flags, against a stub server."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.conftest import Invoke
from tests.cli.stub import Stub, a_job, ended, problem

from windlass.cli.egpu.app import build


@pytest.fixture
def egpu(stub: Stub, tmp_path: Path) -> Invoke:
    def invoke(*args: str) -> Result:
        environ = {"WINDLASS_URL": stub.url, "WINDLASS_TOKEN": "t", "WINDLASS_DATA_DIR": str(tmp_path / "none")}
        return CliRunner().invoke(build(), list(args), env=environ)

    return invoke


def test_create_sends_the_preset_and_only_creates(stub: Stub, egpu: Invoke) -> None:
    result = egpu(
        "create", "cat", "--model", "mobilenet_v3_small", "--gpu", "0", "--cpu", "2", "--memory", "2Gi", "--timeout", "90",
        "--retries", "1", "--ttl", "10", "--pvc-ttl", "1d", "--input", "/artifacts/cat.jpg", "--output", "/artifacts/o.json",
        "--image", "mine", "--", "python", "x.py",
    )  # fmt: skip
    assert result.output == "cat created\n"
    [create] = stub.asked
    assert create.json == {
        "apiVersion": "windlass.dev/v1",
        "kind": "EphemeralAccelerationJob",
        "metadata": {"name": "cat"},
        "spec": {
            "image": "mine",
            "command": ["python", "x.py"],
            "model": "mobilenet_v3_small",
            "input": {"path": "/artifacts/cat.jpg"},
            "output": {"path": "/artifacts/o.json"},
            "timeoutSeconds": 90,
            "retries": 1,
            "ttlSecondsAfterFinished": 10,
            "pvcTTLSecondsAfterFinished": 86_400,
            "resources": {"cpu": "2", "memory": "2Gi", "gpu": 0},
        },
    }


def test_create_with_a_project_uploads_releases_and_watches_to_the_end(
    stub: Stub, egpu: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "input.jpg").write_bytes(b"jpeg")
    stub.lines["cat"] = [("stdout", "device: cpu")]
    stub.exit_codes["cat"] = 4
    result = egpu("create", "cat", "--project-dir", str(tmp_path))
    assert result.stdout == "device: cpu\n"
    assert result.stderr.startswith("cat created\n")
    assert result.exit_code == 4
    order = [f"{asked.method} {asked.path.rpartition('/')[2]}" for asked in stub.asked]
    assert order[:4] == ["POST jobs", "PUT artifacts", "POST release", "GET logs"]


def test_the_refusal_where_there_is_no_gpu_is_shown_as_the_server_says_it(stub: Stub, egpu: Invoke) -> None:
    stub.script("POST", problem(400, "no-gpu", "no node has a GPU", hint="run it on the CPU: --gpu 0"))
    result = egpu("create", "cat")
    assert result.exit_code == 1
    assert result.stderr == "error: no node has a GPU\nhint: run it on the CPU: --gpu 0\n"


def test_copy_file_names_target_size_and_digest(stub: Stub, egpu: Invoke) -> None:
    result = egpu("copy-file", "cat", "https://example.com/cat.jpg")
    assert result.output == "/artifacts/input.jpg in artifacts-cat: 3 B, sha256:ab\n"
    [asked] = stub.asked
    assert asked.json == {"url": "https://example.com/cat.jpg", "targetPath": "/artifacts/input.jpg"}


def test_get_and_list(stub: Stub, egpu: Invoke) -> None:
    stub.jobs["cat"] = ended(
        a_job("cat", kind="EphemeralAccelerationJob", spec__model="resnet50", status__podName="p-1")
    )
    assert egpu("get", "cat").output.splitlines()[0].split() == [
        "NAME",
        "PHASE",
        "MODEL",
        "GPU",
        "AGE",
        "RAN",
        "DETAIL",
    ]
    assert "p-1" in egpu("get", "cat", "-o", "wide").output
    assert json.loads(egpu("get", "cat", "-o", "json").output) == stub.jobs["cat"]
    assert "Succeeded" in egpu("list").output
    assert stub.asked[-1].query["kind"] == ["EphemeralAccelerationJob"]


def test_delete_with_and_without_its_volume(stub: Stub, egpu: Invoke) -> None:
    stub.jobs = {"a": a_job("a"), "b": a_job("b")}
    egpu("delete", "a")
    egpu("delete", "b", "--delete-pvc")
    assert [asked.query["volume"] for asked in stub.asked] == [["false"], ["true"]]


def test_cleanup_prints_the_two_counts(stub: Stub, egpu: Invoke) -> None:
    stub.cleaned = {"deleted": 2, "skipped": 5, "items": []}
    assert egpu("cleanup").output == "2 deleted, 5 skipped\n"


def test_watch_prints_what_happens_until_the_end(stub: Stub, egpu: Invoke) -> None:
    stub.jobs["cat"] = ended(a_job("cat"))
    stub.happened["cat"] = [{"revision": 1, "at": "2026-11-15T12:00:00Z", "kind": "Running", "node": "n1"}]
    result = egpu("watch", "cat")
    assert "Running    on n1" in result.stdout
    assert "cat SUCCEEDED after 3.2s" in result.stderr


def test_watch_of_a_job_that_is_over_prints_all_that_happened(stub: Stub, egpu: Invoke) -> None:
    stub.jobs["cat"] = ended(a_job("cat"))
    kinds = ("Accepted", "Scheduled", "Running", "Succeeded")
    stub.happened["cat"] = [
        {"revision": at, "at": "2026-11-15T12:00:00Z", "kind": kind} for at, kind in enumerate(kinds, start=1)
    ]
    result = egpu("watch", "cat")
    assert [line.split()[-1] for line in result.stdout.splitlines()] == list(kinds)
    assert "cat SUCCEEDED after 3.2s" in result.stderr


def test_logs_cancel_and_the_help_are_there(stub: Stub, egpu: Invoke) -> None:
    stub.jobs["cat"] = a_job("cat")
    stub.lines["cat"] = [("stdout", "meow")]
    assert egpu("logs", "-f", "cat").output == "meow\n"
    stub.jobs["cat"] = a_job("cat")
    assert egpu("cancel", "cat").output == "job/cat cancelled\n"
    listed = egpu("--help").output
    for verb in (
        "create",
        "copy-file",
        "get",
        "list",
        "watch",
        "logs",
        "cancel",
        "download",
        "debug",
        "delete",
        "cleanup",
    ):
        assert f"  {verb} " in listed
