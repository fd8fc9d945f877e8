"""Node-to-node copy: when the registry is gone, peers serve, only missing layers travel, and digests stay equal."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.images import making
from tests.images.conftest import log_text
from tests.images.lab import Lab
from tests.images.test_sync import content, in_prefix, pull
from tests.parts.ports import free_port
from windlass.images.report import Outcome

pytestmark = pytest.mark.anyio

MIB = 1 << 20
BIG_BASE = making.layer({"base": os.urandom(4 * MIB)})


@pytest.fixture
def registry_down(lab: Lab) -> Any:
    """`registry_down()` stops it until the test ends."""
    yield lab.registry.stop
    lab.registry.start()


async def test_with_the_registry_down_peers_serve_and_only_missing_layers_travel(
    lab: Lab, run_sync: Any, registry_down: Any, tmp_path: Path
) -> None:
    one, two, three = lab.docker(3)
    prefix = lab.repository()
    based = lab.push(f"{prefix}based", "1", BIG_BASE, content(200_000))
    new = lab.push(f"{prefix}new", "1", BIG_BASE, content(100_000), content(50_000))
    pull(one, based, new)
    pull(two, based)
    registry_down()

    report = await run_sync(lab.config([one, two, three], prefix, tmp_path))

    assert report.exit_code == 0
    assert in_prefix(one, prefix) == in_prefix(two, prefix) == in_prefix(three, prefix)
    received = {node: counts["received"] for node, counts in report.traffic.items()}
    assert 150_000 < received[two.name] < MIB, "the base was there already"
    assert 4 * MIB < received[three.name] < 5 * MIB, "the base came with the first image and not with the second"
    results = {(r.node, r.name): r for r in report.results}
    assert results[two.name, new].via in (one.name, three.name)
    assert "copied from" in log_text(tmp_path, "image-sync")
    assert f"{two.name} {new} - SUCCESS" in log_text(tmp_path, "success_images")
    assert f"{two.name} {new} - FAILED (EXIT 1)" in log_text(tmp_path, "failed_images"), "the pull's own end stays"


async def test_a_layer_leaves_the_first_node_once_however_many_receive_it(
    lab: Lab, run_sync: Any, tmp_path: Path
) -> None:
    nodes = lab.docker(4)
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "1", making.layer({"x": os.urandom(2 * MIB)}))
    pull(nodes[0], name)
    report = await run_sync(lab.config(nodes, prefix, tmp_path, peers="only", peer_fanout=2))
    assert report.exit_code == 0
    assert report.traffic[nodes[0].name]["sent"] < 2.1 * MIB
    assert sum(counts["sent"] for counts in report.traffic.values()) < 2 * 2.1 * MIB
    assert len({node.ids()[name] for node in nodes}) == 1


async def test_between_containerd_nodes_blobs_that_are_there_stay_out(
    lab: Lab, run_sync: Any, registry_down: Any, tmp_path: Path
) -> None:
    one, two = lab.containerd(2)
    prefix = lab.repository()
    based = lab.push(f"{prefix}based", "1", BIG_BASE, content(200_000))
    new = lab.push(f"{prefix}new", "1", BIG_BASE, content(100_000))
    for node, names in ((one, (based, new)), (two, (based,))):
        for name in names:
            assert node.ssh.run("crictl", "pull", name).returncode == 0
    digests = json.loads(one.ssh.run("crictl", "inspecti", "-o", "json", new).stdout)["status"]["repoDigests"]
    registry_down()

    report = await run_sync(lab.config([one, two], prefix, tmp_path))

    assert report.exit_code == 0, report.results
    assert in_prefix(one, prefix) == in_prefix(two, prefix)
    assert 100_000 < report.traffic[two.name]["received"] < MIB
    assert json.loads(two.ssh.run("crictl", "inspecti", "-o", "json", new).stdout)["status"]["repoDigests"] == digests
    assert two.ssh.run("ctr", "-n", "k8s.io", "images", "check").stdout.count("incomplete") == 0


async def test_docker_and_containerd_serve_each_other(
    lab: Lab, run_sync: Any, registry_down: Any, tmp_path: Path
) -> None:
    (engine,), (daemon,) = lab.docker(1), lab.containerd(1)
    prefix = lab.repository()
    there = lab.push(f"{prefix}from-docker", "1", BIG_BASE, content())
    back = lab.push(f"{prefix}from-containerd", "1", BIG_BASE, content())
    pull(engine, there)
    assert daemon.ssh.run("crictl", "pull", back).returncode == 0
    registry_down()
    report = await run_sync(lab.config([engine, daemon], prefix, tmp_path))
    assert report.exit_code == 0, report.results
    assert in_prefix(engine, prefix) == in_prefix(daemon, prefix)


@pytest.mark.parametrize("kind", ["docker", "crictl"])
async def test_nodes_that_have_the_content_under_other_names_get_the_names_alone(
    kind: str, lab: Lab, run_sync: Any, tmp_path: Path
) -> None:
    one, two, three = lab.docker(3) if kind == "docker" else [*lab.containerd(2), *lab.docker(1)]
    prefix = lab.repository()
    layer = content(400_000)
    left, right = (lab.push(f"{prefix}{name}", "1", layer) for name in ("left", "right"))
    assert one.ssh.run(kind, "pull", left).returncode == 0
    assert two.ssh.run(kind, "pull", right).returncode == 0
    report = await run_sync(lab.config([one, two, three], prefix, tmp_path, peers="only"))
    assert report.exit_code == 0, report.results
    assert set(in_prefix(one, prefix)) == set(in_prefix(two, prefix)) == set(in_prefix(three, prefix)) == {left, right}
    assert len({image_id for node in (one, two, three) for image_id in in_prefix(node, prefix).values()}) == 1
    received = {node: counts["received"] for node, counts in report.traffic.items() if counts["received"]}
    assert list(received) == [three.name], "the first two needed no bytes"


async def test_an_untagged_image_goes_by_its_id(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    one, two, three = lab.docker(3)
    prefix = lab.repository()
    image_id, manifest = making.push(lab.registry.address, f"{prefix}bare", ["x"], [content()])
    by_digest = f"{lab.registry.address}/{prefix}bare@{manifest}"
    pull(one, by_digest)
    report = await run_sync(lab.config([one, two, three], prefix, tmp_path, peers="only", peer_fanout=1))
    assert report.exit_code == 0, report.results
    assert all(node.ssh.run("docker", "image", "inspect", image_id).returncode == 0 for node in (two, three))


async def test_what_the_registry_denies_is_not_handed_out_by_a_peer(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    (one,) = lab.docker(1)
    prefix = lab.repository()
    pull(one, lab.push(f"{prefix}secret", "1", content()))
    loaded = tmp_path / "loaded"
    denied = lab.scripted_node(
        {
            "docker": f"""case "$1 $2" in
              "image ls"|"version "*) exit 0;;
              pull*) echo "unauthorized: authentication required" >&2; exit 1;;
              load*) touch {loaded}; cat >/dev/null;;
            esac"""
        }
    )
    report = await run_sync(lab.config([one, denied], prefix, tmp_path / "l"))
    assert report.exit_code == 3
    assert not loaded.exists()


async def test_a_sender_passes_on_no_name_that_nobody_asked_for(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    one, two = lab.docker(2)
    prefix = lab.repository()
    wanted = lab.push(f"{prefix}app", "1", content())
    private = f"{lab.registry.address}/private-{prefix}app:secret"
    pull(one, wanted)
    assert one.ssh.run("docker", "tag", wanted, private).returncode == 0
    report = await run_sync(lab.config([one, two], prefix, tmp_path, peers="only"))
    assert report.exit_code == 0
    assert wanted in two.ids()
    assert private not in two.ids()


async def test_without_a_registry_a_moved_tag_is_left_alone_until_somebody_says_which_counts(
    lab: Lab, run_sync: Any, registry_down: Any, tmp_path: Path
) -> None:
    one, two = lab.docker(2)
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "1", content())
    pull(one, name)
    lab.push(f"{prefix}app", "1", content())
    pull(two, name)
    before = one.ids()[name], two.ids()[name]
    registry_down()
    report = await run_sync(lab.config([one, two], prefix, tmp_path, peers="only"))
    assert (report.exit_code, {r.reason for r in report.results}) == (3, {"MOVED"})
    assert (one.ids()[name], two.ids()[name]) == before

    settled = await run_sync(lab.config([one, two], prefix, tmp_path), source=one.name)
    assert settled.exit_code == 0
    assert one.ids()[name] == two.ids()[name] == before[0]


async def test_a_receiver_that_fails_holds_up_nobody(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    one, two = lab.docker(2)
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "1", making.layer({"x": os.urandom(3 * MIB)}))
    pull(one, name)
    broken = lab.scripted_node(
        {
            "docker": """case "$1 $2" in
              "image ls"|"version "*) exit 0;;
              load*) head -c 1000 >/dev/null; echo "no space left on device" >&2; exit 1;;
            esac"""
        }
    )
    report = await run_sync(lab.config([one, broken, two], prefix, tmp_path, peers="only"))
    results = {result.node: result for result in report.results}
    assert results[two.name].outcome is Outcome.SUCCESS
    assert (results[broken.name].words, report.exit_code) == ("FAILED (EXIT 1)", 3)
    assert two.ids()[name] == one.ids()[name]


async def test_a_sender_that_breaks_off_is_replaced_and_its_receivers_keep_nothing_half(
    lab: Lab, run_sync: Any, tmp_path: Path
) -> None:
    one, two = lab.docker(2)
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "1", content(100_000))
    pull(one, name)
    # It lists what the first node has, but its stream ends early.
    listing = one.ssh.run("docker", "image", "inspect", name).stdout
    ids = one.ids()[name]
    (tmp_path / "inspect.json").write_text(listing)
    liar = lab.scripted_node(
        {
            "docker": f"""case "$1 $2" in
              version*) exit 0;;
              "image ls") echo {ids};;
              "image inspect") cat {tmp_path}/inspect.json;;
              save*) head -c 600 /dev/zero; exit 1;;
            esac"""
        }
    )
    report = await run_sync(lab.config([liar, one, two], prefix, tmp_path / "l", peers="only", peer_fanout=1))
    assert report.exit_code == 0, report.results
    assert two.ids()[name] == one.ids()[name]


async def test_a_sender_whose_tar_cannot_cut_members_out_sends_everything(
    lab: Lab, run_sync: Any, tmp_path: Path
) -> None:
    one, two = lab.docker(2)
    prefix = lab.repository()
    based = lab.push(f"{prefix}based", "1", BIG_BASE, content())
    new = lab.push(f"{prefix}new", "1", BIG_BASE, content(5_000))
    pull(one, based, new)
    pull(two, based)
    host = one.ssh._environment["DOCKER_HOST"]
    plain_tar = 'case "$*" in *--delete*) echo "tar: unrecognized option" >&2; exit 1;; esac; exec /bin/tar "$@"'
    docker = f'DOCKER_HOST={host} exec /usr/bin/docker "$@"'
    poor = lab.scripted_node({"tar": plain_tar, "docker": docker})
    report = await run_sync(lab.config([poor, two], prefix, tmp_path, peers="only"))
    assert report.exit_code == 0, report.results
    assert report.traffic[two.name]["received"] > 4 * MIB
    assert two.ids()[new] == one.ids()[new]


def test_copy_moves_one_image_and_prints_the_bytes(lab: Lab, tmp_path: Path) -> None:
    one, two, three = lab.docker(3)
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "1", content(300_000))
    pull(one, name)
    config = lab.config_file(tmp_path / "c.conf", [one, two, three], prefix, tmp_path / "l")
    done = _copy(name, "-c", config, "--from", one.name, "--to", two.name, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["exit"]) == (0, 0)
    assert report["traffic"][two.name]["received"] > 300_000
    assert name in two.ids()
    assert name not in three.ids()
    shown = _copy(name, "-c", config).stdout
    assert re.search(rf"^{re.escape(three.name)} .* \d{{3}}\.\d KiB$", shown, re.MULTILINE), shown
    assert "1 image came from other nodes" in shown
    away = f"root@127.0.0.1:{free_port()}"
    some = (name, "-c", config, *("-n", one.name, "-n", two.name, "-n", away))
    asked = _copy(*some, "--to", two.name)
    assert (asked.returncode, asked.stdout.splitlines()[-1]) == (0, "1 image equal on 1 node")
    assert away not in asked.stdout, "nobody asked for it"
    assert _copy(*some).returncode == 3
    assert _copy("nobody/has:this", "-c", config).returncode == 1
    assert _copy("--", "a;touch canary", "-c", config).returncode in (1, 2)


def _copy(*arguments: object) -> "subprocess.CompletedProcess[str]":
    script = "from windlass.images.command import images; images(prog_name='images')"
    command = [sys.executable, "-c", script, "copy", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
