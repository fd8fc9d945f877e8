"""The rules around the bridges: put in place again and again, gone without a trace; and where there can be none, why."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.test_slices import facts
from tests.parts import present
from tests.parts.namespace import Namespace
from windlass.adapters.runtime.docker import rules
from windlass.adapters.runtime.docker.address import parse_address
from windlass.adapters.runtime.docker.rules import name_servers, why_not

LOCAL = parse_address("unix:///run/docker.sock")
ACTS = "from windlass.adapters.runtime.docker.rules import Rules; rules = Rules('key', 'wdlkey'); "


@pytest.fixture
def apart() -> Iterator[Namespace]:
    present.need_root("a network namespace")
    namespace = Namespace("net", script="ip link set lo up")
    yield namespace
    namespace.close()


def written(apart: Namespace) -> str:
    tables = (apart.inside(present.program(name), "--table", "mangle") for name in ("iptables-save", "ip6tables-save"))
    said = [subprocess.run(table, capture_output=True, text=True, check=True).stdout for table in tables]
    return "\n".join(line for line in "".join(said).splitlines() if line[0] != "#" and "WINDLASS" in line)


def act(apart: Namespace, words: str) -> None:
    subprocess.run(apart.inside(sys.executable, "-c", ACTS + words), check=True)


def test_holding_twice_is_holding_once_and_dropping_leaves_nothing(apart: Namespace) -> None:
    act(apart, "rules.hold(['wdlkeya'])")
    once = written(apart)
    assert once.count("-A PREROUTING") == once.count("-A FORWARD") == 2  # one of each version
    act(apart, "rules.hold(['wdlkeya'])")
    assert written(apart) == once
    act(apart, "rules.hold(['wdlkeya', 'wdlkeyb'])")
    assert "-i wdlkeyb -o wdlkeyb -j RETURN" in written(apart)
    act(apart, "rules.drop(); rules.drop()")
    assert written(apart) == ""


def test_what_a_firewall_flushed_is_there_again(apart: Namespace) -> None:
    act(apart, "rules.hold(['wdlkeya'])")
    whole = written(apart)
    subprocess.run(apart.inside(present.program("iptables"), "--table", "mangle", "--flush"), check=True)
    assert written(apart) != whole
    act(apart, "rules.hold(['wdlkeya'])")
    assert written(apart) == whole


def test_a_rehearsal_leaves_nothing(apart: Namespace) -> None:
    act(apart, "rules.rehearse()")
    assert written(apart) == ""


@pytest.mark.parametrize(
    ("address", "changes", "reason"),
    [
        ("tcp://192.0.2.1:2375", {}, "not on this machine"),
        ("unix:///run/docker.sock", {"is_rootless": True}, "without root"),
        ("unix:///run/docker.sock", {"kernel": "another"}, "kernel of their own"),
    ],
)
def test_where_there_can_be_none_it_says_why(address: str, changes: dict[str, object], reason: str) -> None:
    assert reason in why_not(parse_address(address), facts(**{"kernel": os.uname().release, **changes}))


def test_without_a_packet_filter_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no iptables" in why_not(LOCAL, facts(kernel=os.uname().release))


def test_a_packet_filter_that_refuses_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("iptables", "iptables-restore", "ip6tables", "ip6tables-restore"):
        (tmp_path / name).write_text("#!/bin/sh\necho you must be root >&2\nexit 4\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert "you must be root" in why_not(LOCAL, facts(kernel=os.uname().release))


def test_name_servers_are_those_that_containers_may_have_to_ask(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("# ours\nnameserver 127.0.0.53\nnameserver 169.254.169.254\nsearch example\nnameserver\n")
    two.write_text("nameserver 192.0.2.53\nnameserver 169.254.169.254\nnameserver fe80::1%eth0\n")
    assert name_servers((one, two, tmp_path / "absent")) == ["169.254.169.254", "192.0.2.53"]
    assert rules.is_here("lo")
    assert not rules.is_here("wdl-nowhere")
