"""Finding and ending every process of a run. Standard library only.

Two views: the shim knows its descendants (it is their subreaper, so none can slip away), and where a shim was itself killed,
the executor finds what it left behind by the run's name in the environment, its session, and its cgroup.
"""

import contextlib
import os
import signal
import time
from collections.abc import Container, Iterable, Iterator

from windlass.adapters.runtime.process.loop import Loop

_AGAIN_SECONDS = 0.05
_KILLED = 128


class Family:
    """A spawned process and everything below it, ended together."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.pid = 0
        self.status: int | None = None
        self.finished = 0.0
        self.cpu_seconds = 0.0
        """Of all that was reaped."""
        self.memory_peak_bytes = 0
        """Of the largest process."""
        self._is_doomed = False
        self._is_over = False

    @property
    def exit_code(self) -> int:
        code = os.waitstatus_to_exitcode(self.status or 0)
        return code if code >= 0 else _KILLED - code

    def reap(self) -> bool:
        """Collect the dead; False when nobody is left."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, used = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return True
                self.cpu_seconds += used.ru_utime + used.ru_stime
                self.memory_peak_bytes = max(self.memory_peak_bytes, used.ru_maxrss * 1024)
                if pid == self.pid and self.status is None:
                    self.status, self.finished = status, time.monotonic()
        return False

    def stop(self, grace_ms: int) -> None:
        if self.status is not None:
            return
        if grace_ms > 0:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGTERM)
        self._loop.later(grace_ms / 1000, self.kill)

    def kill(self) -> None:
        """Everything, again and again until the last is gone: some of it may be forking meanwhile."""
        self._is_doomed = True
        if not self._is_over:  # a grace that ran out late must not hit the next one
            kill(descendants(os.getpid()))

    def outlive(self) -> None:
        """Returns when the process and all it left running are gone."""
        while self.reap():
            if self._is_doomed or self.status is not None:
                self.kill()
                self._loop.later(_AGAIN_SECONDS, lambda: None)
            self._loop.turn()
        self._is_over = True


def descendants(of: int) -> list[int]:
    """All processes below `of`, at this moment."""
    children: dict[int, list[int]] = {}
    for pid, stat in _stats():
        children.setdefault(int(stat[1]), []).append(pid)
    found: list[int] = []
    waiting = list(children.get(of, ()))
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting.extend(children.get(pid, ()))
    return found


def left_behind(run: str, *, leader: int, leader_ticks: int) -> list[int]:
    """Processes of a run whose shim is gone: marked by its name, or in its session while the session's leader is known to live.

    Without that leader the session's number says nothing: it may long be somebody else's.
    """
    mark = f"WINDLASS_RUN={run}".encode()
    has_leader = leader > 0 and start_ticks(leader) == leader_ticks
    found = []
    for pid, stat in _stats():
        if stat[0] != "Z" and ((has_leader and int(stat[3]) == leader) or _is_marked(pid, mark)):
            found.append(pid)
    return found


def strays(known: Container[int]) -> list[int]:
    """Children of ours that we did not make, with all below them: the orphans of a shim that was killed."""
    own = os.getpid()
    found = [pid for pid, stat in _stats() if int(stat[1]) == own and stat[0] != "Z" and pid not in known]
    return found + [below for pid in found for below in descendants(pid)]


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def start_ticks(pid: int) -> int:
    """When it began, in clock ticks since boot: with its pid, an identity that survives the pid being taken anew."""
    stat = _stat(pid)
    return int(stat[19]) if stat else 0


def _stats() -> Iterator[tuple[int, list[str]]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (stat := _stat(int(entry))):
            yield int(entry), stat


def _stat(pid: int) -> list[str] | None:
    """The fields after the command, which may hold blanks and brackets: state, ppid, pgrp, session, … start time at 19."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return None


def _is_marked(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False
