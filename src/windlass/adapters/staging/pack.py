"""A directory tree as a tar stream. No link is followed; what changes under our eyes is left out or filled up, never escaped by."""

import contextlib
import errno
import os
import stat
import tarfile
from collections.abc import Generator, Iterator
from typing import Final

from windlass.adapters.staging.beneath import open_beneath
from windlass.core.errors import Conflict, NotFound, TooLarge

_BLOCK: Final = 512
_CHUNK: Final = 1 << 20
_PATH_MAX: Final = 4095


def packed(root: str, steps: tuple[str, ...]) -> Generator[bytes, None, None]:
    """Depth first, one directory open at a time, each reached anew from the root: depth costs no descriptors."""
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        waiting = ["/".join(steps)]
        cut = len("/".join(steps[:-1])) + 1 if len(steps) > 1 else 0
        found = False
        while waiting:
            path = waiting.pop()
            if len(os.fsencode(path)) > _PATH_MAX:
                raise TooLarge(f"{path[:200]!r}… lies too deep to be archived", code="path-too-deep")
            try:
                status = _status(top, path)
            except NotFound:
                if not found:
                    raise
                continue  # a link took its parent's place meanwhile
            if status is None:
                continue
            if not found and stat.S_ISLNK(status.st_mode):
                raise NotFound(f"{path} is a link; links are not followed", code="path-is-link")
            found = True
            yield from _member(top, path, path[cut:] if steps else f"./{path}", status)
            if stat.S_ISDIR(status.st_mode):
                waiting.extend(f"{path}/{name}" if path else name for name in _listing(top, path))
        if not found:
            raise NotFound(f"there is no {'/'.join(steps)!r} in the volume", code="path-not-found")
        yield bytes(2 * _BLOCK)
    finally:
        os.close(top)


def _status(top: int, path: str) -> os.stat_result | None:
    """Of the thing itself, not of where it leads; None when it is not there (any more)."""
    parent, _, name = path.rpartition("/")
    try:
        fd = open_beneath(top, parent or ".", os.O_PATH | os.O_DIRECTORY)
        try:
            return os.stat(name or ".", dir_fd=fd, follow_symlinks=False)
        finally:
            os.close(fd)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotFound(f"{path} leads through a link; links are not followed", code="path-is-link") from error
        raise


def _listing(top: int, path: str) -> list[str]:
    try:
        fd = open_beneath(top, path or ".", os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError as error:
        raise Conflict(f"{path!r} cannot be read", code="path-unreadable") from error
    except OSError:  # replaced meanwhile
        return []
    try:
        return sorted(os.listdir(fd), reverse=True)
    finally:
        os.close(fd)


def _member(top: int, path: str, name: str, status: os.stat_result) -> Iterator[bytes]:
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = stat.S_IMODE(status.st_mode) & 0o777, int(status.st_mtime)
    if stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
        yield _header(info)
    elif stat.S_ISLNK(status.st_mode):
        target = _link_target(top, path)
        if target is not None:
            info.type, info.linkname = tarfile.SYMTYPE, target
            yield _header(info)
    elif stat.S_ISREG(status.st_mode):
        yield from _content(top, path, info)
    # Sockets, fifos and devices have no content to hand out.


def _content(top: int, path: str, info: tarfile.TarInfo) -> Iterator[bytes]:
    try:
        fd = open_beneath(top, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except PermissionError as error:
        raise Conflict(f"{path!r} cannot be read", code="path-unreadable") from error
    except OSError:  # replaced by a link, or gone, since we looked
        return
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return
        info.size = left = status.st_size
        yield _header(info)
        while left:
            data = os.read(fd, min(left, _CHUNK))
            # It shrank while we read: its size is already told, so the rest is filled.
            data = data or bytes(min(left, _CHUNK))
            left -= len(data)
            yield data
        yield bytes(-info.size % _BLOCK)
    finally:
        os.close(fd)


def _link_target(top: int, path: str) -> str | None:
    parent, _, name = path.rpartition("/")
    with contextlib.suppress(OSError):
        fd = open_beneath(top, parent or ".", os.O_PATH | os.O_DIRECTORY)
        try:
            return os.readlink(name, dir_fd=fd)
        finally:
            os.close(fd)
    return None


def _header(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def next_chunk(pieces: Iterator[bytes]) -> bytes:
    """Small pieces together, so that a thousand small files are not a thousand trips to a thread."""
    chunk = bytearray()
    for piece in pieces:
        chunk += piece
        if len(chunk) >= _CHUNK:
            break
    return bytes(chunk)
