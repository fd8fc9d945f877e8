"""A cgroup of its own for each slice: the containers of its runs lie below it, and its limits hold for all of them together.

`find_groups` looks at what this engine and this machine allow, and says why not. An engine that uses cgroupfs puts containers
below any path we made; one that uses systemd wants the name of a slice unit, which systemd makes and limits for us. Nothing is
promised where we could not also remove it: an engine elsewhere, in another cgroup namespace, or without root.
"""

import contextlib
import hashlib
import os
import shutil
import socket
import struct
import subprocess
from typing import Final, Protocol

from windlass.adapters.runtime.cgroups import (
    Limits,
    controllers,
    hierarchies,
    make_parents,
    mounted,
    remove_trees,
    set_limits,
)
from windlass.adapters.runtime.docker.address import Address
from windlass.adapters.runtime.docker.engine import Facts
from windlass.adapters.runtime.docker.labels import Owner
from windlass.core.model.assignment import Slice

_SYSTEMD: Final = "systemd"
_SYSTEMD_RUNS: Final = "/run/systemd/system"
_SYSTEMCTL_SECONDS: Final = 20
_PEER: Final = struct.Struct("3i")
_PROBE: Final = "probe"


class Groups(Protocol):
    """All verbs block for a moment: call them from a thread. OSError when the machine says no."""

    def parent(self, slice_name: str) -> str:
        """What the engine is told to put a container below."""
        ...

    def make(self, cut: Slice) -> None:
        """With its limits; for one that is there they are set again."""
        ...

    def names(self) -> list[str]: ...

    def remove(self, slice_name: str) -> None:
        """One that never was is fine; OSError while something runs in it."""
        ...

    def remove_all(self) -> None: ...


def find_groups(address: Address, facts: Facts, owner: Owner) -> tuple[Groups | None, str]:
    """None, and why, where a slice can have none."""
    if why_not := _why_not(address, facts):
        return None, why_not
    key = f"windlass-{hashlib.sha256(f'{owner.installation}/{owner.node}'.encode()).hexdigest()[:12]}"
    try:
        if facts.cgroup_driver == _SYSTEMD:
            return _Units(key, _systemctl()), ""
        return _Directories.probed(key), ""
    except (OSError, KeyError) as error:
        return None, f"cgroups may not be used here ({error})"


def _why_not(address: Address, facts: Facts) -> str:
    if not address.is_local:
        return "the engine is not on this machine"
    if facts.is_rootless:
        return "the engine runs without root"
    if facts.kernel != os.uname().release:
        return "the engine's containers run on a kernel of their own"
    try:
        return "" if _shares_namespace(address.socket) else "the engine is in another cgroup namespace"
    except OSError as error:
        return f"it cannot be seen which cgroups the engine uses ({error.strerror})"


def _shares_namespace(path: str) -> bool:
    """A server in a container may hold the engine's socket, but sees other cgroups than the engine does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect(path)
        pid, _, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    ours, theirs = (os.stat(f"/proc/{who}/ns/cgroup") for who in ("self", pid))
    return os.path.samestat(ours, theirs)


class _Directories:
    """For an engine that uses cgroupfs."""

    def __init__(self, base: str, places: dict[str, str], *, is_v2: bool) -> None:
        self._base = base
        self._places = places
        self._is_v2 = is_v2

    @classmethod
    def probed(cls, base: str) -> "_Directories":
        """Only what was tried is promised."""
        places, is_v2 = controllers(mounted())
        found = cls(base, places, is_v2=is_v2)
        found._make(_PROBE, Limits(memory_bytes=1 << 30, cpu_millis=1000, pids_max=0))
        found.remove(_PROBE)
        return found

    def parent(self, slice_name: str) -> str:
        return f"/{self._base}/{slice_name}"

    def make(self, cut: Slice) -> None:
        self._make(cut.node, limits_of(cut))

    def names(self) -> list[str]:
        found: set[str] = set()
        for top in self._tops():
            if os.path.isdir(top):
                found.update(entry.name for entry in os.scandir(top) if entry.is_dir())
        return sorted(found)

    def remove(self, slice_name: str) -> None:
        remove_trees(f"{top}/{slice_name}" for top in self._tops())
        for top in self._tops():
            with contextlib.suppress(OSError):  # other slices are there, or it is gone
                os.rmdir(top)

    def remove_all(self) -> None:
        remove_trees(self._tops())

    def _make(self, slice_name: str, limits: Limits) -> None:
        bases = {name: f"{place}/{self._base}" for name, place in self._places.items()}
        paths = {name: f"{base}/{slice_name}" for name, base in bases.items()}
        make_parents(bases, is_v2=self._is_v2)
        make_parents(paths, is_v2=self._is_v2)
        set_limits(paths, limits, is_v2=self._is_v2)

    def _tops(self) -> list[str]:
        """An engine makes its groups below every hierarchy, whether it limits anything there or not."""
        return [f"{place}/{self._base}" for place in hierarchies()]


class _Units:
    """For an engine that uses systemd. In a unit's name a dash means "below": the slice's own are written otherwise."""

    def __init__(self, base: str, systemctl: str) -> None:
        self._base = base
        self._systemctl = systemctl

    def parent(self, slice_name: str) -> str:
        return f"{self._base}-{slice_name.replace('-', '_')}.slice"

    def make(self, cut: Slice) -> None:
        unit, limits = self.parent(cut.node), limits_of(cut)
        self._call("start", unit)
        quota = f"CPUQuota={max(1, limits.cpu_millis // 10)}%"
        self._call("set-property", "--runtime", unit, quota, f"MemoryMax={limits.memory_bytes}", "MemorySwapMax=0")

    def names(self) -> list[str]:
        start = f"{self._base}-"
        return [unit.removeprefix(start).removesuffix(".slice").replace("_", "-") for unit in self._units()]

    def remove(self, slice_name: str) -> None:
        """Stopping a unit would end what runs in it; what the World gave back has nothing that runs."""
        unit = self.parent(slice_name)
        if unit in self._units():
            self._call("stop", unit)
            self._call("revert", unit)

    def remove_all(self) -> None:
        for name in self.names():
            self.remove(name)
        self._call("stop", f"{self._base}.slice")

    def _units(self) -> list[str]:
        listed = self._call("list-units", "--type=slice", "--plain", "--no-legend", f"{self._base}-*.slice")
        return sorted(line.split()[0] for line in listed.splitlines() if line.strip())

    def _call(self, *words: str) -> str:
        try:
            done = subprocess.run(
                [self._systemctl, *words], capture_output=True, text=True, timeout=_SYSTEMCTL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise OSError(f"systemctl {words[0]} did not end within {_SYSTEMCTL_SECONDS} s") from error
        if done.returncode != 0:
            raise OSError(f"systemctl {words[0]}: {done.stderr.strip() or f'exit {done.returncode}'}")
        return done.stdout


def limits_of(cut: Slice) -> Limits:
    return Limits(memory_bytes=cut.capacity.memory_bytes, cpu_millis=cut.capacity.cpu_millis, pids_max=0)


def _systemctl() -> str:
    program = shutil.which("systemctl")
    if program is None or not os.path.isdir(_SYSTEMD_RUNS):
        raise OSError("the engine uses systemd, and systemd does not answer here")
    if os.geteuid() != 0:
        raise OSError("only root may limit a slice of systemd's")
    return program
