"""Files that lie in memory (tmpfs) and in a directory of their own per run: how a node gives a run its secret files.

A file can be read by its run's user alone, and the way there by ours. Nothing is written unless a tmpfs is found: a secret must
not reach a disk because a machine is set up otherwise. Blocking; the files are few and small.
"""

import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.core.errors import Conflict, Invalid
from windlass.core.model.ids import RunId
from windlass.ports.runtime import StartFailed

_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_FILE_MODE: Final = 0o400
_RUN_MODE: Final = 0o555
"""The run's directory as its container sees it; the one above lets nobody else through."""
_OUR_MODE: Final = 0o700
_MOUNTS: Final = Path("/proc/self/mounts")
_RUN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


class MemoryFiles:
    def __init__(self, installation: str, *, roots: Sequence[Path] | None = None) -> None:
        """`roots` are tried in order; the first that is a tmpfs is taken, when it is first needed."""
        self._installation = installation
        self._roots = tuple(roots) if roots is not None else _usual_roots(os.environ)

    def directory(self, run: RunId) -> Path:
        """Of the run, made if it is not there yet."""
        path = self._base() / _checked(run)
        path.mkdir(mode=_OUR_MODE, exist_ok=True)
        return path

    def put(self, run: RunId, files: Iterable[tuple[str, bytes]], *, user: int, group: int) -> Path:
        """All of them, in place of what was there. StartFailed when the machine does not allow it."""
        path = self.directory(run)
        try:
            os.chmod(path, _OUR_MODE)
            for old in list(path.iterdir()):
                old.unlink()
            for name, content in files:
                _write(path / name, content, user=user, group=group)
            os.chmod(path, _RUN_MODE)
        except PermissionError as exc:
            raise StartFailed(
                f"secret files cannot be given to user {user}",
                hint="run the server as root, or an image that runs as the server's own user",
            ) from exc
        except OSError as exc:
            raise StartFailed(f"secret files cannot be written: {exc.strerror}") from exc
        return path

    def drop(self, run: RunId) -> None:
        """Absent is fine."""
        for base in self._bases():
            path = base / _checked(run)
            if path.is_dir():
                os.chmod(path, _OUR_MODE)
                shutil.rmtree(path)

    def drop_all(self) -> None:
        for base in self._bases():
            for run in base.iterdir():
                os.chmod(run, _OUR_MODE)
            shutil.rmtree(base)

    def _bases(self) -> list[Path]:
        """Ours that are there; a machine may have been set up otherwise when they were made."""
        return [path for path in (root / self._name() for root in self._roots) if _is_ours(path)]

    def _name(self) -> str:
        return f"windlass-{self._installation}"

    def _base(self) -> Path:
        root = next((one for one in self._roots if _is_memory(one)), None)
        if root is None:
            raise StartFailed(
                "this node has no tmpfs for secret files", hint="mount one at /run or /dev/shm, or use variables"
            )
        path = root / self._name()
        with suppress(FileExistsError):
            path.mkdir(mode=_OUR_MODE)
        if not _is_ours(path):
            raise Conflict(f"{path} belongs to somebody else", code="name-taken")
        os.chmod(path, _OUR_MODE)
        return path


def _checked(run: RunId) -> str:
    if not _RUN.fullmatch(run):
        raise Invalid(f"{run[:64]!r} is not a run's id")
    return run


def _is_ours(path: Path) -> bool:
    """Anybody may write to /dev/shm: what lies there under our name need not be ours, nor what it seems to be."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _write(path: Path, content: bytes, *, user: int, group: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        if (user, group) != (os.geteuid(), os.getegid()):
            os.fchown(file.fileno(), user, group)
        os.fchmod(file.fileno(), _FILE_MODE)
        file.write(content)


def _is_memory(path: Path) -> bool:
    """By the mount it lies in, the longest that leads there."""
    try:
        real = os.path.realpath(path)
        mounts = [line.split(" ") for line in _MOUNTS.read_text().splitlines()]
    except OSError:
        return False
    around = [(len(at), kind) for _, at, kind, *_ in mounts if real == at or real.startswith(f"{at.rstrip('/')}/")]
    return os.access(path, os.W_OK) and bool(around) and max(around)[1] in _MEMORY


def _usual_roots(environ: Mapping[str, str]) -> tuple[Path, ...]:
    own = environ.get("XDG_RUNTIME_DIR", "")
    return (Path("/run"), *((Path(own),) if own.startswith("/") else ()), Path("/dev/shm"))  # noqa: S108 — it is the point
