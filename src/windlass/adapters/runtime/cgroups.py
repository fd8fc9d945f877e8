"""Memory, CPU and pid limits of runs and of slices by cgroups, version 1 or 2, where this user may make them.

Where cgroups cannot be had (no root, a read-only mount in a container), `find` says why, runs go without limits, and the
node's description says so. We try the top of the hierarchy first, as container engines do: a group below our own caller's
would be ended with the caller's session or service, and runs must outlive it. The runs of a slice lie in a group of the
slice's own, whose limits hold for all of them together. Standard library only.
"""

import contextlib
import os
from collections.abc import Callable, Iterable

CONTROLLERS = ("memory", "cpu", "pids")
_OPTIONAL = ("memory.swap.max", "memory.memsw.limit_in_bytes")
"""Swap accounting is a kernel's choice; without the others there is no limit, and that must be said."""
_PERIOD_US = 100_000
_QUOTA_US_MIN = 1_000  # the kernel refuses less
_SLICE = "slice-"
"""Before a slice's name: a run's group beside it cannot be called so."""


class Limits:
    """Zero means none."""

    __slots__ = ("cpu_millis", "memory_bytes", "pids_max")

    def __init__(self, *, memory_bytes: int, cpu_millis: int, pids_max: int) -> None:
        self.memory_bytes = memory_bytes
        self.cpu_millis = cpu_millis
        self.pids_max = pids_max


class Group:
    """One run's cgroups. A process joins, spawns the workload inside, and goes home: so the shim is not counted or killed."""

    def __init__(
        self, paths: dict[str, str], homes: dict[str, str], *, is_v2: bool, make_bases: Callable[[], None]
    ) -> None:
        self._make_bases = make_bases
        self._paths = paths
        self._homes = homes
        self._is_v2 = is_v2

    def make(self, limits: Limits) -> None:
        try:
            self._make_directories()
        except FileNotFoundError:  # somebody tidied up what looked unused
            self._make_bases()
            self._make_directories()
        set_limits(self._paths, limits, is_v2=self._is_v2)

    def _make_directories(self) -> None:
        for path in set(self._paths.values()):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o755)

    def join(self) -> None:
        for path in set(self._paths.values()):
            _write(f"{path}/cgroup.procs", "0")

    def leave(self) -> None:
        for path in set(self._homes.values()):
            _write(f"{path}/cgroup.procs", "0")

    def pids(self) -> list[int]:
        found: set[int] = set()
        for path in set(self._paths.values()):
            with contextlib.suppress(OSError):
                found.update(int(line) for line in _read(f"{path}/cgroup.procs").split())
        return sorted(found)

    def oom_kills(self) -> int:
        """How often the kernel killed in here for want of memory."""
        name = "memory.events" if self._is_v2 else "memory.oom_control"
        with contextlib.suppress(OSError):
            for line in _read(f"{self._paths['memory']}/{name}").splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    return int(value)
        return 0

    def memory_peak(self) -> int:
        """The most that was held in here at once; 0 where the kernel does not tell."""
        name = "memory.peak" if self._is_v2 else "memory.max_usage_in_bytes"
        with contextlib.suppress(OSError, ValueError):
            return int(_read(f"{self._paths['memory']}/{name}"))
        return 0

    def remove(self) -> None:
        for path in set(self._paths.values()):
            with contextlib.suppress(OSError):  # absent, or a process is still on its way out: swept at the next start
                os.rmdir(path)


class Cgroups:
    """Where the groups of one node directory's runs lie."""

    def __init__(self, bases: dict[str, str], homes: dict[str, str], *, is_v2: bool) -> None:
        self._bases = bases
        self._homes = homes
        self._is_v2 = is_v2

    @classmethod
    def find(cls, key: str) -> tuple["Cgroups | None", str]:
        """`key` tells the node directories of one machine apart. Answers None and the reason where limits cannot be had."""
        if not (mounts := mounted()):
            return None, "no cgroup file system is mounted"
        own = _own_paths()
        reason = "no cgroup hierarchy here may be written"
        for is_top in (True, False):
            try:
                found = cls._at(mounts, own, f"windlass-{key}", is_top=is_top)
                found.probe()
                return found, ""
            except (OSError, KeyError) as error:
                reason = f"cgroups may not be used here ({error})"
        return None, reason

    @classmethod
    def _at(cls, mounts: dict[str, str], own: dict[str, str], name: str, *, is_top: bool) -> "Cgroups":
        places, is_v2 = controllers(mounts)
        homes = {c: _join(places[c], own["" if is_v2 else c]) for c in CONTROLLERS}
        bases = {c: f"{places[c] if is_top else homes[c]}/{name}" for c in CONTROLLERS}
        found = cls(bases, homes, is_v2=is_v2)
        found.make_bases()
        return found

    def make_bases(self) -> None:
        make_parents(self._bases, is_v2=self._is_v2)

    def probe(self) -> None:
        """Make one, go in, come out: only what was tried is promised."""
        group = self.group("probe")
        group.make(Limits(memory_bytes=1 << 30, cpu_millis=1000, pids_max=4096))
        try:
            group.join()
        finally:
            group.leave()
            group.remove()

    def group(self, run: str, *, slice_name: str = "", slice_limits: Limits | None = None) -> Group:
        """`slice_limits` are needed by who makes it: with the first run of a slice comes the slice's own group."""
        bases = self._slice(slice_name) if slice_name else self._bases
        paths = {c: f"{base}/{run}" for c, base in bases.items()}

        def make_parents_again() -> None:
            self.make_bases()
            if slice_name:
                make_parents(bases, is_v2=self._is_v2)
                set_limits(bases, slice_limits or Limits(memory_bytes=0, cpu_millis=0, pids_max=0), is_v2=self._is_v2)

        return Group(paths, self._homes, is_v2=self._is_v2, make_bases=make_parents_again)

    def slices(self) -> list[str]:
        """Those that have a group here."""
        found: set[str] = set()
        for base in set(self._bases.values()):
            found.update(name.removeprefix(_SLICE) for name in _below(base) if name.startswith(_SLICE))
        return sorted(found)

    def end_slice(self, name: str) -> None:
        """OSError while something runs in it."""
        remove_trees(self._slice(name).values())

    def sweep(self, keep: frozenset[str]) -> None:
        """Remove the empty groups of runs that are no more, left by a crash between end and cleaning."""
        for base in set(self._bases.values()):
            for parent in (base, *(f"{base}/{name}" for name in _below(base) if name.startswith(_SLICE))):
                for name in _below(parent):
                    if name not in keep and not name.startswith(_SLICE):
                        with contextlib.suppress(OSError):
                            os.rmdir(f"{parent}/{name}")

    def remove(self) -> None:
        """All that is empty."""
        for name in self.slices():
            with contextlib.suppress(OSError):
                self.end_slice(name)
        for base in set(self._bases.values()):
            with contextlib.suppress(OSError):
                os.rmdir(base)

    def _slice(self, name: str) -> dict[str, str]:
        return {c: f"{base}/{_SLICE}{name}" for c, base in self._bases.items()}


def mounted() -> dict[str, str]:
    """Mount point by controller; version 2's under the empty name."""
    found: dict[str, str] = {}
    for line in _read("/proc/self/mounts").splitlines():
        _, point, kind, options, *_ = line.split(" ")
        if kind == "cgroup2":
            found.setdefault("", point)
        elif kind == "cgroup":
            found.update({c: point for c in CONTROLLERS if c in options.split(",")})
    return found


def hierarchies() -> tuple[str, ...]:
    """Every mount point: a container engine makes its groups below all of them."""
    fields = (line.split(" ") for line in _read("/proc/self/mounts").splitlines())
    return tuple(dict.fromkeys(point for _, point, kind, *_ in fields if kind in ("cgroup", "cgroup2")))


def controllers(mounts: dict[str, str]) -> tuple[dict[str, str], bool]:
    """Where the controllers that we need are, and whether they are version 2's. KeyError when one is missing."""
    is_v2 = "memory" not in mounts
    return {controller: mounts["" if is_v2 else controller] for controller in CONTROLLERS}, is_v2


def make_parents(paths: dict[str, str], *, is_v2: bool) -> None:
    """Groups for others to lie in. For one that is there nothing happens."""
    for path in dict.fromkeys(paths.values()):
        if is_v2:
            _delegate(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o755)
        if is_v2:
            _delegate(path)


def set_limits(paths: dict[str, str], limits: Limits, *, is_v2: bool) -> None:
    for controller, name, value in _settings(limits, is_v2=is_v2):
        path = f"{paths[controller]}/{name}"
        if name not in _OPTIONAL or os.path.exists(path):
            _write(path, value)


def remove_trees(tops: Iterable[str]) -> None:
    """Groups with all that lies in them, the innermost first. One that is absent is fine; OSError while a process is in one."""
    for top in dict.fromkeys(tops):
        for path, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(path)


def _settings(limits: Limits, *, is_v2: bool) -> list[tuple[str, str, str]]:
    quota = max(_QUOTA_US_MIN, limits.cpu_millis * _PERIOD_US // 1000)
    found: list[tuple[str, str, str]] = []
    if limits.memory_bytes:
        memory = str(limits.memory_bytes)
        # Swap would only delay the end and slow the whole machine meanwhile: the limit counts it.
        names = (
            (("memory.max", memory), ("memory.swap.max", "0"))
            if is_v2
            else (("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory))
        )
        found += [("memory", name, value) for name, value in names]
    if limits.cpu_millis and is_v2:
        found.append(("cpu", "cpu.max", f"{quota} {_PERIOD_US}"))
    elif limits.cpu_millis:
        found += [("cpu", "cpu.cfs_period_us", str(_PERIOD_US)), ("cpu", "cpu.cfs_quota_us", str(quota))]
    if limits.pids_max:
        found.append(("pids", "pids.max", str(limits.pids_max)))
    return found


def _below(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []


def _own_paths() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _join(place: str, path: str) -> str:
    """In a container the mount may already be our own group, and the path from outside does not exist."""
    full = f"{place}{path}".rstrip("/")
    return full if os.path.isdir(full) else place


def _delegate(path: str) -> None:
    wanted = [c for c in CONTROLLERS if c not in _read(f"{path}/cgroup.subtree_control").split()]
    if wanted:
        _write(f"{path}/cgroup.subtree_control", " ".join(f"+{c}" for c in wanted))


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path: str, value: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)
