"""Names below a root, resolved by the kernel without following any link, at no step."""

import ctypes
import errno
import os
import struct
from typing import Final

from windlass.core.errors import Fault, Invalid

_SYS_OPENAT2: Final = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_HOW: Final = struct.Struct("QQQ")
_libc = ctypes.CDLL(None, use_errno=True)


def steps_of(path: str) -> tuple[str, ...]:
    """The steps of a path below the root; Invalid for one that would leave it."""
    steps = tuple(step for step in path.split("/") if step not in ("", "."))
    if path.startswith("/") or ".." in steps or "\0" in path:
        message = f"{path[:200]!r} is not a path below the volume's root"
        raise Invalid(message, code="path-outside", faults=(Fault("path", message),))
    return steps


def open_beneath(root: int, path: str, flags: int) -> int:
    """Open `path` (relative, without `..`) below the directory `root`; no link is followed, at no step. Creates nothing."""
    how = _HOW.pack(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    fd = int(_libc.syscall(_SYS_OPENAT2, root, os.fsencode(path), how, _HOW.size))
    if fd >= 0:
        return fd
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM):  # an old kernel, or a sandbox that does not know the call
        return walk_beneath(root, path, flags)
    raise OSError(number, os.strerror(number), path)


def walk_beneath(root: int, path: str, flags: int) -> int:
    """The same, step by step."""
    steps = steps_of(path) or (".",)
    fd = os.dup(root)
    try:
        for step in steps[:-1]:
            following = os.open(step, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = following
        return os.open(steps[-1], flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    finally:
        os.close(fd)
