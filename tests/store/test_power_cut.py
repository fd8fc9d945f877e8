"""Acknowledged means on disk: power cuts and kills, then a look at what is left (R-01)."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from windlass.adapters.store.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
CUTS = 30
COMMITS = 10_000


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("power")
    seed = random.randrange(1 << 32)
    command = [sys.executable, "-m", "tests.store.power_cut", str(directory), str(seed), str(CUTS), str(COMMITS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["acknowledged"] >= COMMITS
    images = sorted(directory.glob("cut-*"))
    assert len(images) == CUTS, f"seed {seed}"
    return images


def test_every_image_of_a_power_cut_is_a_sound_database(images: list[Path]) -> None:
    for image in images:
        connection = apsw.Connection(str(image / "store.db"))
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], image
        connection.close()


@pytest.mark.anyio
async def test_every_acknowledged_commit_survives_a_power_cut_at_its_revision(images: list[Path]) -> None:
    checked = 0
    for image in images:
        acknowledged = json.loads((image / "acknowledged.json").read_text())
        revisions = await revisions_by_key(image / "store.db")
        missing = [(revision, key) for revision, key in acknowledged if revisions.get(key) != revision]
        assert missing == [], image
        checked += len(acknowledged)
    assert checked >= COMMITS


@pytest.mark.anyio
async def test_every_acknowledged_commit_survives_a_kill_of_the_process(tmp_path: Path) -> None:
    acknowledged: dict[str, int] = {}
    for round_number in range(10):
        command = [sys.executable, "-m", "tests.store.committing", str(tmp_path / "store.db"), str(round_number)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            wanted = random.randint(1, 3_000)
            for line in process.stdout:
                revision, key = line.split()
                acknowledged[key] = int(revision)
                wanted -= 1
                if wanted == 0:
                    os.kill(process.pid, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        assert wanted <= 0
    revisions = await revisions_by_key(tmp_path / "store.db")
    assert {key: revisions.get(key) for key in acknowledged} == acknowledged


async def revisions_by_key(path: Path) -> dict[str, int]:
    """What the store holds, read the way its users do; its history must be whole up to the newest revision."""
    async with SqliteStore.open(path) as store:
        snapshot = await store.range("/")
        heard: list[int] = []
        if snapshot.revision:
            async with store.watch(after=0) as changes:
                while not heard or heard[-1] < snapshot.revision:
                    heard.append((await anext(changes))[0].revision)
        assert heard == list(range(1, snapshot.revision + 1))
        assert all(item.modified <= snapshot.revision for item in snapshot.items)
        return {item.key: item.modified for item in snapshot.items}
