"""Names as weapons: in node names, image names, prefixes, JSON and settings. Refused, and the canary stays untouched."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.images.lab import Lab
from tests.images.test_sync import content, pull
from windlass.images.errors import ImageSyncError
from windlass.images.ssh import render

SHELL = "$(touch {canary}) `touch {canary}` ; touch {canary} | touch {canary} && touch {canary} > {canary} \n touch {canary}"
WEAPONS = (
    "$(touch {canary})",
    "`touch {canary}`",
    "x;touch {canary}",
    "x|touch {canary}",
    "x&touch {canary}",
    "x\ntouch {canary}",
    "x'$(touch {canary})'",
    'x"$(touch {canary})"',
    "-oProxyCommand=touch {canary}",
    "--help",
    "x$IFS$(touch {canary})",
    "../../{canary}",
)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


def image_sync(*arguments: object, cwd: Path) -> "subprocess.CompletedProcess[str]":
    script = "from windlass.images.command import image_sync; image_sync(prog_name='image-sync')"
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=cwd)


@pytest.mark.parametrize("weapon", WEAPONS)
def test_a_node_name_is_refused_before_anything_is_dialled(weapon: str, canary: Path, tmp_path: Path) -> None:
    text = weapon.format(canary=canary)
    done = image_sync(f"--node={text}", "-p", "x/", "--log-dir", tmp_path, cwd=tmp_path)
    assert done.returncode == 1
    assert "config.invalid" in done.stderr
    assert not canary.exists()


@pytest.mark.parametrize("weapon", WEAPONS)
def test_a_prefix_is_refused(weapon: str, canary: Path, tmp_path: Path) -> None:
    text = weapon.format(canary=canary)
    done = image_sync("-n", "127.0.0.1", f"--prefix={text}", "--log-dir", tmp_path, cwd=tmp_path)
    assert done.returncode == 1
    assert "config.invalid" in done.stderr
    assert not canary.exists()


@pytest.mark.parametrize("weapon", WEAPONS)
def test_a_settings_file_executes_nothing(weapon: str, canary: Path, tmp_path: Path) -> None:
    text = weapon.format(canary=canary)
    config = tmp_path / "evil.conf"
    config.write_text(f"NODES=127.0.0.1\nPREFIXES=x/\nLOG_DIR={text}\n")
    assert image_sync("-c", config, cwd=tmp_path).returncode in (1, 3)
    config.write_text(f'NODES="127.0.0.1"\nPREFIXES="x/"\nLOG_DIR="{tmp_path}"\nNODE2={shlex.quote(text)}\n')
    assert image_sync("-c", config, cwd=tmp_path).returncode == 1
    assert not canary.exists()


@pytest.mark.anyio
async def test_names_in_a_nodes_json_are_refused_and_named(
    canary: Path, lab: Lab, run_sync: Any, tmp_path: Path
) -> None:
    """The node lists images whose names are weapons, in scope and out of it; none is ever pulled anywhere."""
    (one,) = lab.docker(1)
    prefix = lab.repository()
    good = lab.push(f"{prefix}app", "1", content())
    pull(one, good)
    scope = f"{lab.registry.address}/{prefix}"
    names = [f"{scope}{weapon.format(canary=canary)}:1" for weapon in WEAPONS]
    document = [{"Id": "sha256:" + "a" * 64, "RepoTags": [*names, "<none>:<none>"], "RepoDigests": names, "Size": 1}]
    (tmp_path / "inspect.json").write_text(json.dumps(document))
    calls = tmp_path / "calls"
    evil = lab.scripted_node(
        {
            "docker": f"""echo "$@" >> {calls}
            case "$1 $2" in
              version*) exit 0;;
              "image ls") echo sha256:{"a" * 64};;
              "image inspect") cat {tmp_path}/inspect.json;;
            esac"""
        }
    )
    report = await run_sync(lab.config([one, evil], prefix, tmp_path / "logs", peers="never"))
    assert report.exit_code == 3
    assert len(report.refused[evil.name]) >= len(WEAPONS)
    assert {str(want.name) for want in report.wants} == {good}
    pulls = [line for line in calls.read_text().splitlines() if line.startswith("pull")]
    assert pulls == [f"pull {good}"]
    assert not canary.exists()
    log = (tmp_path / "logs" / "image-sync-2026-03-02.log").read_text()
    assert "no image references" in log
    assert all(line.startswith("[2026-") for line in log.splitlines())


@pytest.mark.anyio
async def test_even_hostile_arguments_reach_a_remote_program_as_they_are(
    lab: Lab, canary: Path, tmp_path: Path
) -> None:
    """What stands behind the grammar: quoting. Every argument arrives whole, also one made of shell syntax."""
    from windlass.images.ssh import Shell

    (one,) = lab.docker(1)
    config = lab.config([one], "x/", tmp_path)
    shell = Shell(config.nodes[0], config.settings)
    weapon = SHELL.format(canary=canary).replace("\n", " ")
    try:
        direct = await shell.run(("printf", "%s", weapon))
        piped = await shell.run(("printf", "%s", weapon), ("cat",))
    finally:
        await shell.close()
    assert direct.stdout.decode() == piped.stdout.decode() == weapon
    assert not canary.exists()


@pytest.mark.parametrize("argument", ["", "a\nb", "a\0b", "a\x1bb", "a\rb"])
def test_an_argument_with_control_characters_is_never_rendered(argument: str) -> None:
    with pytest.raises(ImageSyncError):
        render([("echo", argument)], timeout_seconds=1)


def test_with_sudo_the_time_limit_runs_as_root_too() -> None:
    """A plain user's `timeout` could not end what root runs."""
    words = shlex.split(render([("docker", "pull", "x")], timeout_seconds=7, sudo=True))
    assert words[:3] == ["exec", "sudo", "-n"]
    assert words.index("sudo") < words.index("timeout") < words.index("docker")
    assert words[-3:] == ["docker", "pull", "x"]
