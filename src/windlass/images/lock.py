"""One image-sync at a time per LOG_DIR: an flock, which the kernel frees however the holder ends.

All runs of one configuration log to one directory, whoever starts them, so that is where they meet: the lock depends on
no environment variable and no user. The file goes with the run; after kill -9 it stays, and blocks nobody.
"""

import contextlib
import fcntl
import os
import re
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from windlass.images.errors import ImageSyncError
from windlass.images.files import open_shared
from windlass.images.text import clean

NAME: Final = "image-sync.lock"
_HOLDER: Final = re.compile(r"pid [0-9]{1,10} on \S{1,64} since [0-9T:+-]{19,25}", re.ASCII)
_TRIES: Final = 20
"""Each lost one means that another run ended just then and took its file along."""


@contextlib.contextmanager
def sync_lock(path: Path, *, since: datetime) -> Iterator[None]:
    """Hold the lock, or raise at once and say who does."""
    fd = _hold(path)
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"pid {os.getpid()} on {socket.gethostname()} since {since:%Y-%m-%dT%H:%M:%S%z}\n".encode(), 0)
        yield
    finally:
        # Before it is freed: afterwards the file may be the next run's. In a sticky directory another's file stays.
        with contextlib.suppress(OSError):
            if _is_still(fd, path):
                os.unlink(path)
        os.close(fd)


def _hold(path: Path) -> int:
    for _ in range(_TRIES):
        fd = _open(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _holder(fd)
            os.close(fd)
            raise ImageSyncError(
                "lock.held",
                f"another image-sync is running{f' ({holder})' if holder else ''}",
                where=str(path),
                next_step="Wait for it to end; nothing was done",
            ) from error
        except OSError as error:
            os.close(fd)
            raise _unusable(path, f"no lock to be had there: {error.strerror}") from error
        if _is_still(fd, path):
            return fd
        os.close(fd)
    raise _unusable(path, "the file changes all the time")


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open_shared(path, os.O_RDWR, mode=0o600)
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from error


def _is_still(fd: int, path: Path) -> bool:
    """Does the name still mean the file we hold? Its last holder may have removed it after we opened it."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _holder(fd: int) -> str:
    """As the holder wrote it; nothing when it has not come to it yet, or the text is no such line."""
    line = clean(os.pread(fd, 200, 0).decode("ascii", "replace"), 150)
    return line if _HOLDER.fullmatch(line) else ""


def _unusable(path: Path, what: str) -> ImageSyncError:
    step = (
        "Every run of these settings takes its lock in their LOG_DIR and must be able to write there; else --lock-file"
    )
    return ImageSyncError("lock.unusable", what, where=str(path), next_step=step)
