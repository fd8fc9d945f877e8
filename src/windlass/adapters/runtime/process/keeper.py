"""The executor's memory of its runs, and the one place that starts any. Standard library only.

A run is started at most once, also across crashes: its `started` file is made exclusively and is durable before the fork. A
run with that file, without a shim that holds its lock, and without an `exit.json` went down with the machine or with its
shim: what is left of it is ended, and it is written down as over. It is never started again.
"""

import contextlib
import fcntl
import json
import os
import signal
import sys
from collections.abc import Callable

from windlass.adapters.runtime.process import family, records, shim
from windlass.adapters.runtime.process.cgroups import Cgroups
from windlass.adapters.runtime.process.loop import Loop
from windlass.adapters.runtime.process.records import Record

CREATED, RUNNING, EXITED = "created", "running", "exited"
_VANISHED = 137
_LOOK_AGAIN_SECONDS = 0.02
_STARTS_AT_ONCE = 16
"""One fsync of the directory serves them; more would keep everybody else waiting for the forks."""

Told = Callable[["Run"], None]


class Run:
    """What the executor knows of one run; the rest is in its directory."""

    def __init__(self, run: str, owner: str, token: object) -> None:
        self.run = run
        self.owner = owner
        self.token = token
        self.phase = CREATED
        self.is_starting = False
        self.exit: Record = {}
        self.pid = 0
        self.ticks = 0
        self.shim = 0
        self.pidfd = -1
        self.started_wall: object = None
        self.starters: list[Told] = []
        self.enders: list[Told] = []
        self.viewers: set[int] = set()

    def observed(self) -> Record:
        seen: Record = {"run": self.run, "phase": self.phase, "token": self.token, "pid": self.pid}
        seen["started_wall"] = self.started_wall
        return seen | self.exit


class Keeper:
    def __init__(self, root: str, loop: Loop, cgroups: Cgroups | None, *, on_exit: Told, files_soft: int) -> None:
        self.runs: dict[str, Run] = {}
        self._root = root
        self._loop = loop
        self._cgroups = cgroups
        self._on_exit = on_exit
        self._files_soft = files_soft
        self._due: list[Run] = []

    @property
    def is_idle(self) -> bool:
        return not any(run.phase == RUNNING or run.is_starting for run in self.runs.values())

    # --- after a restart

    def load(self) -> None:
        for name in os.listdir(f"{self._root}/gone"):
            records.remove_tree(f"{self._root}/gone/{name}")
        for name in os.listdir(f"{self._root}/runs"):
            self._load(name)
        if self._cgroups is not None:
            self._cgroups.sweep(frozenset(self.runs))

    def _load(self, name: str) -> None:
        path = records.run_path(self._root, name)
        # `started` repeats who it is, because it is the one of the two that a power cut cannot take.
        order = records.read(f"{path}/run.json") or records.read(f"{path}/started")
        if order is None or records.text(order, "run") != name:
            return
        run = self.runs[name] = Run(name, records.text(order, "owner"), order.get("token"))
        if os.path.exists(f"{path}/started"):
            run.phase = RUNNING
            self._adopt(run)

    def _adopt(self, run: Run) -> None:
        """Watch it again, if its shim lives; else it is over."""
        path = records.run_path(self._root, run.run)
        self._read_running(run)
        if not _is_locked(f"{path}/started"):
            self._conclude(run)
            return
        if run.shim and run.pidfd < 0:
            with contextlib.suppress(ProcessLookupError):
                run.pidfd = os.pidfd_open(run.shim)
                if _is_locked(f"{path}/started"):  # still: so that pid is the shim's, not somebody's who got it after
                    self._loop.watch(run.pidfd, lambda: self._on_shim_end(run))
                    return
                os.close(run.pidfd)
                run.pidfd = -1
        self._loop.later(_LOOK_AGAIN_SECONDS, lambda: self._adopt(run))

    def _read_running(self, run: Run) -> None:
        running = records.read(f"{records.run_path(self._root, run.run)}/running.json") or {}
        run.shim = run.shim or records.number(running, "shim")
        run.pid = run.pid or records.number(running, "pid")
        run.ticks = run.ticks or records.number(running, "pid_ticks")
        run.started_wall = run.started_wall or running.get("started_wall")

    # --- verbs

    def create(self, order: Record) -> None:
        run, path = records.text(order, "run"), records.run_path(self._root, records.text(order, "run"))
        making = f"{self._root}/gone/{run}.making"
        os.makedirs(making, 0o700, exist_ok=True)
        records.write(f"{making}/run.json", order, is_durable=False)
        os.rename(making, path)
        self.runs[run] = Run(run, records.text(order, "owner"), order.get("token"))

    def start(self, run: Run, told: Told) -> None:
        """Told when it runs, or has ended without."""
        if (run.phase == RUNNING and not run.is_starting) or run.phase == EXITED:
            told(run)
            return
        run.starters.append(told)
        if not run.is_starting:
            run.is_starting = True
            self._due.append(run)

    def stop(self, run: Run, grace_ms: int, told: Told) -> None:
        """Told when it is over; what never started is not."""
        if run.phase != RUNNING and not run.is_starting:
            told(run)
            return
        run.enders.append(told)
        self._order_stop(run, grace_ms)

    def remove(self, run: Run, told: Told) -> None:
        def over(run: Run) -> None:
            self._delete(run)
            told(run)

        self.stop(run, 0, over)

    def visit(self, run: Run | None, keep: Callable[[], None]) -> int:
        """Fork a session that belongs to `run` and ends with it. `keep` never returns."""
        pid = _fork(keep)
        if run is not None:
            run.viewers.add(pid)
        pidfd = os.pidfd_open(pid)

        def ended() -> None:
            self._loop.forget(pidfd)
            os.close(pidfd)
            _reap()
            if run is not None:
                run.viewers.discard(pid)

        self._loop.watch(pidfd, ended)
        return pid

    # --- starting

    def start_due(self) -> None:
        """All starts that were asked for in one turn of the loop, made durable together, then forked."""
        due, self._due = self._due[:_STARTS_AT_ONCE], self._due[_STARTS_AT_ONCE:]
        if self._due:
            self._loop.later(0, lambda: None)
        marked = [run for run in due if self._mark(run)]
        if marked:
            records.sync_directory(f"{self._root}/runs")
        for run in marked:
            self._fork(run)

    def _mark(self, run: Run) -> bool:
        path = records.run_path(self._root, run.run)
        try:
            fd = os.open(f"{path}/started", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, json.dumps({"run": run.run, "owner": run.owner, "token": run.token}).encode())
                os.fsync(fd)
                records.sync_directory(path)
            except OSError:
                os.unlink(f"{path}/started")  # it never ran, and may be tried again
                raise
            finally:
                os.close(fd)
        except OSError as error:
            self._answer_starters(run, f"its start cannot be written down: {error.strerror}")
            return False
        return True

    def _fork(self, run: Run) -> None:
        order = records.read(f"{records.run_path(self._root, run.run)}/run.json") or {}
        group = self._cgroups.group(run.run) if self._cgroups else None
        reading, report = os.pipe2(os.O_CLOEXEC)
        marker = _lock(f"{records.run_path(self._root, run.run)}/started")

        def keep() -> None:
            shim.keep_run(self._root, order, group, marker=marker, report=report, files_soft=self._files_soft)

        try:
            run.shim = _fork(keep)
            run.pidfd = os.pidfd_open(run.shim)
        except OSError as error:
            os.close(reading)
            run.phase = RUNNING
            self._write_off(run, f"no process could be made: {error.strerror}")
            return
        finally:
            os.close(report)
            os.close(marker)
        run.phase = RUNNING
        self._loop.watch(reading, lambda: self._on_report(run, reading))
        self._loop.watch(run.pidfd, lambda: self._on_shim_end(run))

    def _on_report(self, run: Run, reading: int) -> None:
        data = os.read(reading, 4096)
        self._loop.forget(reading)
        os.close(reading)
        if not data:  # it could not start, or the shim died: its end will tell
            return
        running: Record = json.loads(data)
        run.pid = records.number(running, "pid")
        run.ticks = records.number(running, "pid_ticks")
        run.started_wall = running.get("started_wall")
        self._answer_starters(run)

    def _answer_starters(self, run: Run, problem: str = "") -> None:
        run.is_starting = False
        starters, run.starters = run.starters, []
        if problem:
            run.exit = {"problem": problem}
        for told in starters:
            told(run)
        if problem:  # nothing ran, so whoever waits for its end has it
            run.exit = {}
            enders, run.enders = run.enders, []
            for told in enders:
                told(run)

    # --- ending

    def _order_stop(self, run: Run, grace_ms: int) -> None:
        if run.phase == EXITED:
            return
        if run.pidfd < 0:  # about to be forked, or not adopted yet
            self._loop.later(_LOOK_AGAIN_SECONDS, lambda: self._order_stop(run, grace_ms))
            return
        with contextlib.suppress(OSError):  # without the order the shim takes its usual grace
            records.write(
                f"{records.run_path(self._root, run.run)}/stop.json", {"grace_ms": grace_ms}, is_durable=False
            )
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(run.pidfd, signal.SIGTERM)

    def _on_shim_end(self, run: Run) -> None:
        self._loop.forget(run.pidfd)
        os.close(run.pidfd)
        run.pidfd = -1
        _reap()
        self._conclude(run)

    def _conclude(self, run: Run) -> None:
        """Its shim is gone. It wrote down the end, or was killed itself and left things behind."""
        path = records.run_path(self._root, run.run)
        ended = records.read(f"{path}/exit.json")
        if ended is not None:
            run.exit, run.phase = ended, EXITED
            self._tell_end(run)
            return
        self._read_running(run)
        group = self._cgroups.group(run.run).pids() if self._cgroups else []
        left = family.left_behind(run.run, session=run.pid, since_ticks=run.ticks, others=group)
        if left:
            family.kill(left)
            _reap()
            self._loop.later(_LOOK_AGAIN_SECONDS, lambda: self._conclude(run))
            return
        self._write_off(run, "it was gone when we looked: its keeper was killed, or the machine went down")

    def _write_off(self, run: Run, error: str) -> None:
        path = records.run_path(self._root, run.run)
        record: Record = {"exit_code": _VANISHED, "is_oom": False, "ran_ms": 0, "error": error}
        record |= {"started_wall": run.started_wall, "is_vanished": True}
        try:
            records.write(f"{path}/exit.json", record, is_durable=True)
        except OSError as problem:
            print(f"windlass executor: {run.run}: {problem}", file=sys.stderr)
            self._loop.later(1.0, lambda: self._write_off(run, error))
            return
        if self._cgroups:
            self._cgroups.group(run.run).remove()
        run.exit, run.phase = record, EXITED
        self._tell_end(run)

    def _tell_end(self, run: Run) -> None:
        for pid in run.viewers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        self._answer_starters(run)
        enders, run.enders = run.enders, []
        self._on_exit(run)
        for told in enders:
            told(run)

    def _delete(self, run: Run) -> None:
        """A rename decides; half-deleted, a run could look as if it had never started."""
        if self.runs.pop(run.run, None) is None:
            return
        gone = f"{self._root}/gone/{run.run}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(records.run_path(self._root, run.run), gone)
        records.remove_tree(gone)


def _fork(keep: Callable[[], None]) -> int:
    """Signals that a shim waits for are blocked across the fork, so that none is lost before it listens."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, shim.SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            keep()
            os._exit(70)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _lock(path: str) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def _is_locked(path: str) -> bool:
    try:
        os.close(_lock(path))
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
