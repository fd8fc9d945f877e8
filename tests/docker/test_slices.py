"""Slices on real engines: own cgroup parent, with limits, and the label; and where there can be none, why."""

import os
import secrets
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contracts.runtime_slices import CUT
from tests.contracts.runtime_suite import RealClock
from tests.docker.test_engine import an_assignment
from tests.parts.engine_api import EngineApi
from windlass.adapters.runtime import cgroups
from windlass.adapters.runtime.docker import DockerRuntime, groups
from windlass.adapters.runtime.docker.address import parse_address
from windlass.adapters.runtime.docker.engine import Facts
from windlass.adapters.runtime.docker.groups import find_groups
from windlass.adapters.runtime.docker.labels import Owner

CGROUPS = Path("/sys/fs/cgroup")
OWNER = Owner(installation="i", node="n")


@pytest.fixture(params=["docker_engine", "podman_service"])
def engine(request: pytest.FixtureRequest) -> EngineApi:
    found: EngineApi = request.getfixturevalue(request.param)
    return found


@pytest.mark.docker
@pytest.mark.anyio
async def test_a_container_of_a_slice_lies_below_the_slices_own_cgroup_with_its_limits_and_its_label(
    engine: EngineApi,
) -> None:
    assignment = replace(an_assignment("cut", "sleep 3600"), slice=CUT)
    other = an_assignment("whole", "sleep 3600")
    installation = f"slices-{secrets.token_hex(4)}"
    async with DockerRuntime.open(engine.host, installation=installation, node="n1", clock=RealClock()) as runtime:
        try:
            for one in (assignment, other):
                await runtime.ensure_volume(one.volume, labels={})
                await runtime.create(one)
                await runtime.start(one.run)
            record = engine.ask(f"/containers/{assignment.run}/json")
            parent = record["HostConfig"]["CgroupParent"]
            assert record["Config"]["Labels"]["windlass.dev/worker"] == CUT.node
            assert parent.endswith(f"/{CUT.node}")
            assert all(path.startswith(f"{parent}/") for path in _cgroups_of(record["State"]["Pid"]))
            assert _limits(parent) == (192 << 20, 750)
            whole = engine.ask(f"/containers/{other.run}/json")
            assert "windlass.dev/worker" not in whole["Config"]["Labels"]
            assert not any(path.startswith(parent) for path in _cgroups_of(whole["State"]["Pid"]))
        finally:
            await runtime.remove_all()
    assert not list(CGROUPS.glob(f"*{parent.rpartition('/')[0]}")) + list(CGROUPS.glob(parent[1:].split("/")[0]))


def _cgroups_of(pid: int) -> list[str]:
    """The paths by the controllers that limit it."""
    fields = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    found = [path for _, names, path in fields if {"memory", "cpu"} & set(names.split(","))]
    return found or [path for _, names, path in fields if not names]


def _limits(parent: str) -> tuple[int, int]:
    """Bytes and millicores."""
    if (CGROUPS / "cgroup.controllers").exists():
        quota, period = (CGROUPS / parent[1:] / "cpu.max").read_text().split()
        return int((CGROUPS / parent[1:] / "memory.max").read_text()), 1000 * int(quota) // int(period)
    quota, period = ((CGROUPS / "cpu" / parent[1:] / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    memory = (CGROUPS / "memory" / parent[1:] / "memory.limit_in_bytes").read_text()
    return int(memory), 1000 * int(quota) // int(period)


# — where it cannot be had, or is systemd's —


def facts(**changes: object) -> Facts:
    known = Facts(is_podman=False, version="1", cpus=2, memory_bytes=1, cgroup_driver="cgroupfs")
    return replace(known, **({"kernel": os.uname().release} | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "changes", "why"),
    [
        ("tcp://10.1.2.3:2375", {}, "the engine is not on this machine"),
        ("unix:///nowhere.sock", {"is_rootless": True}, "the engine runs without root"),
        ("unix:///nowhere.sock", {"kernel": "6.6-linuxkit"}, "the engine's containers run on a kernel of their own"),
        ("unix:///nowhere.sock", {}, "it cannot be seen which cgroups the engine uses (No such file or directory)"),
    ],
)
def test_it_is_said_why_a_slice_can_have_no_cgroup(host: str, changes: dict[str, object], why: str) -> None:
    assert find_groups(parse_address(host, {}), facts(**changes), OWNER) == (None, why)


def test_in_version_2_a_slice_is_one_directory_with_both_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ("cgroup.subtree_control", "memory.max", "cpu.max")
    make = cgroups.os.mkdir

    def mkdir(path: str, mode: int) -> None:
        make(path, mode)
        for name in files:  # as the kernel would have it
            (Path(path) / name).touch()

    for name in files:
        (tmp_path / name).touch()
    monkeypatch.setattr(cgroups.os, "mkdir", mkdir)
    monkeypatch.setattr(groups, "remove_trees", lambda tops: None)
    for name, seen in (("mounted", {"": str(tmp_path)}), ("hierarchies", (str(tmp_path),))):
        monkeypatch.setattr(groups, name, lambda seen=seen: seen)
    monkeypatch.setattr(groups, "_shares_namespace", lambda path: True)
    found, why_not = find_groups(parse_address("unix:///any.sock", {}), facts(), OWNER)
    assert (found is not None, why_not) == (True, "")
    assert found is not None
    found.make(CUT)
    parent = tmp_path / found.parent(CUT.node)[1:]
    assert (parent / "memory.max").read_text() == str(192 << 20)
    assert (parent / "cpu.max").read_text() == "75000 100000"
    assert CUT.node in found.names()


SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$0.calls"
case "$1" in
  start) touch "$0.$2" ;;
  stop) rm -f "$0.$2" ;;
  list-units) for unit in "$0".windlass-*.slice; do [ -e "$unit" ] && echo "${unit##*systemctl.} loaded active"; done; true ;;
esac
"""


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in that remembers units as files and what it was told: there is no systemd on this machine."""
    program = tmp_path / "systemctl"
    program.write_text(SYSTEMCTL)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(groups, "_SYSTEMD_RUNS", str(tmp_path))
    monkeypatch.setattr(groups, "_shares_namespace", lambda path: True)
    monkeypatch.setattr(groups.os, "geteuid", lambda: 0)
    return program


def test_an_engine_that_uses_systemd_is_given_a_unit_of_systemds_with_the_slices_limits(systemctl: Path) -> None:
    found, why_not = find_groups(parse_address("unix:///any.sock", {}), facts(cgroup_driver="systemd"), OWNER)
    assert (found is not None, why_not) == (True, "")
    assert found is not None
    unit = found.parent(CUT.node)
    assert unit.startswith("windlass-")
    assert unit.endswith("-pool_7_1.slice")
    found.make(CUT)
    calls = Path(f"{systemctl}.calls").read_text().splitlines()
    assert calls == [
        f"start {unit}",
        f"set-property --runtime {unit} CPUQuota=75% MemoryMax={192 << 20} MemorySwapMax=0",
    ]
    assert found.names() == [CUT.node]
    found.remove(CUT.node)
    assert found.names() == []


def test_an_engine_that_uses_systemd_where_there_is_none_leaves_slices_without(
    systemctl: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(groups, "_SYSTEMD_RUNS", str(tmp_path / "absent"))
    found, why_not = find_groups(parse_address("unix:///any.sock", {}), facts(cgroup_driver="systemd"), OWNER)
    assert found is None
    assert "systemd does not answer here" in why_not
