"""The time to the first line is mostly imports: the ones that cost must not be on the way of the quick verbs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.stub import Stub, a_job

HEAVY = (
    "rich",
    "pydantic",
    "asyncio",
    "fastapi",
    "starlette",
    "yaml",
    "websockets",
    "httpx2",
    "tarfile",
    "anyio",
    "http.client",
    "ssl",
    "email",
)
PROBE = f"""
import sys
from windlass.cli.app import build
try:
    build({{"up": "windlass.boot.up:command"}})(sys.argv[1:])
except SystemExit as exc:
    assert not exc.code, exc.code
print("HEAVY", *sorted(set({HEAVY!r}) & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "words",
    [
        ("get", "jobs"),
        ("get", "job", "a", "-o", "json"),
        ("logs", "a"),
        ("--help",),
        ("cancel", "a"),
        ("describe", "a"),
    ],
)
def test_quick_verbs_import_nothing_heavy(stub: Stub, tmp_path: Path, words: tuple[str, ...]) -> None:
    stub.jobs["a"] = a_job("a")
    environ = {**os.environ, "WINDLASS_URL": stub.url, "WINDLASS_DATA_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], env=environ, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "HEAVY"
