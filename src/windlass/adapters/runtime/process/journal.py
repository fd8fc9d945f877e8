"""A run's journal: one small file, appended to, that says all that is known of it. Used by both sides: standard library only.

    {"order": {…}}      at create
    {"started": {}}     before the fork, durable: from here on it is never started again
    {"running": {…}}    by the shim, after the spawn: pids
    {"exit": {…}}       how it ended, durable

Whoever looks after the run holds a lock (flock) on it: the lock, not a pid, tells whether somebody does. A line that a crash
cut off was never written. One file and not four, because making an inode costs more than a small run's own work.
"""

import fcntl
import json
import os

from windlass.adapters.runtime.process.records import Record

NAME = "journal"
_READ = 1 << 16


def begin(directory: str, order: Record) -> None:
    """Make the run's directory and journal. Not durable: a run that was not started may be made anew."""
    os.makedirs(directory, 0o700, exist_ok=True)
    fd = os.open(f"{directory}/{NAME}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        _write_line(fd, "order", order)
    finally:
        os.close(fd)


def read(directory: str) -> dict[str, Record] | None:
    """What was written, by kind; None when there is no run."""
    try:
        fd = os.open(f"{directory}/{NAME}", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        lines = _read_all(fd).split(b"\n")[:-1]
    finally:
        os.close(fd)
    found: dict[str, Record] = {}
    for line in lines:
        try:
            found |= json.loads(line)
        except ValueError:  # blocks a power cut left unwritten
            break
    return found if found.get("order") else None


def open_for_writing(directory: str) -> int:
    return os.open(f"{directory}/{NAME}", os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)


def append(fd: int, kind: str, record: Record, *, is_durable: bool) -> None:
    """Add a line, whole or not at all. OSError when there is no room; nothing was added then."""
    size = _whole_lines(fd)
    try:
        _write_line(fd, kind, record)
        if is_durable:
            os.fdatasync(fd)
    except OSError:
        os.ftruncate(fd, size)
        raise


def lock(fd: int) -> bool:
    """False when somebody else holds it. Held until every copy of `fd` is closed, also those of forks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(directory: str) -> bool:
    try:
        fd = os.open(f"{directory}/{NAME}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not lock(fd)
    finally:
        os.close(fd)


def _write_line(fd: int, kind: str, record: Record) -> None:
    line = json.dumps({kind: record}).encode() + b"\n"
    if os.write(fd, line) != len(line):
        raise OSError(28, os.strerror(28))


def _whole_lines(fd: int) -> int:
    """Where the next line begins; the rest of one that was cut off is dropped."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        size = _read_all(fd).rfind(b"\n") + 1
        os.ftruncate(fd, size)
    return size


def _read_all(fd: int) -> bytes:
    data, at = b"", 0
    while chunk := os.pread(fd, _READ, at):
        data += chunk
        at += len(chunk)
    return data
