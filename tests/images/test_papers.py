"""The guide and the examples say what the program does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.images.command import images
from windlass.images.config import load_config
from windlass.images.lock import NAME
from windlass.images.settings import SETTINGS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "image-sync"
GUIDE = (ROOT / "docs" / "guides" / "image-sync.md").read_text()


@pytest.mark.parametrize("name", ["image-sync.conf", "image-sync.toml"])
def test_the_example_settings_are_accepted_without_a_warning(name: str) -> None:
    config = load_config(EXAMPLES / name, {}, {})
    assert config.warnings == ()
    assert [node.name for node in config.nodes] == ["worker-1", "worker-2", "admin@worker-3:2222"]


def test_both_examples_say_the_same() -> None:
    shell = load_config(EXAMPLES / "image-sync.conf", {}, {})
    toml = load_config(EXAMPLES / "image-sync.toml", {}, {})
    assert shell == toml


def test_the_guide_has_every_setting_with_its_default() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (?:`(.*?)`)? *\| (.*) \|$", GUIDE, re.MULTILINE)
    assert rows == [(setting.key, setting.default, setting.about) for setting in SETTINGS]


def test_options_named_in_the_guide_exist() -> None:
    known = {
        option for command in images.commands.values() for parameter in command.params for option in parameter.opts
    }
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", GUIDE)) <= known


def test_the_guide_names_every_option_and_every_exit_code() -> None:
    known = {
        option
        for command in images.commands.values()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert known <= set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", GUIDE))
    codes = re.findall(r"^\| ([0-9, ]+) \|", GUIDE, re.MULTILINE)
    assert [code.strip() for code in codes] == ["0", "1", "2", "3", "130, 143"]
    for command in images.commands.values():
        assert all(re.search(rf"\b{code}\b", command.help or "") for code in ("0", "1", "2", "3", "130/143"))


def test_the_guide_says_of_every_code_what_to_do() -> None:
    package = ROOT / "src" / "windlass" / "images"
    texts = [path.read_text() for path in package.rglob("*.py")]
    raised = {code for text in texts for code in re.findall(r'"((?:[a-z]+)\.[a-z_]+)",', text)}
    assert {"config.missing", "lock.held", "ssh.host_key", "peer.export"} <= raised
    rows = re.findall(r"^\| `([a-z]+\.[a-z_]+)` \| .+ \| .+ \|$", GUIDE, re.MULTILINE)
    assert sorted(rows) == sorted(raised)


def test_both_ways_in_lead_to_the_same_verbs() -> None:
    """`image-sync` and `windlass images sync|status|prune|copy`, as they are installed."""

    def shown(entry: str, *arguments: str) -> str:
        script = f"import sys; sys.argv[1:] = {list(arguments)}; from windlass.boot.entry import {entry}; {entry}()"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        return done.stdout

    assert re.findall(r"^  (copy|prune|status|sync) ", shown("windlass", "images", "--help"), re.MULTILINE) == [
        "copy",
        "prune",
        "status",
        "sync",
    ]
    options = [shown("image_sync", "--help"), shown("windlass", "images", "sync", "--help")]
    assert options[0].partition("Options:")[2] == options[1].partition("Options:")[2] != ""


def test_nothing_but_the_command_line_moves_the_lock() -> None:
    """What the unit sets for itself alone would be another lock than the one of a login shell."""
    assert NAME in GUIDE
    assert "--lock-file" in GUIDE
    assert not any("LOCK" in path.read_text() for path in EXAMPLES.iterdir())


def test_the_crontab_line_is_one_that_cron_would_run() -> None:
    lines = (EXAMPLES / "image-sync.cron").read_text().splitlines()
    (job,) = [line for line in lines if line and line[0].isdigit()]
    assert re.fullmatch(r"30 2 \* \* \* \w+ image-sync --config \S+ >/dev/null", job)


def test_the_units_hold_what_systemd_expects() -> None:
    service = (EXAMPLES / "image-sync.service").read_text()
    timer = (EXAMPLES / "image-sync.timer").read_text()
    for text, sections in ((service, ["Unit", "Service"]), (timer, ["Unit", "Timer", "Install"])):
        assert re.findall(r"^\[(\w+)\]$", text, re.MULTILINE) == sections
        body = [line for line in text.splitlines() if line and line[0] not in "#["]
        assert all(re.fullmatch(r"[A-Z]\w+=\S.*", line) for line in body)
    assert "Type=oneshot" in service


def test_the_help_is_quick_because_it_loads_no_ssh() -> None:
    script = (
        "import sys; import windlass.images.command; print(sorted({'asyncssh', 'rich', 'anyio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
