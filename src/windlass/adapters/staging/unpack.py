"""A tar stream into a directory: a push parser and writer of our own.

Only regular files, directories and links that stay inside are made. A file appears whole under its name or not at all.
"""

import contextlib
import errno
import os
from collections.abc import Generator, Iterator
from typing import Final

from msgspec import Struct

from windlass.adapters.staging.beneath import open_beneath
from windlass.core.errors import Invalid, NotFound, TooLarge

_BLOCK: Final = 512
_EXTENSION_MAX: Final = 1 << 20
_PATH_MAX: Final = 4095
_NAME_MAX: Final = 255
_FILES: Final = (b"0", b"\0", b"7")
_DIRECTORY: Final = b"5"
_SYMLINK: Final = b"2"
_NAMES: Final = {b"1": "a hard link", b"3": "a device", b"4": "a device", b"6": "a fifo", b"S": "a sparse file"}


class Limits(Struct, frozen=True, kw_only=True):
    """Of one archive. The doors have their own, lower ones; these stop what got past them."""

    entries_max: int = 200_000
    bytes_max: int = 64 << 30
    depth_max: int = 64


class _Entry(Struct, frozen=True, kw_only=True):
    kind: bytes
    name: str
    target: str
    size: int
    mode: int
    modified: int


class _Extension(Struct, kw_only=True):
    """What GNU and PAX headers say of the entry that follows them."""

    name: str | None = None
    target: str | None = None
    size: int | None = None


class Unpacking:
    """Push parser and writer: bytes in, files below the root. Every refusal is Invalid or TooLarge."""

    def __init__(self, root: str, base: tuple[str, ...], limits: Limits) -> None:
        self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._base = base
        self._limits = limits
        self._buffer = bytearray()
        self._is_done = False
        self._entries = self._bytes = 0
        self._parent: tuple[tuple[str, ...], int] | None = None
        try:
            self._open_base(base)
            self._steps = self._unpack()
            next(self._steps)
        except BaseException:
            self.close()
            raise

    def _open_base(self, base: tuple[str, ...]) -> None:
        try:
            self._directory(base)
        except Invalid as error:
            raise NotFound(f"{'/'.join(base)} leads through a link or a file", code="path-is-link") from error

    def feed(self, chunk: bytes) -> None:
        if self._is_done:  # tar pads its end generously
            return
        self._buffer += chunk
        try:
            next(self._steps)
        except StopIteration:
            self._is_done = True

    def finish(self) -> None:
        if not self._is_done:
            raise _refused("the archive ends early")

    def close(self) -> None:
        if hasattr(self, "_steps"):
            self._steps.close()
        if self._parent is not None:
            os.close(self._parent[1])
            self._parent = None
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def _unpack(self) -> Generator[None, None, None]:
        yield
        extension = _Extension()
        while (block := (yield from self._take(_BLOCK))).strip(b"\0"):
            kind = block[156:157]
            if kind in (b"x", b"g", b"L", b"K"):
                body = yield from self._take_extension(_number(block, 124, 12))
                _extend(extension, kind, body)
                continue
            entry = _read_entry(block, extension)
            extension = _Extension()
            self._count(entry)
            yield from self._write(entry)

    def _take(self, size: int) -> Generator[None, None, bytes]:
        while len(self._buffer) < size:
            yield
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _take_extension(self, size: int) -> Generator[None, None, bytes]:
        if size > _EXTENSION_MAX:
            raise _refused("the archive has a header larger than any name")
        padded = yield from self._take(_padded(size))
        return padded[:size]

    def _count(self, entry: _Entry) -> None:
        self._entries += 1
        self._bytes += entry.size
        if self._entries > self._limits.entries_max:
            raise TooLarge(f"the archive has more than {self._limits.entries_max} entries", code="archive-entries")
        if self._bytes > self._limits.bytes_max:
            raise TooLarge(f"the archive unpacks to more than {self._limits.bytes_max} bytes", code="archive-bytes")

    def _write(self, entry: _Entry) -> Generator[None, None, None]:
        steps = self._base + self._steps_of(entry.name)
        if entry.kind == _DIRECTORY:
            self._directory(steps, mode=entry.mode)
        elif len(steps) == len(self._base):
            raise _refused("the archive has a file without a name")
        elif entry.kind == _SYMLINK:
            self._symlink(steps, entry.target)
        elif entry.kind in _FILES:
            yield from self._file(steps, entry)
        else:
            raise _refused(f"{entry.name!r} is {_NAMES.get(entry.kind, 'of an unknown kind')}")

    def _steps_of(self, name: str) -> tuple[str, ...]:
        steps = tuple(step for step in name.split("/") if step not in ("", "."))
        if name.startswith("/") or ".." in steps or "\0" in name:
            raise _refused(f"{name[:200]!r} leads out of the archive")
        if len(steps) > self._limits.depth_max or len(os.fsencode(name)) > _PATH_MAX:
            raise _refused(f"{name[:200]!r} lies too deep")
        if any(len(os.fsencode(step)) > _NAME_MAX for step in steps):
            raise _refused(f"{name[:200]!r} is too long a name")
        return steps

    def _directory(self, steps: tuple[str, ...], *, mode: int | None = None) -> int:
        """A descriptor of the directory, made with its parents where they are missing. It stays ours."""
        if self._parent is not None and self._parent[0] == steps:
            fd = self._parent[1]
        else:
            fd = self._open_directory(steps)
            if self._parent is not None:
                os.close(self._parent[1])
            self._parent = (steps, fd)
        if mode is not None and steps:
            os.chmod(f"/proc/self/fd/{fd}", mode | 0o700)
        return fd

    def _open_directory(self, steps: tuple[str, ...]) -> int:
        path = "/".join(steps) or "."
        try:
            return open_beneath(self._root, path, os.O_PATH | os.O_DIRECTORY)
        except FileNotFoundError:
            parent = self._open_directory(steps[:-1])
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(steps[-1], 0o755, dir_fd=parent)
            finally:
                os.close(parent)
        except OSError as error:
            raise _blocked(path, error) from error
        try:
            return open_beneath(self._root, path, os.O_PATH | os.O_DIRECTORY)
        except OSError as error:  # a dangling link of that name: it exists and leads nowhere
            raise _blocked(path, error) from error

    def _file(self, steps: tuple[str, ...], entry: _Entry) -> Generator[None, None, None]:
        parent, temporary = self._directory(steps[:-1]), _temporary_name()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o600, dir_fd=parent)
        try:
            yield from self._copy(fd, entry.size)
            os.fchmod(fd, entry.mode | 0o600)
            os.utime(fd, (entry.modified, entry.modified))
            _put_in_place(temporary, steps, parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise
        finally:
            os.close(fd)
        yield from self._take(_padded(entry.size) - entry.size)

    def _copy(self, fd: int, size: int) -> Generator[None, None, None]:
        while size:
            while not self._buffer:
                yield
            with memoryview(self._buffer) as view, view[:size] as part:
                written = os.write(fd, part)
            del self._buffer[:written]
            size -= written

    def _symlink(self, steps: tuple[str, ...], target: str) -> None:
        """Only up as far as the root, and up only at the beginning: `a/..` may be elsewhere when `a` is itself a link."""
        parts = target.split("/")
        ups = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
        inner = len(steps) - 1 - len(self._base)
        if not target or target.startswith("/") or "\0" in target or ".." in parts[ups:] or ups > inner:
            raise _refused(f"{'/'.join(steps)[:200]!r} is a link that leads out of the archive")
        parent, temporary = self._directory(steps[:-1]), _temporary_name()
        os.symlink(target, temporary, dir_fd=parent)
        try:
            _put_in_place(temporary, steps, parent)
        except BaseException:
            os.unlink(temporary, dir_fd=parent)
            raise


def _put_in_place(temporary: str, steps: tuple[str, ...], parent: int) -> None:
    """A rename replaces what has the name, be it a link; it never writes through one."""
    try:
        os.rename(temporary, steps[-1], src_dir_fd=parent, dst_dir_fd=parent)
    except (IsADirectoryError, NotADirectoryError) as error:
        raise _blocked("/".join(steps), error) from error


def _read_entry(block: bytes, extension: _Extension) -> _Entry:
    expected = _number(block, 148, 8)
    if expected != sum(block) - sum(block[148:156]) + 8 * ord(" "):
        raise _refused("this is no tar archive, or it was damaged")
    kind = block[156:157]
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and (prefix := _text(block[345:500])):
        name = f"{prefix}/{name}"
    size = _number(block, 124, 12) if extension.size is None else extension.size
    return _Entry(
        kind=_DIRECTORY if kind in (b"0", b"\0") and name.endswith("/") and extension.name is None else kind,
        name=name if extension.name is None else extension.name,
        target=_text(block[157:257]) if extension.target is None else extension.target,
        size=size if kind in _FILES else 0,
        mode=_number(block, 100, 8) & 0o777,
        modified=min(_number(block, 136, 12), 1 << 33),
    )


def _extend(extension: _Extension, kind: bytes, body: bytes) -> None:
    if kind == b"L":
        extension.name = _text(body)
    elif kind == b"K":
        extension.target = _text(body)
    elif kind == b"x":
        for key, value in _pax_records(body):
            if key == b"path":
                extension.name = os.fsdecode(value)
            elif key == b"linkpath":
                extension.target = os.fsdecode(value)
            elif key == b"size":
                if not value.isdigit() or len(value) > 19:
                    raise _refused("the archive has a broken extended header")
                extension.size = int(value)
            elif key.startswith(b"GNU.sparse"):
                raise _refused("the archive has a sparse file")
    # A global header (`g`) could rename every entry; git writes a comment in it. It is skipped.


def _pax_records(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    while body:
        digits, space, _ = body.partition(b" ")
        if not space or not digits.isdigit() or len(digits) > 7 or not len(digits) + 1 < int(digits) <= len(body):
            raise _refused("the archive has a broken extended header")
        length = int(digits)
        key, equals, value = body[len(digits) + 1 : length - 1].partition(b"=")
        if body[length - 1 : length] != b"\n" or not equals:
            raise _refused("the archive has a broken extended header")
        yield key, value
        body = body[length:]


def _number(block: bytes, start: int, width: int) -> int:
    field = block[start : start + width]
    if field[0] & 0x80:  # too large for octal digits; negative ones mean nothing here
        if field[0] != 0x80:
            raise _refused("the archive has a number out of range")
        return int.from_bytes(field[1:], "big")
    digits = field.split(b"\0", 1)[0].strip()
    if digits.strip(b"01234567"):
        raise _refused("this is no tar archive, or it was damaged")
    return int(digits or b"0", 8)


def _text(field: bytes) -> str:
    return os.fsdecode(field.split(b"\0", 1)[0])


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _temporary_name() -> str:
    return f".windlass-{os.urandom(8).hex()}"


def _refused(message: str) -> Invalid:
    return Invalid(message, code="archive-unsafe")


def _blocked(path: str, error: OSError) -> Exception:
    if error.errno in (errno.ELOOP, errno.EXDEV, errno.ENOTDIR, errno.EISDIR, errno.ENOENT):
        return _refused(f"{path[:200]!r} leads through a link or a file, or is a directory already")
    return error
