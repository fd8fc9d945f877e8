"""What a run says is so: of nodes that did not answer, of what a dry run would do, of prefixes that match nothing, and of
what was got before a signal came."""

import csv
import io
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.images.conftest import log_text
from tests.images.lab import Lab
from tests.images.test_command import GROUP, a_stuck_config, command, logged, pulling, run
from tests.parts.ports import free_port
from tests.parts.waiting import wait_for

ONE, TWO = (f"sha256:{digit * 64}" for digit in "12")


@pytest.fixture
def one_down(lab: Lab, tmp_path: Path) -> tuple[Path, str, list[str]]:
    """Two nodes that have the same image, and between them one that nobody answers for."""
    name = "registry.test/app:1"
    first, last = lab.shelf({name: ONE}), lab.shelf({name: ONE})
    away = f"root@127.0.0.1:{free_port()}"
    path = lab.config_file(tmp_path / "c.conf", [first, last], "", tmp_path / "logs")
    text = path.read_text().replace("NODE2=", "NODE3=")
    path.write_text(f'{text}NODE2="{away}"\nPREFIX1=registry.test/\n')
    return path, name, [first.name, away, last.name]


def test_status_shows_a_node_that_is_down_and_does_not_call_the_rest_equal_everywhere(
    one_down: tuple[Path, str, list[str]],
) -> None:
    config, name, nodes = one_down
    done = run("status", "-c", config, script=GROUP)
    row = next(line for line in done.stdout.splitlines() if line.startswith(name))
    assert row.split()[-3:] == ["=", "?", "="]
    assert done.stdout.splitlines()[-1] == (
        f"1 image equal among the 2 nodes that could take part; not known on {nodes[1]} (exit 3)"
    )
    assert done.returncode == 3
    assert nodes[1] in done.stderr


def test_status_for_programs_has_the_node_that_is_down_too(one_down: tuple[Path, str, list[str]]) -> None:
    config, name, nodes = one_down
    as_csv = run("status", "-c", config, "--csv", script=GROUP)
    rows = list(csv.DictReader(io.StringIO(as_csv.stdout)))
    assert [(row["node"], row["state"]) for row in rows] == list(
        zip(nodes, ("present", "unreachable", "present"), strict=True)
    )
    as_json = run("status", "-c", config, "--json", script=GROUP)
    document = json.loads(as_json.stdout)
    assert (list(document["nodes"]), document["even"]) == (nodes, False)
    assert document["images"][0]["nodes"][nodes[1]] == {"state": "unreachable", "id": None, "size": 0}
    assert (as_csv.returncode, as_json.returncode) == (3, 3)
    assert name == rows[0]["image"]


def test_status_needs_no_right_to_write_anything(one_down: tuple[Path, str, list[str]], tmp_path: Path) -> None:
    config, *_ = one_down
    run("status", "-c", config, script=GROUP)
    assert not (tmp_path / "logs").exists()


def test_an_unusable_node_has_its_line_in_the_failed_log_and_its_place_in_the_table(
    one_down: tuple[Path, str, list[str]], tmp_path: Path
) -> None:
    config, _, nodes = one_down
    done = run("-c", config)
    assert done.returncode == 3
    (line,) = logged(tmp_path / "logs", "failed_images").splitlines()
    assert line.partition("] ")[2].startswith(f"{nodes[1]} * - FAILED (NODE ssh.unreachable)")
    table = [line.split()[0] for line in done.stdout.splitlines()[1:4]]
    assert f"1 image equal among the 2 nodes that could take part; not known on {nodes[1]} (exit 3)" in done.stdout
    assert table == nodes, "as the settings list them, not as they answered"


def test_a_dry_run_with_a_node_down_exits_3_and_one_without_exits_0(
    one_down: tuple[Path, str, list[str]], tmp_path: Path
) -> None:
    config, _, nodes = one_down
    assert run("-c", config, "--dry-run").returncode == 3
    assert logged(tmp_path / "logs", "failed_images") == "", "a dry run leaves its words in the main log alone"
    assert run("-c", config, "--dry-run", "-n", nodes[0], "-n", nodes[2]).returncode == 0


def test_a_dry_run_says_who_would_send_and_that_it_was_one(lab: Lab, tmp_path: Path) -> None:
    has, lacks = lab.shelf({"registry.test/app:1": ONE}), lab.shelf({})
    config = lab.config_file(tmp_path / "c.conf", [has, lacks], "", tmp_path / "logs")
    base = ("-c", config, "--dry-run", "-p", "registry.test/")
    pulls = run(*base)
    assert f"{lacks.name}  registry.test/app:1  1000 B  pull\n" in pulls.stdout
    assert "dry run, nothing was done: 1 pull from the registry" in pulls.stdout
    copies = run(*base, "--from-peers")
    assert f"{lacks.name}  registry.test/app:1  1000 B  copy from {has.name}\n" in copies.stdout
    assert "dry run, nothing was done: 1 copy between nodes" in copies.stdout
    (wanted,) = json.loads(run(*base, "--from-peers", "--json").stdout)["wanted"]
    assert (wanted["via"], wanted["senders"]) == ("peers", [has.name])
    log = logged(tmp_path / "logs")
    assert log.count("SYNC STARTED (dry run)") == log.count("SYNC COMPLETE (dry run): exit 0") == 3
    assert "SYNC STARTED:" not in log


def test_a_dry_run_between_nodes_leaves_a_moved_tag_alone_until_a_source_is_named(lab: Lab, tmp_path: Path) -> None:
    name = "registry.test/app:1"
    left, right = lab.shelf({name: ONE}), lab.shelf({name: TWO})
    config = lab.config_file(tmp_path / "c.conf", [left, right], "", tmp_path / "logs")
    base = ("-c", config, "--dry-run", "-p", "registry.test/")
    assert run(*base, "--from-peers").stdout.count("left alone: the tag moved") == 2
    settled = run(*base, "--source", right.name).stdout
    assert f"{left.name}  {name}  1000 B  copy from {right.name}; the tag moved\n" in settled


def test_a_prefix_that_matches_nothing_is_named_everywhere_a_person_may_look(lab: Lab, tmp_path: Path) -> None:
    node = lab.shelf({"registry.test/app:1": ONE})
    config = lab.config_file(tmp_path / "c.conf", [node], "", tmp_path / "logs")
    base = ("-c", config, "-p", "registry.test/app", "-p", "registry.test/ap-typo")
    said = "prefix registry.test/ap-typo: no image on any node that answered begins so"
    synced = run(*base)
    assert synced.returncode == 0
    assert f"warning: {said}\n" in synced.stdout
    assert f"warning: {said}\n" in synced.stderr, "cron hears it too"
    assert f"[WARNING] {said}\n" in logged(tmp_path / "logs")
    assert json.loads(run(*base, "--json").stdout)["unmatched_prefixes"] == ["registry.test/ap-typo"]
    status = run("status", *base, script=GROUP)
    assert f"warning: {said}\n" in status.stdout
    assert "prefix registry.test/app:" not in synced.stdout + status.stdout


@pytest.mark.anyio
async def test_names_a_node_made_up_are_a_reason_in_the_failed_log(lab: Lab, run_sync: Any, tmp_path: Path) -> None:
    node = lab.shelf({f"{lab.registry.address}/UPPER;x": ONE})
    report = await run_sync(lab.config([node], "", tmp_path))
    assert report.exit_code == 3
    assert f"{node.name} * - FAILED (NAMES 1 refused)\n" in log_text(tmp_path, "failed_images")


@pytest.mark.anyio
async def test_what_came_to_another_node_in_the_last_moment_is_a_reason_with_a_name(
    lab: Lab, run_sync: Any, tmp_path: Path
) -> None:
    """Somebody else fills the first node: each listing shows one image more than the one before."""
    names = [f"registry.test/app{number}:1" for number in range(1, 5)]
    for number in range(1, 5):
        ids = [f"sha256:{digit}{'0' * 63}" for digit in range(1, number + 1)]
        listed = [{"Id": image_id, "RepoTags": [name]} for image_id, name in zip(ids, names, strict=False)]
        (tmp_path / f"ids{number}").write_text("".join(f"{image_id}\n" for image_id in ids))
        (tmp_path / f"json{number}").write_text(json.dumps(listed))
    listing = """case "$1 $2" in
      version*) exit 0;;
      "image ls") %s cat ids$n;;
      "image inspect") %s cat json$n;;
      pull*) echo "$2" >> got;;
    esac"""
    counted = "n=0; while read -r line; do n=$((n+1)); done < got; [ $n -gt 0 ] || exit 0;"
    (tmp_path / "asked").write_text("0\n")
    (tmp_path / "got").touch()
    asked = "read -r n < asked;"
    growing = lab.scripted_node(
        {"docker": f"cd {tmp_path}; {listing % (f'{asked} [ $n -ge 4 ] || n=$((n+1)); echo $n > asked;', asked)}"}
    )
    getting = lab.scripted_node({"docker": f"cd {tmp_path}; {listing % (counted, counted)}"})
    config = lab.config([growing, getting], "", tmp_path / "logs", peers="never")
    report = await run_sync(msgspec.structs.replace(config, prefixes=("registry.test/",)))
    assert report.exit_code == 3
    assert [(result.name, result.words) for result in report.results] == [
        *((name, "SUCCESS") for name in names[:3]),
        (names[3], "FAILED (NEW)"),
    ]
    assert f"{getting.name} {names[3]} - FAILED (NEW)\n" in log_text(tmp_path / "logs", "failed_images")


def test_what_was_got_before_a_signal_has_its_line(lab: Lab, tmp_path: Path) -> None:
    """The second node pulls one image and hangs at the other."""
    names = ("registry.test/quick:1", "registry.test/slow:1")
    has = lab.shelf(dict(zip(names, (ONE, TWO), strict=True)))
    marker = f"{36_000_000 + os.getpid()}"
    done = tmp_path / "done"
    pull = f'pull*) case "$2" in *slow*) exec sleep {marker};; *) touch {done};; esac;;'
    lacks = lab.shelf({}, more=pull)
    config = lab.config_file(tmp_path / "c.conf", [has, lacks], "", tmp_path / "logs")
    arguments = command("-c", config, "-p", "registry.test/")
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: pulling(marker), 120, "the slow pull")
    wait_for(lambda: f"{names[0]}: SUCCESS" in logged(tmp_path / "logs"), 120, "the quick pull")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=240)
    assert process.returncode == 143
    (line,) = logged(tmp_path / "logs", "success_images").splitlines()
    assert line.endswith(f"{lacks.name} {names[0]} - SUCCESS")
    assert logged(tmp_path / "logs", "failed_images") == ""
    log = logged(tmp_path / "logs")
    assert "SUMMARY (interrupted): 1 succeeded, 0 failed, 0 timed out, 1 not finished" in log
    assert "SYNC INTERRUPTED: signal 15" in log


def test_cron_and_a_login_shell_share_the_lock_of_one_settings_file(lab: Lab, tmp_path: Path) -> None:
    """Neither the environment, the working directory, another spelling of the file nor another LOG_DIR opens a second
    door."""
    has = lab.docker(1)[0]
    marker = f"{37_000_000 + os.getpid()}"
    config, _ = a_stuck_config(lab, has, marker, tmp_path)
    bare = {"PATH": os.environ["PATH"], "HOME": "/", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    first = subprocess.Popen(command("-c", config), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=bare)
    login = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "IMAGE_SYNC_LOCK": str(tmp_path / "other")}
    (tmp_path / "linked.conf").symlink_to(config)
    try:
        wait_for(lambda: pulling(marker), 120, "the first run's pull")
        for second in (
            run("-c", config.name, cwd=tmp_path, env=login),
            run("-c", tmp_path / "linked.conf", env=login),
            run("-c", config, "--log-dir", tmp_path / "elsewhere", env=login),
            run("-c", config, "--dry-run", env=login),
        ):
            assert (second.returncode, second.stdout) == (1, "")
            assert f"another image-sync is running (pid {first.pid} on " in second.stderr
    finally:
        first.terminate()
        first.wait(120)
    assert not (tmp_path / "logs" / "image-sync.lock").exists(), "a run that ends takes its file along"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be several users")
def test_what_root_logs_by_hand_does_not_shut_out_the_user_of_cron(lab: Lab, tmp_path: Path) -> None:
    node = lab.shelf({"registry.test/app:1": ONE})
    config = lab.config_file(tmp_path / "c.conf", [node], "", tmp_path / "logs")
    (tmp_path / "logs").mkdir()
    os.chown(tmp_path / "logs", 65534, 65534)
    assert run("-c", config, "-p", "registry.test/").returncode == 0
    made = list((tmp_path / "logs").iterdir())
    assert len(made) == 3
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(65534, 65534)}


@pytest.mark.parametrize("script", [None, GROUP])
def test_the_short_help_option_and_wrong_usage_are_as_documented(script: str | None) -> None:
    chosen = {} if script is None else {"script": script}
    helped = run("-h", **chosen)
    assert helped.returncode == 0
    assert helped.stdout.startswith("Usage:")
    wrong = run("--no-such-option", **chosen)
    assert (wrong.returncode, wrong.stdout) == (2, "")


def test_a_mistake_on_the_command_line_is_not_blamed_on_the_file(one_down: tuple[Path, str, list[str]]) -> None:
    config, *_ = one_down
    done = run("-c", config, "-n", "a;b", "-p", "x y")
    assert done.returncode == 1
    assert "command line: not a node: 'a;b'" in done.stderr
    assert "command line: not a prefix: 'x y'" in done.stderr
    assert str(config) not in done.stderr
