"""Prune on real nodes: a dry run unless told otherwise, and every keep rule seen at work."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.images.lab import Lab, LabNode, docker
from tests.images.test_sync import content, in_prefix, pull


def prune(*arguments: object) -> "subprocess.CompletedProcess[str]":
    script = "from windlass.images.command import images; images(prog_name='images')"
    command = [sys.executable, "-c", script, "prune", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def aged(lab: Lab, prefix: str, count: int) -> list[str]:
    """Versions 1 … count of one application, a year apart, the oldest first."""
    return [
        lab.push(f"{prefix}app", str(number), content(), created=f"20{10 + number}-01-01T00:00:00Z")
        for number in range(1, count + 1)
    ]


@pytest.fixture
def old_images(lab: Lab, tmp_path: Path) -> tuple[LabNode, list[str], Path, str]:
    (one,) = lab.docker(1)
    prefix = lab.repository()
    names = aged(lab, prefix, 5)
    pull(one, *names)
    return one, names, lab.config_file(tmp_path / "p.conf", [one], prefix, tmp_path / "logs"), prefix


def test_without_yes_nothing_goes(old_images: tuple[LabNode, list[str], Path, str]) -> None:
    one, names, config, prefix = old_images
    done = prune("-c", config, "--keep-newest", 2)
    assert done.returncode == 0
    assert done.stdout.count("would go\n") == 3
    assert "dry run: 3 names would go, 2 names kept, up to" in done.stdout
    assert "--yes removes them" in done.stdout
    log = "".join(path.read_text() for path in (config.parent / "logs").glob("image-sync-*.log"))
    assert "PRUNE STARTED (dry run): 1 node, " in log
    assert log.count(": would go") == 3
    assert "PRUNE COMPLETE (dry run): exit 0, dry run: 3 names would go" in log
    assert set(in_prefix(one, prefix)) == set(names)


def test_with_yes_the_newest_the_used_and_the_protected_stay(
    old_images: tuple[LabNode, list[str], Path, str], lab: Lab, tmp_path: Path
) -> None:
    one, names, config, prefix = old_images
    host = one.ssh._environment["DOCKER_HOST"]
    used = docker(host, "create", names[0], "x").strip()
    outside = lab.push(f"other-{prefix}app", "1", content(), created="2001-01-01T00:00:00Z")
    pull(one, outside)
    protect = tmp_path / "protect"
    protect.write_text(f"# what the queue needs\n{names[1]}  # queued job 17\n")
    try:
        done = prune("-c", config, "--keep-newest", 1, "--set", f"PROTECT_FILE={protect}", "--yes", "--json")
    finally:
        docker(host, "rm", used)
    report = json.loads(done.stdout)
    assert (done.returncode, report["dry_run"]) == (0, False)
    assert sorted(entry["name"] for entry in report["removed"]) == sorted(names[2:4])
    assert all(entry["exit"] == 0 for entry in report["removed"])
    assert {kept["image"]: kept["reason"] for kept in report["kept"]} == {
        names[0]: "in use by a container",
        names[1]: "protected: queued job 17",
        names[4]: "among the newest 1 of its repository",
    }
    assert set(in_prefix(one, prefix)) == {names[0], names[1], names[4]}
    assert outside in one.ids()


def test_a_protect_file_that_cannot_be_read_stops_everything(
    old_images: tuple[LabNode, list[str], Path, str], tmp_path: Path
) -> None:
    one, names, config, prefix = old_images
    for text in (None, "a;touch canary\n"):
        path = tmp_path / "protect"
        if text:
            path.write_text(text)
        done = prune("-c", config, "--keep-newest", 0, "--set", f"PROTECT_FILE={path}", "--yes")
        assert done.returncode == 1
        assert "protect." in done.stderr
        assert text or "leave it empty), or unset PROTECT_FILE" in done.stderr
    assert set(in_prefix(one, prefix)) == set(names)


def test_on_cri_an_image_goes_with_all_its_names_or_not_at_all(lab: Lab, tmp_path: Path) -> None:
    (daemon,) = lab.containerd(1)
    prefix = lab.repository()
    names = aged(lab, prefix, 3)
    layer = content()
    old = "2009-01-01T00:00:00Z"
    twins = [lab.push(f"{prefix}{repository}", "old", layer, created=old) for repository in ("app", "web")]
    for name in (*names, *twins):
        assert daemon.ssh.run("crictl", "pull", name).returncode == 0
    config = lab.config_file(tmp_path / "p.conf", [daemon], prefix, tmp_path / "logs")
    done = prune("-c", config, "--keep-newest", 1, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert sorted(entry["name"] for entry in report["removed"]) == sorted(names[:2])
    # web:old is the only image of its repository; app:old is the same image and would drag it along.
    assert set(in_prefix(daemon, prefix)) == {names[2], *twins}
    reasons = {kept["image"]: kept["reason"] for kept in report["kept"]}
    assert reasons[twins[0]] == "another name of the same image stays"
