"""One run at a time for one LOG_DIR, whoever starts it; whatever ends a run frees the lock."""

import contextlib
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.parts.waiting import wait_for
from windlass.images import lock
from windlass.images.errors import ImageSyncError

NOW = datetime(2026, 3, 2, 2, 30, tzinfo=UTC)
HOLDER = """
import signal, sys
from datetime import UTC, datetime
from pathlib import Path
from windlass.images.lock import sync_lock
with sync_lock(Path(sys.argv[1]), since=datetime(2026, 3, 2, 2, 30, tzinfo=UTC)):
    print("held", flush=True)
    signal.pause()
"""
NOBODY = pwd.getpwnam("nobody")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be several users")


def sync_lock(path: Path) -> contextlib.AbstractContextManager[None]:
    return lock.sync_lock(path, since=NOW)


def test_a_second_run_is_told_who_holds_the_lock_and_since_when(tmp_path: Path) -> None:
    with sync_lock(tmp_path / "lock"), pytest.raises(ImageSyncError) as refused:
        with sync_lock(tmp_path / "lock"):
            pass
    assert refused.value.code == "lock.held"
    assert f"(pid {os.getpid()} on {os.uname().nodename} since 2026-03-02T02:30:00+0000)" in str(refused.value)


def test_the_file_goes_with_the_run(tmp_path: Path) -> None:
    with sync_lock(tmp_path / "lock"):
        assert (tmp_path / "lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_kill_9_leaves_nothing_that_blocks_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = a_holder(path)
    assert not can_lock(path)
    holder.kill()
    holder.wait(120)
    assert path.exists()
    wait_for(lambda: can_lock(path), 120, "the lock to be free")


def test_a_run_whose_file_was_removed_by_hand_does_not_take_its_successors_along(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with sync_lock(path):
        path.unlink()
        path.write_text("the next run's")
    assert path.read_text() == "the next run's"


def test_a_text_that_no_holder_wrote_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with sync_lock(path):
        path.write_text("\x1b[31mpid 1 rm -rf\n")
        with pytest.raises(ImageSyncError) as refused, sync_lock(path):
            pass
    assert "another image-sync is running." in str(refused.value)


def a_link(path: Path, precious: Path) -> None:
    path.symlink_to(precious)


def a_second_name(path: Path, precious: Path) -> None:
    path.hardlink_to(precious)


def a_pipe(path: Path, precious: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [a_link, a_second_name, a_pipe])
def test_what_somebody_planted_in_its_place_is_neither_written_to_nor_waited_for(
    plant: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep")
    plant(tmp_path / "lock", precious)
    with pytest.raises(ImageSyncError) as refused, sync_lock(tmp_path / "lock"):
        pass
    assert refused.value.code == "lock.unusable"
    assert precious.read_text() == "keep"


@as_root
def test_root_and_the_owner_of_the_directory_meet_in_one_lock(open_directory: Path) -> None:
    """What root leaves behind after kill -9 does not lock out the user that cron runs it as."""
    path = open_directory / "lock"
    os.chown(open_directory, NOBODY.pw_uid, NOBODY.pw_gid)
    held = a_holder(path)
    assert as_nobody(path) == "lock.held"
    held.kill()
    held.wait(120)
    assert path.stat().st_uid == NOBODY.pw_uid
    wait_for(lambda: as_nobody(path) == "held", 120, "the lock to be free")
    assert not path.exists()


@as_root
@pytest.mark.parametrize(("directory", "file"), [(0o755, 0o600), (0o775, 0o660), (0o1777, 0o666)])
def test_who_may_write_to_the_directory_may_take_the_lock_and_nobody_else(
    directory: int, file: int, open_directory: Path
) -> None:
    open_directory.chmod(directory)
    with sync_lock(open_directory / "lock"):
        assert stat.S_IMODE((open_directory / "lock").stat().st_mode) == file
        answer = as_nobody(open_directory / "lock")
    assert answer == ("lock.held" if directory & 0o002 else "lock.unusable")


@pytest.fixture
def open_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One that other users can reach: pytest's own folders are closed to them."""
    path = Path("/tmp") / f"wl-lock-{os.getpid()}-{tmp_path_factory.mktemp('n').name}"
    path.mkdir(mode=0o755)
    yield path
    for entry in path.iterdir():
        entry.unlink()
    path.rmdir()


def a_holder(path: Path) -> "subprocess.Popen[bytes]":
    """A process that has taken the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"held\n"
    return process


def as_nobody(path: Path) -> str:
    """`held`, or the code of the refusal. A fork without exec: another user may not be able to reach our Python."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY.pw_gid)
        os.setuid(NOBODY.pw_uid)
        try:
            with sync_lock(path):
                answer = "held"
        except ImageSyncError as refused:
            answer = refused.code
        os.write(theirs, answer.encode())
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer


def can_lock(path: Path) -> bool:
    try:
        with sync_lock(path):
            return True
    except ImageSyncError:
        return False
