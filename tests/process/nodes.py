"""A node directory with real processes in it, and the words to speak of them in tests."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from windlass.adapters.runtime.process import journal
from windlass.adapters.runtime.process.runtime import ProcessRuntime
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import JobId, NodeId, RunId, TenantId, VolumeId
from windlass.core.model.job import JobSpec
from windlass.core.model.resources import Resources
from windlass.core.model.run import Intent, Token
from windlass.ports.runtime import LogPosition, Observed, Stream, Terminal

VOLUME = VolumeId("volume-1")
DEADLINE_SECONDS = 120
EXECUTOR = (sys.executable, "-m", "windlass.adapters.runtime.process.executor")


def an_assignment(run: str, *command: str, **changes: object) -> Assignment:
    spec: dict[str, object] = {"command": command, "needs": Resources()} | changes
    return Assignment(
        run=RunId(run),
        job=JobId("job-1"),
        tenant=TenantId("local"),
        name="a-job",
        token=Token(3, 7),
        intent=Intent.RUN,
        volume=VOLUME,
        attempt=2,
        spec=JobSpec(**spec),  # type: ignore[arg-type]
    )


class Node:
    """What a test holds of one node directory, whichever server is on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @asynccontextmanager
    async def runtime(self, *, installation: str = "home", node: str = "node-1") -> AsyncIterator[ProcessRuntime]:
        async with ProcessRuntime.open(self.directory, installation, NodeId(node)) as runtime:
            await runtime.ensure_volume(VOLUME, labels={}) if installation == "home" else None
            yield runtime

    @property
    def volume(self) -> Path:
        return self.directory / "volumes" / VOLUME

    def journal(self, run: str) -> dict[str, dict[str, object]]:
        return journal.read(str(self.directory / "runs" / run)) or {}

    def shim_of(self, run: str) -> int:
        shim = self.journal(run)["running"]["shim"]
        assert isinstance(shim, int)
        return shim

    def marked(self, run: str) -> list[int]:
        """Living processes that carry the run's name in their environment, and this node's volume: other tests have runs of that
        name at the same time."""
        marks = {f"WINDLASS_RUN={run}".encode(), f"WINDLASS_ARTIFACTS={self.volume}".encode()}
        found = []
        for entry in os.listdir("/proc"):
            try:
                environment = Path(f"/proc/{entry}/environ").read_bytes() if entry.isdigit() else b""
            except OSError:
                continue
            if marks <= set(environment.split(b"\0")) and is_alive(int(entry)):
                found.append(int(entry))
        return found

    def executor(self) -> int:
        """Its pid: it has the lock and its own name. The lock alone is also its launchers', until they are gone, and for the
        moment of a fork lock and name are its shims' too."""
        parents = {
            pid: parent for pid, name, parent in _who_has_open(self.directory / "lock") if name == "windlass-exec"
        }
        for pid, parent in parents.items():
            if parent not in parents:
                return pid
        raise LookupError("no executor")

    def kill_executor(self) -> int:
        """And wait until it is gone: who looks for it at once could find the one that is dying."""
        pid = self.executor()
        os.kill(pid, signal.SIGKILL)
        assert until(DEADLINE_SECONDS, lambda: not is_alive(pid)), "a killed executor lives on"
        return pid

    def stop(self) -> int:
        return subprocess.run(
            [*EXECUTOR, "--stop", str(self.directory)], check=False, timeout=DEADLINE_SECONDS
        ).returncode


async def launch(runtime: ProcessRuntime, run: str, *command: str, **changes: object) -> RunId:
    await runtime.create(an_assignment(run, *command, **changes))
    await runtime.start(RunId(run))
    return RunId(run)


async def finish(runtime: ProcessRuntime, run: str) -> Observed:
    with anyio.fail_after(DEADLINE_SECONDS):
        return await runtime.wait(RunId(run))


async def output(runtime: ProcessRuntime, run: str, stream: Stream = Stream.STDOUT) -> list[bytes]:
    with anyio.fail_after(DEADLINE_SECONDS):
        lines = [line async for line in runtime.logs(RunId(run), after=LogPosition())]
    return [line.text for line in lines if line.stream is stream]


async def everything_from(terminal: Terminal) -> bytes:
    with anyio.fail_after(DEADLINE_SECONDS):
        return b"".join([data async for _, data in terminal.output()])


async def eventually(fact: Callable[[], bool]) -> None:
    with anyio.fail_after(DEADLINE_SECONDS):
        while not fact():
            await anyio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(deadline_seconds: float, fact: Callable[[], bool]) -> bool:
    end = time.monotonic() + deadline_seconds
    while not fact():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _who_has_open(path: Path) -> Iterator[tuple[int, str, int]]:
    """Pid, name and parent of each living process that does."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # a process that went while we looked
            if any(_links_to(path, f"/proc/{entry}/fd/{fd}") for fd in os.listdir(f"/proc/{entry}/fd")):
                name, _, rest = Path(f"/proc/{entry}/stat").read_text().partition("(")[2].rpartition(")")
                yield int(entry), name, int(rest.split()[1])


def _links_to(path: Path, link: str) -> bool:
    try:
        return os.readlink(link) == str(path)
    except OSError:  # closed while we looked: its owner is there all the same
        return False
