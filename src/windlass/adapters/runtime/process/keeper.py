"""The executor's memory of its runs, and the one place that starts any. Standard library only.

A run is started at most once, also across crashes: that it is started is durable in its journal before the fork. A run that
was started, has no shim holding its journal's lock, and has no end written down, went down with the machine or with its shim:
what is left of it is ended, and it is written down as over. It is never started again.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable

from windlass.adapters.runtime.cgroups import Cgroups
from windlass.adapters.runtime.process import family, journal, kernel, records
from windlass.adapters.runtime.process.crew import Crew, Shim, reap
from windlass.adapters.runtime.process.loop import Loop
from windlass.adapters.runtime.process.records import Record
from windlass.adapters.runtime.process.trim import LOOK_SECONDS, Trimmer

CREATED, RUNNING, EXITED = "created", "running", "exited"
_VANISHED = 137
_NOT_STARTED = 126
_LOOK_AGAIN_SECONDS = 0.02
_STARTS_AT_ONCE = 16
"""One fsync of the directory serves them; more would keep everybody else waiting for the forks."""

Told = Callable[["Run"], None]


class Run:
    """What the executor knows of one run; the rest is in its directory."""

    def __init__(self, order: Record) -> None:
        self.run = records.text(order, "run")
        self.owner = records.text(order, "owner")
        self.volume = records.text(order, "volume")
        self.slice = records.text(records.table(order, "slice"), "name")
        self.token = order.get("token")
        self.phase = CREATED
        self.is_starting = False
        self.exit: Record = {}
        self.pid = 0
        self.ticks = 0
        self.shim: Shim | None = None
        self.started_wall: object = None
        self.starters: list[Told] = []
        self.handed: Record = {}
        """Variables that came with the start and are written down nowhere; gone as soon as its shim has them."""
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
        self._crew = Crew(loop, cgroups, on_word=self._on_word, on_death=self._on_death, files_soft=files_soft)
        self._due: list[Run] = []
        self._trimmer = Trimmer()
        self._is_trimming = False

    @property
    def is_idle(self) -> bool:
        return not any(run.phase == RUNNING or run.is_starting for run in self.runs.values())

    # --- after a restart

    def load(self) -> None:
        for name in os.listdir(f"{self._root}/runs"):
            self._load(name)
        if self._cgroups is not None:
            self._cgroups.sweep(frozenset(self.runs))
        self._trim_later()

    def _load(self, name: str) -> None:
        path = records.run_path(self._root, name)
        known = journal.read(path)
        if known is None:  # half made or half removed
            _remove_directory(path)
            return
        run = self.runs[name] = Run(known["order"])
        if "started" in known:
            run.phase = RUNNING
            self._adopt(run)

    def _adopt(self, run: Run) -> None:
        """Watch it again, if its shim lives; else it is over."""
        path = records.run_path(self._root, run.run)
        shim_pid = self._read_running(run)
        if not journal.is_locked(path):
            self._conclude(run)
            return
        with contextlib.suppress(ProcessLookupError):
            if shim_pid:
                run.shim = self._crew.adopt(run.run, shim_pid)
                # Locked still: so that pid is the shim's, and not somebody's who got it after. Else its end is on the way.
                if journal.is_locked(path):
                    return
                run.shim = None
        self._loop.later(_LOOK_AGAIN_SECONDS, lambda: self._adopt(run))

    def _read_running(self, run: Run) -> int:
        """The shim's pid, 0 while unknown."""
        running = (journal.read(records.run_path(self._root, run.run)) or {}).get("running", {})
        self._note_running(run, running)
        return records.number(running, "shim")

    def _note_running(self, run: Run, running: Record) -> None:
        run.pid = records.number(running, "pid")
        run.ticks = records.number(running, "pid_ticks")
        run.started_wall = running.get("started_wall")

    # --- verbs

    def create(self, order: Record) -> None:
        run = records.text(order, "run")
        journal.begin(records.run_path(self._root, run), order)
        self.runs[run] = Run(order)

    def start(self, run: Run, told: Told, *, handed: Record) -> None:
        """Told when it runs, or has ended without."""
        if (run.phase == RUNNING and not run.is_starting) or run.phase == EXITED:
            told(run)
            return
        run.starters.append(told)
        if not run.is_starting:
            run.is_starting = True
            run.handed = handed
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
        pid = self._crew.visit(keep, on_end=lambda pid: run.viewers.discard(pid) if run else None)
        if run is not None:
            run.viewers.add(pid)
        return pid

    # --- starting

    def start_due(self) -> None:
        """All starts that were asked for in one turn of the loop, made durable together, then forked."""
        due, self._due = self._due[:_STARTS_AT_ONCE], self._due[_STARTS_AT_ONCE:]
        if self._due:
            self._loop.later(0, lambda: None)
        books = [(run, book) for run in due if (book := self._write_start(run)) >= 0]
        if books:
            records.sync_directory(f"{self._root}/runs")
        for run, book in books:
            run.phase = RUNNING
            journal.lock(book)
            handed, run.handed = run.handed, {}
            try:
                run.shim = self._crew.keep(run.run, records.run_path(self._root, run.run), book, handed)
                self._trim_later()
            except OSError as error:
                self._write_off(run, f"no process could be made: {error.strerror}", exit_code=_NOT_STARTED)

    def _write_start(self, run: Run) -> int:
        """The journal, open; -1 when it could not be written: it did not run, and may be tried again."""
        path, book = records.run_path(self._root, run.run), -1
        try:
            book = journal.open_for_writing(path)
            journal.append(book, "started", {}, is_durable=True)
            records.sync_directory(path)
        except OSError as error:
            if book >= 0:
                os.close(book)
            self._answer_starters(run, f"its start cannot be written down: {error.strerror}")
            return -1
        return book

    def _on_word(self, name: str, word: Record) -> None:
        run = self.runs[name]
        if "running" in word:
            self._note_running(run, records.table(word, "running"))
            self._answer_starters(run)
        if "exit" in word:
            run.exit, run.phase, run.shim = records.table(word, "exit"), EXITED, None
            self._tell_end(run)

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

    # --- its output

    def _trim_later(self) -> None:
        if not self._is_trimming and any(run.phase == RUNNING for run in self.runs.values()):
            self._is_trimming = True
            self._loop.later(LOOK_SECONDS, self._trim)

    def _trim(self) -> None:
        self._is_trimming = False
        running = [run.run for run in self.runs.values() if run.phase == RUNNING]
        self._trimmer.look(records.run_path(self._root, run) for run in running)
        self._trim_later()

    # --- ending

    def _order_stop(self, run: Run, grace_ms: int) -> None:
        if run.phase == EXITED:
            return
        if run.shim is None:  # about to be forked, or not adopted yet
            self._loop.later(_LOOK_AGAIN_SECONDS, lambda: self._order_stop(run, grace_ms))
        else:
            run.shim.stop(records.run_path(self._root, run.run), grace_ms)

    def _on_death(self, name: str) -> None:
        run = self.runs.get(name)
        if run is not None and run.phase == RUNNING:
            run.shim = None
            self._conclude(run)

    def _conclude(self, run: Run) -> None:
        """Its shim is gone. It wrote down the end, or was killed itself and left things behind."""
        if run.phase != RUNNING:
            return
        ended = (journal.read(records.run_path(self._root, run.run)) or {}).get("exit")
        if ended is not None:
            run.exit, run.phase = ended, EXITED
            self._tell_end(run)
            return
        if left := self._left_behind(run):
            family.kill(left)
            reap()
            self._loop.later(_LOOK_AGAIN_SECONDS, lambda: self._conclude(run))
            return
        self._write_off(run, "it was gone when we looked: its keeper was killed, or the machine went down")

    def _left_behind(self, run: Run) -> list[int]:
        running = (journal.read(records.run_path(self._root, run.run)) or {}).get("running", {})
        if running and running.get("boot") != kernel.boot_id():
            return []
        left = set(family.left_behind(run.run, leader=run.pid, leader_ticks=run.ticks)) | set(self._crew.strays())
        if self._cgroups is not None:
            left.update(self._cgroups.group(run.run, slice_name=run.slice).pids())
        return sorted(left - {os.getpid()})

    def _write_off(self, run: Run, error: str, *, exit_code: int = _VANISHED) -> None:
        """Written by us in its shim's stead. A run that never began has failed to start; any other has vanished."""
        if run.phase != RUNNING:
            return
        record: Record = {"exit_code": exit_code, "is_oom": False, "ran_ms": 0, "error": error}
        record |= {"started_wall": run.started_wall, "is_vanished": exit_code == _VANISHED}
        try:
            book = journal.open_for_writing(records.run_path(self._root, run.run))
            try:
                journal.append(book, "exit", record, is_durable=True)
            finally:
                os.close(book)
        except OSError as problem:
            print(f"windlass executor: {run.run}: {problem}", file=sys.stderr)
            self._loop.later(1.0, lambda: self._write_off(run, error, exit_code=exit_code))
            return
        if self._cgroups:
            self._cgroups.group(run.run, slice_name=run.slice).remove()
        run.exit, run.phase = record, EXITED
        self._tell_end(run)

    def _tell_end(self, run: Run) -> None:
        path = records.run_path(self._root, run.run)
        self._trimmer.look([path])
        self._trimmer.forget(path)
        for pid in run.viewers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        self._answer_starters(run)
        enders, run.enders = run.enders, []
        self._on_exit(run)
        for told in enders:
            told(run)

    def _delete(self, run: Run) -> None:
        """The journal goes first: without it there is no run, with it there is all of it."""
        if self.runs.pop(run.run, None) is not None:
            path = records.run_path(self._root, run.run)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{path}/{journal.NAME}")
            _remove_directory(path)


def _remove_directory(path: str) -> None:
    """A run's own directory holds files only; whatever else may be there stays, and is tried again at the next start."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path):
            os.unlink(f"{path}/{name}")
        os.rmdir(path)
