"""The examples beyond their pages: also where there are no containers; the demo, from beginning to end, leaving nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.conftest import variables
from tests.docs.markdown import ROOT, blocks
from tests.e2e.server import WindlassServer
from tests.parts.dockerd import DockerEngine

EXAMPLES = ROOT / "examples"


def test_every_example_has_a_page_that_is_run_and_is_listed() -> None:
    numbered = sorted(path for path in EXAMPLES.iterdir() if path.name[:2].isdigit())
    assert [path.name[:2] for path in numbered] == [f"{n:02}" for n in range(1, len(numbered) + 1)]
    listed = (EXAMPLES / "README.md").read_text()
    for example in numbered:
        assert any(block.mark == "run" for block in blocks(example / "README.md")), example.name
        assert f"({example.name}/README.md)" in listed


@pytest.mark.parametrize(
    ("script", "words", "last"),
    [
        ("05-parallel/submit.py", (), "1² + 2² + … + 20² = 2870"),
        ("06-webhook/told.py", ("--", "sh", "-c", "exit 4"), "job.over: FAILED, exit code 4"),
        ("07-python-client/main.py", (), "refused with ['spec.retries: "),
    ],
)
def test_a_script_also_works_on_plain_processes(
    script: str, words: tuple[str, ...], last: str, process_server: WindlassServer
) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *words],
        env={**os.environ, **variables(process_server)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(last), done.stdout


@pytest.mark.parametrize("kind", ["process", "docker"])
def test_the_demo_runs_to_its_end_and_leaves_nothing(kind: str, engine: DockerEngine, tmp_path: Path) -> None:
    volumes = _volumes(engine)
    flags = ("--image", "busybox") if kind == "docker" else ()
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", *flags],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path), "DOCKER_HOST": engine.host, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    for told in (
        "hello\n",
        "5050\n",
        "row 17: not a number\n",
        "exit code 3\n",
        "steady  RUNNING",
        "steady CANCELLED",
        "tick",
    ):
        assert told in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert _volumes(engine) == volumes
    assert not [process for process in _commands() if str(tmp_path) in process]


def _volumes(engine: DockerEngine) -> set[str]:
    return {volume["Name"] for volume in engine.ask("/volumes")["Volumes"] or ()}


def _commands() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it ended meanwhile
    return found
