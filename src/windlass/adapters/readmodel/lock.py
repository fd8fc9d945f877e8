"""The lock beside the read model's tables: one scribe writes. It says who holds it, so that one that stands still can be ended.

A scribe ends by itself when its server does. One that was stopped cannot: nothing would end it, and its lock would keep the
next server's scribe from its work. By the time we ask, its server has let go of the data directory, so whoever holds this lock
has no business any more.
"""

import contextlib
import fcntl
import os
import select
import signal
from pathlib import Path
from typing import Final

_LEAVES_BY_ITSELF_MS: Final = 2_000
"""One that runs sees the end of its server at once; what it was writing, it may finish."""
_GONE_MS: Final = 10_000
_START_TICKS: Final = 19
_STOPPED: Final = frozenset("Tt")
_NOTE: Final = 64
"""Bytes at the head of the lock: the holder's pid and start."""


def take_lock(path: str) -> int:
    """Held until this process ends. Whoever holds it and does not leave is ended; any other process is safe from us."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _is_free(lock):
        _end_holder(lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
    pid = os.getpid()
    os.pwrite(lock, f"{pid} {_seen(pid)[1]}".ljust(_NOTE).encode(), 0)
    return lock


def _is_free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _end_holder(lock: int) -> None:
    """By the pid in the lock, and only if that process began when the holder says it did: a pid is given anew, a start is not."""
    with contextlib.suppress(ValueError, ProcessLookupError):
        pid, started = map(int, os.pread(lock, _NOTE, 0).split())
        pidfd = os.pidfd_open(pid)
        try:
            state, began = _seen(pid)  # asked after the descriptor was had, so both speak of one process
            if began != started:
                return
            if state in _STOPPED or not _is_gone(pidfd, _LEAVES_BY_ITSELF_MS):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                _is_gone(pidfd, _GONE_MS)
        finally:
            os.close(pidfd)


def _is_gone(pidfd: int, within_ms: int) -> bool:
    waiting = select.poll()
    waiting.register(pidfd, select.POLLIN)
    return bool(waiting.poll(within_ms))


def _seen(pid: int) -> tuple[str, int]:
    """Its state, and when it began in clock ticks since the machine's start; nothing when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "", 0
    fields = stat.rpartition(")")[2].split()  # after the name, which may hold blanks and brackets
    return fields[0], int(fields[_START_TICKS])
