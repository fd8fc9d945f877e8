"""The seed's main flow on real nodes: lists both ways, compares by digest, pulls what is missing, tells the truth."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.images import making
from tests.images.conftest import log_text
from tests.images.lab import Lab, LabNode
from windlass.images.report import Outcome
from windlass.images.session import jittered_pause

pytestmark = pytest.mark.anyio

BASE = making.layer({"base": b"common to all" * 100})


def pull(node: LabNode, *names: str) -> None:
    for name in names:
        done = node.ssh.run("docker", "pull", "-q", name)
        assert done.returncode == 0, done.stderr


def content(size: int = 1000) -> bytes:
    return making.layer({"data": os.urandom(size)})


def in_prefix(node: LabNode, prefix: str) -> dict[str, str]:
    return {name: image_id for name, image_id in node.ids().items() if f"/{prefix}" in name}


async def test_each_node_gets_what_the_other_has(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    one, two = lab.docker(2)
    prefix = lab.repository()
    left = [lab.push(f"{prefix}left{i}", "1", BASE, content()) for i in range(3)]
    right = [lab.push(f"{prefix}right{i}", "1", BASE, content()) for i in range(2)]
    outside = lab.push(f"outside-{prefix}x", "1", content())
    pull(one, *left, outside)
    pull(two, *right)

    report = await run_sync(lab.config([one, two], prefix, tmp_path))

    assert report.exit_code == 0
    assert in_prefix(one, prefix) == in_prefix(two, prefix)
    assert set(in_prefix(one, prefix)) == {*left, *right}
    assert outside not in two.ids()
    main = log_text(tmp_path, "image-sync")
    assert main.index("SYNC STARTED") < main.index("SUMMARY: 5 succeeded") < main.index("SYNC COMPLETE: exit 0")
    success = log_text(tmp_path, "success_images").splitlines()
    assert sorted(line.split("] ")[1] for line in success) == sorted(
        [f"{two.name} {name} - SUCCESS" for name in left] + [f"{one.name} {name} - SUCCESS" for name in right]
    )
    assert log_text(tmp_path, "failed_images") == ""


async def test_a_second_run_finds_nothing_to_do(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    one, two = lab.docker(2)
    prefix = lab.repository()
    pull(one, lab.push(f"{prefix}app", "1", BASE, content()))
    config = lab.config([one, two], prefix, tmp_path)
    assert len((await run_sync(config)).results) == 1
    again = await run_sync(config)
    assert (again.exit_code, again.wants, again.results) == (0, (), ())


async def test_a_dry_run_says_what_it_would_do_and_does_nothing(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    one, two = lab.docker(2)
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "1", content())
    pull(one, name)
    report = await run_sync(lab.config([one, two], prefix, tmp_path), is_dry_run=True)
    assert [(want.node, str(want.name)) for want in report.wants] == [(two.name, name)]
    assert (report.exit_code, report.results) == (0, ())
    assert in_prefix(two, prefix) == {}


async def test_a_tag_that_moved_is_named_and_made_the_same_everywhere(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    one, two = lab.docker(2)
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "latest", BASE, content())
    pull(one, name)
    lab.push(f"{prefix}app", "latest", BASE, content())
    pull(two, name)
    assert one.ids()[name] != two.ids()[name]
    newest = two.ids()[name]

    report = await run_sync(lab.config([one, two], prefix, tmp_path))

    assert report.exit_code == 0
    assert report.as_json()["moved_tags"][0]["image"] == name
    assert f"moved tag {name}" in log_text(tmp_path, "image-sync")
    assert one.ids()[name] == two.ids()[name] == newest


async def test_a_tag_that_moves_in_the_registry_only_still_ends_equal(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    one, two = lab.docker(2)
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "latest", BASE, content())
    pull(one, name)
    lab.push(f"{prefix}app", "latest", BASE, content())
    report = await run_sync(lab.config([one, two], prefix, tmp_path))
    assert report.exit_code == 0
    assert one.ids()[name] == two.ids()[name]


async def test_untagged_and_multi_tag_images_arrive_under_all_their_names(
    lab: Lab, run_sync: Any, tmp_path: Path
) -> None:
    one, two = lab.docker(2)
    prefix = lab.repository()
    layer = content()
    tags = [lab.push(f"{prefix}app", tag, layer) for tag in ("1", "1.0", "latest")]
    _, manifest = making.push(lab.registry.address, f"{prefix}bare", ["x"], [content()])
    by_digest = f"{lab.registry.address}/{prefix}bare@{manifest}"
    pull(one, *tags, by_digest)

    report = await run_sync(lab.config([one, two], prefix, tmp_path))

    assert report.exit_code == 0
    assert set(in_prefix(two, prefix)) == set(tags)
    shown = two.ssh.run("docker", "image", "inspect", "--format", "{{json .RepoDigests}}", by_digest)
    assert by_digest in shown.stdout
    assert {(result.node, result.name) for result in report.results} == {
        (two.name, name) for name in (*tags, by_digest)
    }


async def test_an_index_of_two_platforms_is_one_image_to_every_runtime(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    """The second node holds the tag for another platform: the same index, another config, and nothing to do."""
    one, two, three = [*lab.docker(2), *lab.containerd(1)]
    prefix = lab.repository()
    index = making.push_index(lab.registry.address, f"{prefix}app", "1", {"amd64": [content()], "arm64": [content()]})
    name = f"{lab.registry.address}/{prefix}app:1"
    pull(one, name)
    assert two.ssh.run("docker", "pull", "-q", "--platform", "linux/arm64", name).returncode == 0
    report = await run_sync(lab.config([one, two, three], prefix, tmp_path))
    assert report.exit_code == 0, report.results
    assert [result.node for result in report.results] == [three.name]
    assert one.ids()[name] == three.ids()[name] != two.ids()[name]
    assert index in three.ssh.run("crictl", "inspecti", "-o", "json", name).stdout


async def test_an_image_the_registry_lost_fails_with_its_exit_code(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    one, two = lab.docker(2)
    prefix = lab.repository()
    good = lab.push(f"{prefix}good", "1", content())
    lost = lab.push(f"{prefix}lost", "1", content())
    pull(one, good, lost)
    lab.registry.call("DELETE", f"/v2/{prefix}lost/manifests/{lab.registry.digest(f'{prefix}lost', '1')}")

    report = await run_sync(lab.config([one, two], prefix, tmp_path, peers="never"))

    assert report.exit_code == 3
    assert set(in_prefix(two, prefix)) == {good}
    assert log_text(tmp_path, "failed_images").endswith(f"{two.name} {lost} - FAILED (EXIT 1)\n")
    assert f"{two.name} {good} - SUCCESS" in log_text(tmp_path, "success_images")


async def test_retries_are_for_what_may_pass_and_not_for_what_is_absent(
    lab: Lab, run_sync: Any, tmp_path: Path
) -> None:
    (one,) = lab.docker(1)
    prefix = lab.repository()
    pull(one, lab.push(f"{prefix}app", "1", content()))
    counter = tmp_path / "tries"
    flaky = lab.scripted_node(
        {
            "docker": f"""case "$1 $2" in
              "image ls"|"version "*) exit 0;;
              pull*) echo try >> {counter}; echo "dial tcp: connection refused" >&2; exit 1;;
            esac"""
        }
    )
    report = await run_sync(lab.config([one, flaky], prefix, tmp_path / "logs", retries=2, peers="never"))
    assert counter.read_text().count("try") == 3
    assert (report.results[0].attempts, report.results[0].words) == (3, "FAILED (EXIT 1)")

    absent = lab.scripted_node(
        {
            "docker": """case "$1 $2" in
              "image ls"|"version "*) exit 0;;
              pull*) echo "manifest unknown" >&2; exit 1;;
            esac"""
        }
    )
    report = await run_sync(lab.config([one, absent], prefix, tmp_path / "logs", retries=2, peers="never"))
    assert (report.results[0].attempts, report.results[0].words) == (1, "FAILED (EXIT 1)")


@pytest.mark.parametrize("attempt", range(1, 12))
def test_pauses_between_tries_grow_to_a_cap_and_are_not_in_step(attempt: int) -> None:
    full = min(30, 2 ** (attempt - 1))
    pauses = {jittered_pause(attempt) for _ in range(50)}
    assert all(full / 2 <= pause <= full for pause in pauses)
    assert len(pauses) > 1


async def test_a_pull_that_is_late_is_timeout_124_and_really_ends(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    (one,) = lab.docker(1)
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "1", content())
    pull(one, name)
    marker = f"{31_000_000 + os.getpid()}"
    slow = lab.scripted_node(
        {"docker": f'case "$1 $2" in "image ls"|"version "*) exit 0;; pull*) sleep {marker};; esac'}
    )
    report = await run_sync(lab.config([one, slow], prefix, tmp_path, timeout_seconds=5, peers="never"))
    assert report.exit_code == 3
    assert (report.results[0].outcome, report.results[0].reason) == (Outcome.TIMEOUT, "EXIT 124")
    assert log_text(tmp_path, "failed_images").endswith(f"{slow.name} {name} - TIMEOUT\n")
    assert marker not in processes()


async def test_the_limits_per_node_and_in_total_hold(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    """Each pull notes how many others run; two per node and three in total are reached and never passed."""
    (one,) = lab.docker(1)
    prefix = lab.repository()
    names = [lab.push(f"{prefix}app{i}", "1", content()) for i in range(6)]
    pull(one, *names)
    running = tmp_path / "running"
    nodes = []
    for number in range(2):
        folder = running / str(number)
        folder.mkdir(parents=True)
        # The first pulls stay until three run at once: the limit is reached whatever the machine is busy with.
        script = f"""case "$1 $2" in
          "image ls"|"version "*) exit 0;;
          pull*) touch {folder}/$$; set -- {folder}/*; echo $# >> {tmp_path}/node{number}
                 set -- {running}/*/*; echo $# >> {tmp_path}/total; [ $# -lt 3 ] || touch {tmp_path}/full
                 n=0; while [ ! -e {tmp_path}/full ] && [ $n -lt 200 ]; do sleep 0.1; n=$((n+1)); done
                 rm {folder}/$$;;
        esac"""
        node = lab.scripted_node({"docker": script, "rm": 'exec /bin/rm "$@"'})
        nodes.append(node)
    await run_sync(lab.config([one, *nodes], prefix, tmp_path / "l", max_parallel=2, max_total=3, peers="never"))
    seen = {name: [int(n) for n in (tmp_path / name).read_text().split()] for name in ("node0", "node1", "total")}
    assert len(seen["total"]) == 12
    assert max(seen["node0"]) <= 2
    assert max(seen["node1"]) <= 2
    assert max(seen["total"]) == 3


def processes() -> str:
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                lines.append((entry / "cmdline").read_text(errors="replace").replace("\0", " "))
            except OSError:
                continue
    return "\n".join(lines)
