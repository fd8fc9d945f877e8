"""What is uploaded: a directory as a tar made on the fly, or one file. Read twice: once for the digest, once to be sent.

Nothing is written to disk and memory stays flat, however large the project is. A file that changes between the two readings
is caught: by its size here, by the digest on the server.
"""

import base64
import hashlib
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from windlass.client.ignore import Ignore
from windlass.core.errors import Invalid, NotFound

CHUNK = 1 << 18
BLOCK = tarfile.BLOCKSIZE
Progress = Callable[[int], None]


class Entry(Struct, frozen=True, kw_only=True):
    source: str
    name: str
    """Relative, with slashes."""
    size: int
    mode: int
    mtime: int
    is_directory: bool
    link: str = ""
    """Where a symbolic link points: always inside the project."""


class Project:
    """The files, directories and inner links below one directory, in a fixed order."""

    content_type = "application/x-tar"

    def __init__(self, directory: Path, *, on_sent: Progress | None = None) -> None:
        self.directory = directory
        self.skipped: list[str] = []
        """Links that lead outside and special files: they stay at home, and the caller says so."""
        self.entries = tuple(self._scan())
        self.length = sum(len(_header(e)) + _padded(e.size) for e in self.entries) + 2 * BLOCK
        self.on_sent = on_sent

    @property
    def files(self) -> int:
        return sum(not e.is_directory and not e.link for e in self.entries)

    def digest(self, on_read: Progress | None = None) -> str:
        return _digest(self._tar(), on_read)

    def chunks(self) -> Iterator[bytes]:
        return _told(self._tar(), self.on_sent)

    def _tar(self) -> Iterator[bytes]:
        for entry in self.entries:
            yield _header(entry)
            if entry.size:
                yield from _content(entry)
                yield bytes(_padded(entry.size) - entry.size)
        yield bytes(2 * BLOCK)

    def _scan(self) -> Iterator[Entry]:
        if not self.directory.is_dir():
            raise NotFound(f"{self.directory} is not a directory", hint="give a directory that exists")
        yield from self._below(str(self.directory), "", Ignore.of(self.directory))

    def _below(self, directory: str, prefix: str, ignore: Ignore) -> Iterator[Entry]:
        for found in sorted(os.scandir(directory), key=lambda e: e.name):
            name = prefix + found.name
            about = found.stat(follow_symlinks=False)
            is_directory = stat.S_ISDIR(about.st_mode)
            if ignore.covers(name, is_directory=is_directory):
                continue
            link = _inner_link(found.path, name) if stat.S_ISLNK(about.st_mode) else ""
            if not link and not is_directory and not stat.S_ISREG(about.st_mode):
                self.skipped.append(name)
                continue
            yield _entry(found.path, name, about, link=link)
            if is_directory:
                yield from self._below(found.path, name + "/", ignore)


class SingleFile:
    content_type = "application/octet-stream"

    def __init__(self, path: Path, *, on_sent: Progress | None = None) -> None:
        try:
            about = path.stat()
        except FileNotFoundError as exc:
            raise NotFound(f"there is no file {path}", hint="check the path") from exc
        if not stat.S_ISREG(about.st_mode):
            raise Invalid(f"{path} is not a regular file")
        self._entry = _entry(str(path), path.name, about)
        self.length = about.st_size
        self.on_sent = on_sent

    def digest(self, on_read: Progress | None = None) -> str:
        return _digest(_content(self._entry), on_read)

    def chunks(self) -> Iterator[bytes]:
        return _told(_content(self._entry), self.on_sent)


def content_digest(sha256_hex: str) -> str:
    """The header of RFC 9530."""
    return f"sha-256=:{base64.b64encode(bytes.fromhex(sha256_hex)).decode()}:"


def _entry(path: str, name: str, about: os.stat_result, *, link: str = "") -> Entry:
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        raise Invalid(
            f"the name {os.fsencode(name)!r} is not UTF-8", hint="rename it or list it in .windlassignore"
        ) from exc
    is_directory = stat.S_ISDIR(about.st_mode)
    runs = is_directory or bool(about.st_mode & stat.S_IXUSR)
    return Entry(
        source=path,
        name=name,
        size=0 if is_directory or link else about.st_size,
        mode=0o755 if runs else 0o644,
        mtime=int(about.st_mtime),
        is_directory=is_directory,
        link=link,
    )


def _inner_link(path: str, name: str) -> str:
    """The target of a relative link that stays inside the project; empty for any other."""
    target = os.readlink(path)
    reached = os.path.normpath(os.path.join(os.path.dirname(name), target))
    return "" if os.path.isabs(target) or reached == ".." or reached.startswith("../") else target


def _header(entry: Entry) -> bytes:
    info = tarfile.TarInfo(entry.name)
    info.type = tarfile.DIRTYPE if entry.is_directory else tarfile.SYMTYPE if entry.link else tarfile.REGTYPE
    info.linkname = entry.link
    info.size, info.mode, info.mtime = entry.size, entry.mode, entry.mtime
    return info.tobuf(tarfile.PAX_FORMAT)


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _content(entry: Entry) -> Iterator[bytes]:
    left = entry.size
    with open(entry.source, "rb") as file:
        while left:
            chunk = file.read(min(CHUNK, left))
            if not chunk:
                raise _changed(entry)
            left -= len(chunk)
            yield chunk
        if file.read(1):
            raise _changed(entry)


def _changed(entry: Entry) -> Invalid:
    return Invalid(
        f"{entry.name} changed while it was being read",
        code="changed-during-upload",
        hint="let whatever writes it finish, or list it in .windlassignore, and try again",
    )


def _digest(chunks: Iterator[bytes], on_read: Progress | None) -> str:
    digest = hashlib.sha256()
    for chunk in _told(chunks, on_read):
        digest.update(chunk)
    return digest.hexdigest()


def _told(chunks: Iterator[bytes], progress: Progress | None) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk
        if progress:
            progress(len(chunk))
