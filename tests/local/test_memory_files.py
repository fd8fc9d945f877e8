"""Secret files on a node: in memory or not at all, for one user, and never in a place that somebody else prepared."""

import os
import stat
from pathlib import Path

import pytest

from windlass.adapters.secrets import memory_files
from windlass.adapters.secrets.memory_files import MemoryFiles
from windlass.core.errors import Conflict, Invalid
from windlass.core.model.ids import RunId
from windlass.ports.runtime import StartFailed

SHM = Path("/dev/shm")
RUN = RunId("run-1")


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"test-{os.getpid()}-{abs(hash(request.node.name)) % 10**9}"


def test_files_are_their_owners_alone_and_replaced_whole(name: str) -> None:
    files = MemoryFiles(name, roots=[SHM])
    try:
        files.put(RUN, [("a", b"old"), ("b", b"gone")], user=os.geteuid(), group=os.getegid())
        path = files.put(RUN, [("a", b"new"), ("c", b"\0\xff")], user=os.geteuid(), group=os.getegid())
        assert {one.name: one.read_bytes() for one in path.iterdir()} == {"a": b"new", "c": b"\0\xff"}
        assert {stat.S_IMODE(one.stat().st_mode) for one in path.iterdir()} == {0o400}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        files.drop(RunId("another"))
        files.drop(RUN)
        assert not path.exists()
        files.drop(RUN)
    finally:
        files.drop_all()
    assert not (SHM / f"windlass-{name}").exists()


def test_without_a_tmpfs_nothing_is_written(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts, disk = tmp_path / "mounts", tmp_path / "disk"
    mounts.write_text(f"tmpfs / tmpfs rw 0 0\n/dev/sda {disk} ext4 rw 0 0\n")
    disk.mkdir()
    monkeypatch.setattr(memory_files, "_MOUNTS", mounts)
    with pytest.raises(StartFailed) as refused:
        MemoryFiles(name, roots=[disk, disk / "absent"]).put(RUN, [("a", b"canary")], user=0, group=0)
    assert "no tmpfs" in refused.value.message
    assert not (disk / f"windlass-{name}").exists()


def test_a_place_that_somebody_else_prepared_is_not_used(name: str, tmp_path: Path) -> None:
    bait = SHM / f"windlass-{name}"
    bait.symlink_to(tmp_path)
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / "precious").write_text("stays")
    files = MemoryFiles(name, roots=[SHM])
    try:
        with pytest.raises(Conflict):
            files.put(RUN, [("a", b"canary")], user=0, group=0)
        files.drop(RUN)
        files.drop_all()
        assert [path.name for path in (tmp_path / RUN).iterdir()] == ["precious"]
    finally:
        bait.unlink()


@pytest.mark.parametrize("run", ["", "..", "../x", "a/b", "a\0", "x" * 200])
def test_what_is_no_runs_id_names_no_directory(name: str, run: str) -> None:
    files = MemoryFiles(name, roots=[SHM])
    try:
        with pytest.raises(Invalid):
            files.put(RunId(run), [("a", b"canary")], user=0, group=0)
    finally:
        files.drop_all()
