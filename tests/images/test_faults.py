"""Nodes that are away, full or lying: the others are served, and the report is true."""

import itertools
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.images import making
from tests.images.conftest import log_text
from tests.images.lab import Lab, LabNode
from tests.images.test_sync import content, in_prefix, pull
from tests.parts.ports import free_port
from windlass.images.config import Address
from windlass.images.report import Outcome

pytestmark = pytest.mark.anyio

MIB = 1 << 20
IMAGES = 40
LIAR = """case "$1 $2" in
  "image ls"|"version "*) exit 0;;
  "info "*) echo '"/"';;
  "pull "*) echo "Status: Downloaded newer image for $2"; exit 0;;
esac"""


def forty_images(lab: Lab, prefix: str) -> list[str]:
    """Shared layers, several tags, and one image of 12 MiB among small ones."""
    base = making.layer({"base": os.urandom(20_000)})
    names = [lab.push(f"{prefix}app{i}", "1", base, content(2_000)) for i in range(IMAGES - 1)]
    return [*names, lab.push(f"{prefix}big", "1", making.layer({"big": os.urandom(12 * MIB)}))]


def deal(nodes: list[LabNode], names: list[str]) -> None:
    """Each node has every n-th image, by its own runtime."""

    def get(node: LabNode, name: str) -> None:
        runtime = "docker" if "DOCKER_HOST" in node.ssh._environment else "crictl"
        done = node.ssh.run(runtime, "pull", name)
        assert done.returncode == 0, done.stderr

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(get, itertools.cycle(nodes), names))


async def test_six_nodes_and_forty_images_end_equal_by_digest(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    nodes = [*lab.docker(4), *lab.containerd(2)]
    prefix = lab.repository()
    names = forty_images(lab, prefix)
    deal(nodes, names)
    report = await run_sync(lab.config(nodes, prefix, tmp_path))
    assert report.exit_code == 0, [r for r in report.results if r.outcome is not Outcome.SUCCESS]
    first = in_prefix(nodes[0], prefix)
    assert set(first) == set(names)
    assert all(in_prefix(node, prefix) == first for node in nodes)
    assert len(report.results) == IMAGES * 5
    assert sorted(report.nodes.values()) == ["crictl"] * 2 + ["docker"] * 4


async def test_one_away_one_full_one_lying_and_the_others_are_done(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    good = [*lab.docker(2), *lab.containerd(1)]
    full = lab.docker_node(storage_bytes=24 * MIB)
    liar = lab.scripted_node({"docker": LIAR})
    prefix = lab.repository()
    names = forty_images(lab, prefix)
    deal(good, names)
    config = lab.config([*good, full, liar], prefix, tmp_path, min_free_bytes=8 * MIB, ssh_connect_timeout_seconds=60)
    away = Address(f"root@127.0.0.1:{free_port()}", "127.0.0.1", "root", free_port())
    config = type(config)(
        nodes=(*config.nodes, away), prefixes=config.prefixes, log_dir=tmp_path, settings=config.settings
    )

    report = await run_sync(config)

    assert report.exit_code == 3
    first = in_prefix(good[0], prefix)
    assert set(first) == set(names)
    assert all(in_prefix(node, prefix) == first for node in good)

    assert report.faults[away.name].code.startswith("ssh.")
    results = {(r.node, r.name): r for r in report.results}
    assert all(
        results[node.name, name].outcome is Outcome.SUCCESS
        for node in good
        for name in names
        if (node.name, name) in results
    )

    big = names[-1]
    assert results[full.name, big].words == "FAILED (DISK)"
    assert set(in_prefix(full, prefix)) == set(names) - {big}, "smaller ones fit and were pulled"
    assert all(results[full.name, name].outcome is Outcome.SUCCESS for name in names[:-1])

    assert {results[liar.name, name].words for name in names} == {"FAILED (VERIFY)"}
    failed = log_text(tmp_path, "failed_images")
    assert f"{full.name} {big} - FAILED (DISK)" in failed
    assert failed.count(f"{liar.name} ") == IMAGES
    assert liar.name not in log_text(tmp_path, "success_images")
    assert json.dumps(report.as_json())
    assert not report.as_json()["even"]


async def test_a_node_that_fills_up_during_a_pull_fails_with_its_exit_code(
    lab: Lab, run_sync: Any, tmp_path: Path
) -> None:
    """The guard is off here: the engine itself says no, and the report says so."""
    (one,) = lab.docker(1)
    small = lab.docker_node(storage_bytes=6 * MIB)
    prefix = lab.repository()
    name = lab.push(f"{prefix}big", "1", making.layer({"big": os.urandom(12 * MIB)}))
    pull(one, name)
    report = await run_sync(lab.config([one, small], prefix, tmp_path, peers="never"))
    assert (report.exit_code, report.results[0].words) == (3, "FAILED (EXIT 1)")
    assert "no space left" in report.results[0].detail


OUTPUTS = {
    "no JSON at all": "echo sorry",
    "half of it": """echo '[{"Id": "sha256:'""",
    "another type": """echo '{"a": 1}'""",
    "a number for an id": """echo '[{"Id": 7}]'""",
    "an id that is no digest": """echo '[{"Id": "sha256:$(touch canary)"}]'""",
    "a size that is text": f"""echo '[{{"Id": "sha256:{"a" * 64}", "Size": "big"}}]'""",
    "not a number": f"""echo '[{{"Id": "sha256:{"a" * 64}", "Size": NaN}}]'""",
    "no UTF-8": r"""printf '[{"Id": "\377"}]'""",
    "endless depth": "head -c 100000 /dev/zero | tr '\\0' '['",
    "endless output": "cat /dev/zero",
    "an endless number": f"""echo '[{{"Id": "sha256:{"a" * 64}", "Size": {"9" * 5000}}}]'""",
}


@pytest.mark.parametrize("case", OUTPUTS)
async def test_output_that_makes_no_sense_is_refused_and_the_others_go_on(
    case: str, lab: Lab, run_sync: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.images.ssh.STDOUT_MAX", 1 << 20)
    one, two = lab.docker(2)
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "1", content())
    pull(one, name)
    confused = lab.scripted_node(
        {
            "docker": f"""case "$1 $2" in
              version*) exit 0;;
              "image ls") echo sha256:{"a" * 64};;
              "image inspect") {OUTPUTS[case]};;
            esac"""
        }
    )
    report = await run_sync(lab.config([one, confused, two], prefix, tmp_path))
    assert report.exit_code == 3
    assert report.faults[confused.name].code == "node.output"
    assert two.ids()[name] == one.ids()[name]


async def test_a_node_without_a_runtime_says_what_was_tried(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    bare = lab.scripted_node({})
    report = await run_sync(lab.config([bare], lab.repository(), tmp_path))
    assert report.exit_code == 3
    assert report.faults[bare.name].code == "runtime.none"
    assert all(f"{kind}: not there" in str(report.faults[bare.name]) for kind in ("crictl", "docker", "ctr", "podman"))


async def test_a_login_that_is_refused_is_a_fault_of_that_node_alone(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    one, two = lab.docker(2)
    keys = two.ssh.directory / "authorized_keys"
    before = keys.read_text()
    keys.write_text("")
    try:
        report = await run_sync(lab.config([one, two], lab.repository(), tmp_path))
    finally:
        keys.write_text(before)
    assert (report.exit_code, report.faults[two.name].code) == (3, "ssh.denied")


async def test_a_node_that_accepts_and_then_says_nothing_is_given_up_in_time(
    lab: Lab, run_sync: Any, tmp_path: Path
) -> None:
    (one,) = lab.docker(1)
    silent = lab.scripted_node({})
    silent.ssh.pause()
    try:
        report = await run_sync(lab.config([one, silent], lab.repository(), tmp_path, ssh_connect_timeout_seconds=8))
    finally:
        silent.ssh.resume()
    assert (report.exit_code, report.faults[silent.name].code) == (3, "ssh.unreachable")


async def test_a_login_whose_shell_hangs_is_given_up_in_time(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    (one,) = lab.docker(1)
    stuck = lab.scripted_node({"sh": "sleep 3600"})
    report = await run_sync(lab.config([one, stuck], lab.repository(), tmp_path, ssh_connect_timeout_seconds=8))
    assert (report.exit_code, report.faults[stuck.name].code) == (3, "ssh.unreachable")


async def test_a_pull_that_talks_without_end_costs_no_memory(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    (one,) = lab.docker(1)
    prefix = lab.repository()
    pull(one, lab.push(f"{prefix}app", "1", content()))
    talker = lab.scripted_node(
        {
            "docker": """case "$1 $2" in
              "image ls"|"version "*) exit 0;;
              pull*) head -c 200000000 /dev/zero; echo "manifest unknown" >&2; exit 7;;
            esac"""
        }
    )
    before = psutil.Process().memory_info().rss
    report = await run_sync(lab.config([one, talker], prefix, tmp_path, peers="never"))
    assert report.results[0].words == "FAILED (EXIT 7)"
    assert psutil.Process().memory_info().rss - before < 100 * MIB


async def test_two_runtimes_on_one_machine_are_two_nodes_when_asked_for(
    lab: Lab, run_sync: Any, tmp_path: Path
) -> None:
    (daemon,) = lab.containerd(1)
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "1", content())
    assert daemon.ssh.run("crictl", "pull", name).returncode == 0
    report = await run_sync(lab.config([daemon], prefix, tmp_path, runtimes=("crictl", "ctr")))
    assert report.nodes == {f"{daemon.name}/crictl": "crictl", f"{daemon.name}/ctr": "ctr"}
    assert (report.exit_code, report.wants) == (0, ()), "ctr and crictl see the same images by the same digests"


async def test_podman_and_ctr_nodes_are_found_listed_and_pulled_to(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    (one,) = lab.docker(1)
    pod = lab.podman_node()
    prefix = lab.repository()
    names = [lab.push(f"{prefix}app{i}", "1", content()) for i in range(2)]
    pull(one, names[0])
    assert pod.ssh.run("podman", "pull", "-q", names[1]).returncode == 0
    report = await run_sync(lab.config([one, pod], prefix, tmp_path))
    assert (report.exit_code, report.nodes[pod.name]) == (0, "podman"), report.results
    assert in_prefix(pod, prefix) == in_prefix(one, prefix)

    left, right = lab.containerd(2)
    space = {"runtimes": ("ctr",), "containerd_namespace": f"ns{os.getpid()}"}
    assert left.ssh.run("ctr", "-n", space["containerd_namespace"], "images", "pull", names[0]).returncode == 0
    report = await run_sync(lab.config([left, right], prefix, tmp_path, **space))
    assert (report.exit_code, set(report.nodes.values())) == (0, {"ctr"}), report.results
    assert [(r.node, r.name) for r in report.results] == [(right.name, names[0])]


async def test_a_podman_node_receives_from_docker_and_sends_to_it(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    (one,) = lab.docker(1)
    pod = lab.podman_node()
    prefix = lab.repository()
    names = [lab.push(f"{prefix}app{i}", "1", content()) for i in range(2)]
    pull(one, names[0])
    assert pod.ssh.run("podman", "pull", "-q", names[1]).returncode == 0
    report = await run_sync(lab.config([one, pod], prefix, tmp_path, peers="only"))
    assert report.exit_code == 0, report.results
    assert in_prefix(pod, prefix) == in_prefix(one, prefix)
