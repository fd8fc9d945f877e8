"""Where it may be run: streams that are closed, that take few characters, and terminals that cannot be drawn on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Invoke
from tests.cli.stub import Stub, a_job

from windlass.cli import exits

PROGRAM = "from windlass.cli.app import build; build({})()"
TENANT = {
    "metadata": {"name": "猫-vision"},
    "spec": {"tier": "free", "policy": "queue", "quota": {}},
    "status": {"held": {"cpu": "0", "memory": "0", "gpu": 0}, "weight": 1, "runs": 0, "queued": 0},
}


def run(stub: Stub, *words: str, line: str = '"$@"', **environ: str) -> subprocess.CompletedProcess[bytes]:
    command = ["sh", "-c", line, "sh", sys.executable, "-c", PROGRAM, *words]
    environment = {"PATH": os.environ["PATH"], "WINDLASS_URL": stub.url, "WINDLASS_TOKEN": "t0ken", **environ}
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def test_a_closed_output_is_no_fault_of_ours(stub: Stub) -> None:
    stub.jobs["a"] = a_job("a")
    done = run(stub, "get", "jobs", line='"$@" >&-')
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("encoding", ["latin-1", "iso8859-15", "cp1252", "koi8-r"])
def test_characters_that_cannot_be_written_have_a_stand_in(stub: Stub, encoding: str) -> None:
    stub.script("GET /api/v1/tenants", *[(200, {"items": [TENANT], "next": None, "revision": 7})] * 2)
    done = run(stub, "tenants", "list", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert b"\\u732b-vision" in done.stdout
    assert b"0 of -" in done.stdout
    again = run(stub, "tenants", "list", "-o", "json", PYTHONIOENCODING=encoding)
    assert json.loads(again.stdout)["items"][0]["metadata"]["name"] == "猫-vision", "escaped as JSON escapes"


def test_a_plain_locale_gets_utf8_as_python_does(stub: Stub) -> None:
    stub.script("GET /api/v1/tenants", (200, {"items": [TENANT], "next": None, "revision": 7}))
    done = run(stub, "tenants", "list", LC_ALL="C")
    assert "0 of ∞" in done.stdout.decode()


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_none_is_wanted(stub: Stub, environ: dict[str, str], tmp_path: Path) -> None:
    """`script` gives it a terminal."""
    shown = tmp_path / "shown"
    line = f"script -qec \"$1 -c '{PROGRAM}' get job nothere\" {shown} >/dev/null"
    done = run(stub, line=line, **environ)
    assert done.returncode == exits.NOT_FOUND
    assert b"error: " in shown.read_bytes()
    assert b"\x1b[" not in shown.read_bytes()


@pytest.mark.parametrize("kind", ["node", "volume"])
def test_a_name_that_is_not_there_is_said_and_has_its_exit_code(stub: Stub, windlass: Invoke, kind: str) -> None:
    result = windlass("get", kind, "nothere")
    assert result.exit_code == exits.NOT_FOUND
    assert result.stderr == f"error: no {kind} 'nothere'\nhint: `windlass get {kind}s` lists them\n"


@pytest.mark.parametrize("window", ["0", "61m", "2h"])
def test_a_window_that_is_too_long_is_refused_in_the_words_of_the_help(
    stub: Stub, windlass: Invoke, window: str
) -> None:
    result = windlass("fairness", "--window", window)
    assert (result.exit_code, stub.asked) == (exits.USAGE, [])
    assert "up to 1h" in result.stderr
