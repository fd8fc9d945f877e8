"""Removing what container engines leave outside their directories: processes, mounts, cgroups, shim sockets.

Everything is found by something that only our part has (its socket path, its directory, its cgroup), so that another engine
on the same machine is never touched.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.parts import present
from tests.parts.waiting import wait_for

CGROUPS = Path("/sys/fs/cgroup")
SHIM_SOCKETS = Path("/run/containerd/s")
SHIM_STATE = Path("/run/containerd/runc")


def kill_cgroup(name: str) -> None:
    """Kill all processes in the cgroup `name`, below every controller, and remove it."""
    for top in _cgroup_directories(name):
        wait_for(lambda top=top: _kill_members(top), 120, f"the processes of {top} to end")  # type: ignore[misc]
        for directory, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)


def end_tasks(address: Path, state: Path) -> None:
    """End the tasks of a containerd that cannot do it itself any more: their processes, cgroups, shims and sockets."""
    for task in state.glob("io.containerd.runtime.v2.task/*/*"):
        cgroups = {line.split(":", 2)[2].strip("/") for line in _read(_proc(task) / "cgroup").splitlines()}
        for cgroup in cgroups:
            if task.name in cgroup:  # else the task is gone, and its pid is someone else's
                kill_cgroup(cgroup)
        shutil.rmtree(SHIM_STATE / task.parent.name / task.name, ignore_errors=True)
    _kill_shims(address)
    # Shims listen in a directory common to the whole machine; a killed one leaves its socket there.
    for note in state.glob("io.containerd.runtime.v2.task/*/*/address"):
        socket = Path(note.read_text().strip().removeprefix("unix://"))
        if socket.parent == SHIM_SOCKETS:
            socket.unlink(missing_ok=True)


def kill_podman_monitors(directory: Path) -> None:
    """The monitor of an `exec` outlives its container; a monitor names the directory of its Podman many times."""
    for pid, words in _processes():
        is_monitor = words[0].rpartition("/")[2] in ("conmon", "podman")
        if is_monitor and any(f"{directory}/" in word for word in words):
            _kill(pid)


def unmount_below(directory: Path) -> None:
    """Detach every mount under the directory, deepest first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [_unescaped(line.split()[4]) for line in lines]
    for point in sorted((p for p in points if p.startswith(f"{directory}/")), key=len, reverse=True):
        subprocess.run([present.program("umount"), "--lazy", point], capture_output=True, check=False)


def _kill_shims(address: Path) -> None:
    def shims() -> list[int]:
        named = (
            (pid, words) for pid, words in _processes() if words[0].rpartition("/")[2].startswith("containerd-shim")
        )
        return [pid for pid, words in named if str(address) in words]

    for pid in shims():
        _kill(pid)
    wait_for(lambda: not shims(), 120, f"the shims of {address} to end")


def _proc(task: Path) -> Path:
    return Path("/proc") / (_read(task / "init.pid").strip() or "none")


def _cgroup_directories(name: str) -> list[Path]:
    """One directory under the unified hierarchy, or one per controller under version 1."""
    candidates = [CGROUPS / name, *(top / name for top in CGROUPS.iterdir() if top.is_dir())]
    return [path for path in candidates if path.is_dir()]


def _kill_members(top: Path) -> bool:
    """Kill what is in the cgroup now; true when nothing was."""
    # Cgroups go while they are walked through; `os.walk` passes over those, where `rglob` fails.
    places = (Path(directory, "cgroup.procs") for directory, _, _ in os.walk(top))
    pids = {int(pid) for place in places for pid in _read(place).split()}
    for pid in pids:
        _kill(pid)
    return not pids


def _processes() -> list[tuple[int, list[str]]]:
    """Every living process with its arguments; zombies have none and do not count."""
    entries = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
    told = ((int(entry.name), _read(entry / "cmdline").split("\0")[:-1]) for entry in entries)
    return [(pid, arguments) for pid, arguments in told if arguments]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # gone meanwhile
        return ""


def _unescaped(path: str) -> str:
    return path.encode().decode("unicode_escape")
