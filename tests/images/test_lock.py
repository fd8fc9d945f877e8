"""One run at a time; whatever ends a run frees the lock."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.waiting import wait_for
from windlass.images.errors import ImageSyncError
from windlass.images.lock import default_lock_path, sync_lock

HOLDER = """
import signal, sys
from pathlib import Path
from windlass.images.lock import sync_lock
with sync_lock(Path(sys.argv[1])):
    print("held", flush=True)
    signal.pause()
"""


def test_a_second_run_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    with sync_lock(tmp_path / "lock"), pytest.raises(ImageSyncError, match=rf"pid {os.getpid()}") as refused:
        with sync_lock(tmp_path / "lock"):
            pass
    assert refused.value.code == "lock.held"


def test_kill_9_leaves_nothing_that_blocks_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ImageSyncError), sync_lock(path):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        holder.stdout.close()  # type: ignore[union-attr]
    assert path.exists()
    wait_for(lambda: _can_lock(path), 5, "the lock to be free")


def test_the_lock_file_is_never_reached_through_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep")
    (tmp_path / "lock").symlink_to(precious)
    with pytest.raises(ImageSyncError) as refused, sync_lock(tmp_path / "lock"):
        pass
    assert refused.value.code == "lock.unusable"
    assert precious.read_text() == "keep"


def test_two_configurations_do_not_wait_for_each_other(tmp_path: Path) -> None:
    environment = {"XDG_RUNTIME_DIR": str(tmp_path)}
    one = default_lock_path(tmp_path / "a.conf", environment)
    assert one.parent == tmp_path
    assert one == default_lock_path(tmp_path / "a.conf", environment)
    assert one != default_lock_path(tmp_path / "b.conf", environment)


def _can_lock(path: Path) -> bool:
    try:
        with sync_lock(path):
            return True
    except ImageSyncError:
        return False
