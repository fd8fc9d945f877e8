"""What a part may leave outside its directory, as data, and one function that removes it.

As data, because the part itself may not get to do it: when a test run is killed, `warden` removes the same things.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.parts import remains
from tests.parts.addresses import taken_slot


@dataclass(frozen=True, kw_only=True)
class Process:
    """A pid with the time it was born, so that a pid that was given out again is never killed."""

    pid: int
    born: str


@dataclass(frozen=True, kw_only=True)
class Traces:
    """Everything of one part; what does not apply is empty."""

    directory: str
    owns_directory: bool
    processes: tuple[Process, ...] = ()
    farewells: tuple[tuple[str, ...], ...] = ()  # commands that tidy up while the processes still live
    cgroup: str = ""
    containerd_socket: str = ""
    bridge: str = ""
    bridge_claim: str = ""
    is_podman: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Traces":
        fields = json.loads(text)
        fields["processes"] = tuple(Process(**process) for process in fields["processes"])
        fields["farewells"] = tuple(tuple(command) for command in fields["farewells"])
        return cls(**fields)


def process(pid: int) -> Process:
    return Process(pid=pid, born=_born(pid))


def sweep(traces: Traces) -> None:
    """Remove everything but the directory; safe to call twice, and when half of it is gone."""
    for command in traces.farewells:
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=False)
    for known in traces.processes:
        if known.born and _born(known.pid) == known.born:
            with contextlib.suppress(ProcessLookupError):
                os.kill(known.pid, signal.SIGKILL)
    if traces.cgroup:
        remains.kill_cgroup(traces.cgroup)
    if traces.containerd_socket:
        socket = Path(traces.containerd_socket)
        remains.end_tasks(socket, socket.parent / "state")
    remains.unmount_below(Path(traces.directory))
    if traces.bridge:
        taken_slot(traces.bridge, traces.bridge_claim).release()
    if traces.is_podman:
        remains.kill_podman_monitors(Path(traces.directory))


def remove_directory(traces: Traces) -> None:
    if traces.owns_directory:
        shutil.rmtree(traces.directory, ignore_errors=True)


def _born(pid: int) -> str:
    """Field 22 of stat: clock ticks since boot; nothing for a pid that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
