"""What is downloaded: a tar stream unpacked below one directory, or one file, never anywhere else.

The archive comes from a job, so it is hostile until proved otherwise. Only regular files and directories are written, each
step of a path is opened without following links, relative to a descriptor of the step before, and a file appears under its
name only when it is complete. `tarfile.extractall` does none of this reliably on the Pythons we run on.
"""

import errno
import os
import secrets
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol, cast

from msgspec import Struct

from windlass.core.errors import Invalid

CHUNK = 1 << 18
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CREATE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Progress = Callable[[int], None]


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class Unpacked(Struct, frozen=True, kw_only=True):
    files: tuple[str, ...]
    size: int
    skipped: tuple[str, ...]
    """Links and special files, which are not brought home."""


def unpack(source: Readable, destination: Path, *, top: str | None = None, on_read: Progress | None = None) -> Unpacked:
    """Invalid when the archive is damaged or tries to leave `destination`; what was complete by then stays.

    `top` renames the archive's first step: one file, or one directory, under a name of the caller's choice.
    """
    destination.mkdir(parents=True, exist_ok=True)
    told = _Told(source, on_read)
    files, skipped, size = list[str](), list[str](), 0
    root = os.open(destination, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], told), mode="r|", errorlevel=2) as archive:
            for member in archive:
                parts = _parts(member.name)
                if top is not None and parts:
                    parts = (top, *parts[1:])
                if member.isdir():
                    with _directory(root, parts):
                        pass
                elif member.isreg() and not member.issparse() and parts:
                    content = archive.extractfile(member)
                    assert content is not None  # a regular member always has content
                    size += _write(root, parts, content, is_executable=bool(member.mode & 0o100))
                    files.append("/".join(parts))
                else:
                    skipped.append(member.name)
    except tarfile.TarError as exc:
        raise Invalid(f"the archive is damaged: {exc}", code="damaged-archive", hint="try the download again") from exc
    finally:
        os.close(root)
    while told.read(CHUNK):  # a connection that broke after the last member must not look like success
        pass
    return Unpacked(files=tuple(files), size=size, skipped=tuple(skipped))


def save(source: Readable, target: Path, *, on_read: Progress | None = None) -> int:
    """One file, all or nothing; the number of bytes written."""
    target.parent.mkdir(parents=True, exist_ok=True)
    parent = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _write(parent, (target.name,), _Told(source, on_read), is_executable=False)
    finally:
        os.close(parent)


def _parts(name: str) -> tuple[str, ...]:
    if name.startswith("/") or "\0" in name:
        raise _hostile(name)
    parts = tuple(part for part in name.split("/") if part not in {"", "."})
    if ".." in parts:
        raise _hostile(name)
    return parts


def _write(root: int, parts: tuple[str, ...], content: Readable, *, is_executable: bool) -> int:
    size = 0
    with _directory(root, parts[:-1]) as parent:
        name, temporary = parts[-1], f".{secrets.token_hex(8)}.part"
        file = os.open(temporary, CREATE_FILE, 0o777 if is_executable else 0o666, dir_fd=parent)
        try:
            with open(file, "wb") as out:
                while chunk := content.read(CHUNK):
                    out.write(chunk)
                    size += len(chunk)
            os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException as exc:
            os.unlink(temporary, dir_fd=parent)
            if isinstance(exc, IsADirectoryError):
                raise Invalid(f"{'/'.join(parts)} is a directory here and a file in the archive") from exc
            raise
    return size


@contextmanager
def _directory(root: int, parts: tuple[str, ...]) -> Iterator[int]:
    """A descriptor of the directory, made if absent; each step is taken without following links."""
    here = os.dup(root)
    try:
        for index, part in enumerate(parts):
            below = _step(here, part, "/".join(parts[: index + 1]))
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _step(here: int, part: str, shown: str) -> int:
    try:
        try:
            return os.open(part, OPEN_DIRECTORY, dir_fd=here)
        except FileNotFoundError:
            os.mkdir(part, 0o777, dir_fd=here)
            return os.open(part, OPEN_DIRECTORY, dir_fd=here)
    except OSError as exc:
        if exc.errno in {errno.ELOOP, errno.ENOTDIR, errno.EEXIST}:
            raise Invalid(
                f"{shown} is in the way: it is not a directory", hint="remove it, or choose another destination"
            ) from exc
        raise


def _hostile(name: str) -> Invalid:
    return Invalid(
        f"the archive names {name!r}, which lies outside the destination",
        code="hostile-archive",
        hint="nothing was written there; inspect the job's volume with `windlass debug`",
    )


class _Told:
    """Counts what is read, for the progress bar."""

    def __init__(self, source: Readable, progress: Progress | None) -> None:
        self._source, self._progress = source, progress

    def read(self, size: int = -1, /) -> bytes:
        chunk = self._source.read(size)
        if chunk and self._progress:
            self._progress(len(chunk))
        return chunk
