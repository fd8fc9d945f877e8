"""A stranger with a fresh clone: `make up`, then what it says to try, then the README's first commands, then nothing is left."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.docs.shell import run_block
from tests.parts.dockerd import DockerEngine
from tests.parts.process import ServerProcess
from windlass.adapters.runtime.docker.finding import usual_places

SETUP_SECONDS = 900
"""Packages come over the network, once."""

pytestmark = pytest.mark.timeout(SETUP_SECONDS + 300)


class FreshClone(ServerProcess):
    """`make up` in a clone of what is committed, by somebody with an empty home and an engine that programs find."""

    name = "clone"
    ready_deadline_seconds = SETUP_SECONDS

    def __init__(self, engine: DockerEngine) -> None:
        super().__init__()
        self.clone = self.directory / "windlass"
        self.home = self.directory / "home"
        self._engine = engine

    @property
    def data(self) -> Path:
        return self.home / ".local" / "share" / "windlass"

    def prepare(self) -> None:
        self.home.mkdir()
        subprocess.run(["git", "clone", "--quiet", f"file://{ROOT}", str(self.clone)], check=True)

    def command(self) -> list[str]:
        return ["make", "--no-print-directory", "--directory", str(self.clone), "up", "ARGS=--port 0"]

    def environment(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("WINDLASS_", "XDG_", "VIRTUAL_"))
        }
        return {**kept, "PATH": _without_ours(os.environ["PATH"]), **_where_packages_come_from(), **self.stranger()}

    def stranger(self) -> dict[str, str]:
        return {"HOME": str(self.home), "DOCKER_HOST": self._engine.host}

    def is_ready(self) -> bool:
        return "Ctrl-C stops" in self.said()

    def said(self) -> str:
        return self.log.read_text()

    def stop(self) -> None:
        """make and the server below it are one job of the terminal; `down` ends the server, and make with it."""
        if self.is_running and self.data.exists():
            self.windlass("down", "--purge", "--yes")
        super().stop()

    def windlass(self, *words: str) -> str:
        command = [str(self.clone / ".venv/bin/windlass"), *words]
        return subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, timeout=600, check=True
        ).stdout


class WithoutEngine(FreshClone):
    """`make up` once more in a clone that is set up, by somebody else, where no engine is to be found."""

    def __init__(self, first: FreshClone) -> None:
        super().__init__(first._engine)
        self.clone = first.clone

    def prepare(self) -> None:
        self.home.mkdir()

    def environment(self) -> dict[str, str]:
        return {name: value for name, value in super().environment().items() if name != "DOCKER_HOST"}


@pytest.fixture(scope="module")
def clone(engine: DockerEngine) -> Iterator[FreshClone]:
    with FreshClone(engine) as one:
        yield one


def test_the_first_commands_of_the_readme_do_what_it_shows(clone: FreshClone, tmp_path: Path) -> None:
    page = clone.clone / "README.md"
    path = f"{clone.clone / '.venv/bin'}:{clone.environment()['PATH']}"
    tried = [block for block in blocks(page) if block.mark == "run"]
    assert tried
    for block in tried:
        run_block(block, directory=tmp_path, environ={"PATH": path, "WINDLASS_DATA_DIR": str(clone.data)})


def test_what_it_says_to_try_works_as_it_is_printed(clone: FreshClone) -> None:
    suggested = re.search(r"Try, in another terminal:\n((?:  .+\n)+)", clone.said())
    assert suggested is not None
    assert "runs on  docker" in clone.said()
    done = subprocess.run(
        ["bash", "-e", "-c", suggested[1]], env=clone.environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("hello\n")
    assert "SUCCEEDED" in done.stdout


def test_only_the_virtual_environment_was_made_and_purging_leaves_nothing(
    clone: FreshClone, engine: DockerEngine
) -> None:
    status = subprocess.run(
        ["git", "-C", clone.clone, "status", "--porcelain"], capture_output=True, text=True, check=True
    )
    assert status.stdout == ""
    installation = (clone.data / "installation.json").read_text().split('"')[3]
    clone.windlass("down", "--purge", "--yes")
    assert not clone.data.exists()
    assert installation not in str(engine.ask("/volumes"))
    assert installation not in str(engine.containers())


def test_where_no_engine_answers_it_runs_plain_processes_and_says_so_loudly(clone: FreshClone) -> None:
    usual = [place for place in usual_places({}) if Path(place.removeprefix("unix://")).exists()]
    if usual:
        pytest.skip(f"this machine has an engine of its own at {', '.join(usual)}")
    with WithoutEngine(clone) as alone:
        assert "NO CONTAINERS: jobs run as plain processes of yours" in alone.said()
        suggested = re.search(r"Try, in another terminal:\n((?:  .+\n)+)", alone.said())
        assert suggested is not None
        done = subprocess.run(
            ["bash", "-e", "-c", suggested[1]], env=alone.environment(), capture_output=True, text=True, timeout=120
        )
        assert (done.stdout.startswith("hello\n"), done.returncode) == (True, 0), done.stderr


def _without_ours(path: str) -> str:
    return ":".join(part for part in path.split(":") if not part.startswith(str(ROOT)))


def _where_packages_come_from() -> dict[str, str]:
    """pip's own settings and cache, which an empty home would hide."""
    home = Path.home()
    found = {"PIP_CACHE_DIR": str(home / ".cache" / "pip")}
    for config in (home / ".config" / "pip" / "pip.conf", home / ".pip" / "pip.conf"):
        if config.exists():
            found["PIP_CONFIG_FILE"] = str(config)
    return {**found, **{name: value for name, value in os.environ.items() if name.startswith("PIP_")}}
