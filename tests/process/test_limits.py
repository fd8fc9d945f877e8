"""Limits where they can be had, and a plain word where not."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.nodes import DEADLINE_SECONDS, Node, finish, launch, output
from windlass.adapters.runtime import cgroups
from windlass.adapters.runtime.cgroups import Cgroups, Limits
from windlass.core.model.resources import Resources

WITHOUT = """
import sys
from windlass.adapters.runtime import cgroups
from windlass.adapters.runtime.process import executor
cgroups.mounted = dict
sys.exit(executor.main(sys.argv[1:]))
"""
LIMITS = Limits(memory_bytes=1 << 26, cpu_millis=1500, pids_max=10)
V2 = ("cgroup.procs", "cgroup.subtree_control", "memory.max", "memory.swap.max", "memory.events", "cpu.max", "pids.max")


@pytest.mark.anyio
async def test_without_cgroups_runs_go_unlimited_with_less_priority_and_the_machine_says_so(node: Node) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT, str(node.directory)], timeout=DEADLINE_SECONDS, check=True)
    async with node.runtime() as runtime:
        assert (
            await runtime.machine()
        ).runtime == "process (limits are not enforced: no cgroup file system is mounted)"
        run = await launch(runtime, "r-1", "nice", needs=Resources(memory_bytes=1 << 20, cpu_millis=10))
        assert (await finish(runtime, run)).exit_code == 0
        assert await output(runtime, run) == [b"5"]


@pytest.mark.anyio
async def test_a_workload_begins_with_signals_as_any_program_expects_them(node: Node) -> None:
    async with node.runtime() as runtime:
        run = await launch(runtime, "r-1", "grep", "^Sig", "/proc/self/status")
        await finish(runtime, run)
        found = dict(line.decode().split(":\t") for line in await output(runtime, run))
    of_the_c_library = 0b11 << 31  # two it keeps for itself, and ignores in what it spawns
    assert int(found["SigBlk"], 16) == 0
    assert int(found["SigIgn"], 16) & ~of_the_c_library == 0


@pytest.fixture
def unified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that looks like a version 2 hierarchy: files appear in what is made in it, as the kernel would have it."""
    for name in V2:
        (tmp_path / name).touch()
    make = cgroups.os.mkdir

    def mkdir(path: str, mode: int) -> None:
        make(path, mode)
        for name in V2:
            (Path(path) / name).touch()

    monkeypatch.setattr(cgroups.os, "mkdir", mkdir)
    monkeypatch.setattr(cgroups, "mounted", lambda: {"": str(tmp_path)})
    monkeypatch.setattr(cgroups, "_own_paths", lambda: {"": "/"})
    return tmp_path


def test_version_2_gets_its_own_words(unified: Path) -> None:
    found, reason = Cgroups.find("key")
    assert reason == ""
    assert found is not None
    assert (unified / "cgroup.subtree_control").read_text() == "+memory +cpu +pids"
    group = found.group("r-1")
    group.make(LIMITS)
    group.join()
    base = unified / "windlass-key"
    assert {
        name: (base / "r-1" / name).read_text() for name in ("memory.max", "memory.swap.max", "cpu.max", "pids.max")
    } == {
        "memory.max": "67108864",
        "memory.swap.max": "0",
        "cpu.max": "150000 100000",
        "pids.max": "10",
    }
    assert (base / "r-1" / "cgroup.procs").read_text() == "0"
    (base / "r-1" / "memory.events").write_text("oom 3\noom_kill 2\n")
    assert group.oom_kills() == 2
    (base / "r-1" / "cgroup.procs").write_text("7\n9\n")
    assert group.pids() == [7, 9]


def test_a_slice_in_version_2_has_limits_of_its_own_above_those_of_its_runs(unified: Path) -> None:
    found, _ = Cgroups.find("key")
    assert found is not None
    whole = Limits(memory_bytes=1 << 28, cpu_millis=3000, pids_max=0)
    found.group("r-1", slice_name="grow-7-1", slice_limits=whole).make(LIMITS)
    top = unified / "windlass-key" / "slice-grow-7-1"
    assert {
        name: (top / name).read_text() for name in ("memory.max", "cpu.max", "pids.max", "cgroup.subtree_control")
    } == {
        "memory.max": "268435456",
        "cpu.max": "300000 100000",
        "pids.max": "",
        "cgroup.subtree_control": "+memory +cpu +pids",
    }
    assert (top / "r-1" / "memory.max").read_text() == "67108864"
    assert found.slices() == ["grow-7-1"]


def test_a_hierarchy_without_our_controllers_is_no_promise(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(cgroups, "mounted", lambda: {"": str(unified)})
    monkeypatch.setattr(cgroups, "_own_paths", lambda: {"": "/"})
    found, reason = Cgroups.find("key")
    assert found is None
    assert "cgroups may not be used here" in reason
