"""Completion in a real bash: verbs, options, and the names of jobs from the server."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.stub import Stub, a_job

ASK = """
eval "$(windlass completion bash)"
COMP_WORDS=({words}); COMP_CWORD={index}
_windlass_completion windlass
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def bin_dir(tmp_path: Path) -> Path:
    """A `windlass` on the PATH, as an installation would put it there."""
    path = tmp_path / "bin"
    path.mkdir()
    script = path / "windlass"
    script.write_text(f"#!{sys.executable}\nfrom windlass.cli.app import build\nbuild({{}})()\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return path


def complete(bin_dir: Path, url: str, *words: str) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in ("windlass", *words))
    environ = {**os.environ, "PATH": f"{bin_dir}:{os.environ['PATH']}", "WINDLASS_URL": url, "WINDLASS_TOKEN": "t"}
    script = ASK.format(words=quoted, index=len(words))
    done = subprocess.run(["bash", "--norc", "-c", script], env=environ, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_verbs_options_and_names_are_completed(stub: Stub, bin_dir: Path) -> None:
    stub.jobs = {name: a_job(name) for name in ("train-a", "train-b", "other")}
    assert complete(bin_dir, stub.url, "desc") == ["describe"]
    assert complete(bin_dir, stub.url, "logs", "--time") == ["--timestamps"]
    assert complete(bin_dir, stub.url, "logs", "train") == ["train-a", "train-b"]
    assert complete(bin_dir, stub.url, "get", "jobs", "o") == ["other"]


def test_a_server_that_does_not_answer_completes_to_nothing(bin_dir: Path, free_port: Callable[[], int]) -> None:
    assert complete(bin_dir, f"http://127.0.0.1:{free_port()}", "logs", "") == []


@pytest.mark.parametrize(
    ("shell", "mark"), [("zsh", "#compdef windlass"), ("fish", "complete --no-files --command windlass")]
)
def test_the_other_shells_get_their_script(bin_dir: Path, shell: str, mark: str) -> None:
    done = subprocess.run([bin_dir / "windlass", "completion", shell], capture_output=True, text=True, timeout=240)
    assert mark in done.stdout
