"""Files that runs of several users share: cron's, root's, a login shell's. The logs and the lock are opened here.

Whoever may write into the directory may write its files, and nobody else: a new file is as writable as its directory, and
what root makes belongs to the directory's owner. So a run by hand never locks out tonight's cron.
"""

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

_SAFE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def open_shared(path: Path, flags: int, *, mode: int) -> int:
    """Open, or make with at least `mode`. The directory may be one that others write to, so: never through a link, never a
    file that has a second name elsewhere, never a pipe or a device. `OSError` says which."""
    fd = _existing_or_new(path, flags | _SAFE, mode)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(fd)
        raise OSError(0, "no plain file with one name", str(path))
    return fd


def _existing_or_new(path: Path, flags: int, mode: int) -> int:
    """Not with a plain O_CREAT: in a sticky directory the kernel then refuses files of others, also to root."""
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return os.open(path, flags)
    _as_its_directory(fd, path.parent, mode)
    return fd


def _as_its_directory(fd: int, directory: Path, mode: int) -> None:
    """Where it cannot be had (another owner's file system), the file is still ours and good for this run."""
    with contextlib.suppress(OSError):
        around = os.stat(directory)
        shared = (0o060 if around.st_mode & stat.S_IWGRP else 0) | (0o006 if around.st_mode & stat.S_IWOTH else 0)
        if os.geteuid() == 0:
            os.fchown(fd, around.st_uid, around.st_gid)
        os.fchmod(fd, mode | shared)
