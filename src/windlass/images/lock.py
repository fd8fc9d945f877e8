"""One image-sync at a time per configuration: an flock, which the kernel frees however the holder ends.

The file stays; only the lock on it counts, so kill -9 leaves nothing that blocks the next run.
"""

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from windlass.images.errors import ImageSyncError
from windlass.images.text import clean


def default_lock_path(config: Path | None, environment: Mapping[str, str]) -> Path:
    """By configuration file, so that two clusters driven from one machine do not wait for each other."""
    if chosen := environment.get("IMAGE_SYNC_LOCK"):
        return Path(chosen)
    identity = str(config.resolve()) if config else "command line"
    name = f"image-sync-{os.getuid()}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.lock"
    homes = (environment.get("XDG_RUNTIME_DIR"), "/run/lock", environment.get("TMPDIR"), "/tmp")  # noqa: S108 - see _open
    usable = (Path(home) for home in homes if home and os.access(home, os.W_OK | os.X_OK))
    return next(usable, Path.cwd()) / name


@contextlib.contextmanager
def sync_lock(path: Path) -> Iterator[None]:
    """Hold the lock, or raise at once."""
    fd = _open(path)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = clean(os.pread(fd, 64, 0).decode("ascii", "replace"), 20)
            raise ImageSyncError(
                "lock.held",
                f"another image-sync is running{f' (pid {holder})' if holder.isdigit() else ''}",
                where=str(path),
                next_step="Wait for it to end; nothing was done",
            ) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    """Never through a link, never somebody else's file: the directory may be one everybody can write to."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ImageSyncError("lock.unusable", str(error.strerror), where=str(path), next_step="--lock-file") from error
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
        os.close(fd)
        raise ImageSyncError("lock.unusable", "not a regular file of ours", where=str(path), next_step="--lock-file")
    return fd
