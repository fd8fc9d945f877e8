"""The settings file is read, never run; all that is missing is named at once."""

from pathlib import Path

import pytest

from windlass.images.config import load_config, parse_address
from windlass.images.errors import ImageSyncError, Mistakes
from windlass.images.initial import initial_settings
from windlass.images.settings import SETTINGS, Settings
from windlass.images.shellfile import parse_shell_file

SEED = """
# the seed's two nodes and two prefixes
NODE1="worker-1"
NODE2=admin@worker-2:2222   # with a port
PREFIX1='registry.example.com/team/'
export PREFIX2=docker.io/library/
BASE=/var/log
LOG_DIR="${BASE}/image-sync"
TIME_OUT=600
MAX_PARALLEL=8
"""


def write(tmp_path: Path, text: str, name: str = "image-sync.conf") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_the_seeds_file_is_understood(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, SEED), {}, {})
    assert [node.name for node in config.nodes] == ["worker-1", "admin@worker-2:2222"]
    assert (config.nodes[1].user, config.nodes[1].host, config.nodes[1].port) == ("admin", "worker-2", 2222)
    assert config.prefixes == ("registry.example.com/team/", "docker.io/library/")
    assert config.log_dir == Path("/var/log/image-sync")
    assert (config.settings.timeout_seconds, config.settings.max_parallel) == (600, 8)
    assert config.warnings == (f"BASE ({tmp_path}/image-sync.conf line 7): no such setting; ignored",)


def test_lists_arrays_and_numbered_keys_make_one_list_without_doubles(tmp_path: Path) -> None:
    text = 'NODES=(a "b"\n  c # third\n)\nNODE10=e\nNODE2=d\nNODE3=a\nPREFIXES="x/, y/"\nLOG_DIR=/l\n'
    config = load_config(write(tmp_path, text), {}, {})
    assert [node.name for node in config.nodes] == ["a", "b", "c", "d", "e"]
    assert config.prefixes == ("x/", "y/")


def test_toml_says_the_same(tmp_path: Path) -> None:
    text = 'nodes = ["a", "b"]\nprefixes = ["x/"]\nlog_dir = "/l"\ntime_out = 90\nsudo = true\nmax_log_size = "1M"\n'
    config = load_config(write(tmp_path, text, "image-sync.toml"), {}, {})
    assert [node.name for node in config.nodes] == ["a", "b"]
    assert config.settings == Settings(timeout_seconds=90, sudo=True, max_log_bytes=1 << 20)


def test_toml_of_the_wrong_kind_is_not_taken_for_text(tmp_path: Path) -> None:
    text = 'nodes = ["a"]\nprefixes = 3\nlog_dir = ["/l"]\n'
    with pytest.raises(ImageSyncError) as wrong:
        load_config(write(tmp_path, text, "image-sync.toml"), {}, {})
    assert "prefixes is neither a text nor a list of texts" in str(wrong.value)
    assert "log_dir is not a text" in str(wrong.value)


def test_every_missing_key_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ImageSyncError, match=r"NODES, PREFIXES, LOG_DIR") as missing:
        load_config(write(tmp_path, "TIME_OUT=60\n"), {}, {})
    assert missing.value.code == "config.missing"
    assert "--init" in str(missing.value)


def test_a_bad_optional_value_is_a_warning_and_the_default(tmp_path: Path) -> None:
    text = (
        "NODES=a\nPREFIXES=x/\nLOG_DIR=/l\nTIME_OUT=59\nMAX_PARALLEL=many\nLOG_LEVEL=LOUD\nMAX_LOG_SIZE=-1\nPEERS=x\n"
    )
    config = load_config(write(tmp_path, text), {}, {})
    assert config.settings == Settings()
    assert [warning.split("=")[0] for warning in config.warnings] == [
        "TIME_OUT",
        "MAX_PARALLEL",
        "LOG_LEVEL",
        "MAX_LOG_SIZE",
        "PEERS",
    ]


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, SEED), {"TIME_OUT": "120", "NODES": ("z",)}, {})
    assert config.settings.timeout_seconds == 120
    assert [node.name for node in config.nodes] == ["z"]


EXECUTABLE = {
    "command substitution": 'LOG_DIR="$(touch canary)"',
    "backticks": 'LOG_DIR="`touch canary`"',
    "bare backticks": "LOG_DIR=`touch canary`",
    "a second command": "LOG_DIR=/l; touch canary",
    "a command in front": "touch canary",
    "an environment for a command": "LOG_DIR=/l touch canary",
    "a pipe": "LOG_DIR=/l|touch canary",
    "a redirection": "LOG_DIR=/l>canary",
    "arithmetic": "LOG_DIR=$((1+1))",
    "a parameter operation": "LOG_DIR=${HOME:=canary}",
    "an unknown variable": "LOG_DIR=$PATH/x",
    "a function": "f() { touch canary; }",
    "process substitution": "LOG_DIR=<(touch canary)",
    "an open quote": 'LOG_DIR="/l',
    "an open array": "NODES=(a b",
    "a glob": "LOG_DIR=/l/*",
    "sourcing": ". ./other.conf",
}


@pytest.mark.parametrize("case", EXECUTABLE)
def test_whatever_would_make_a_shell_act_is_refused_with_its_line(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImageSyncError) as refused:
        load_config(write(tmp_path, f"NODES=a\n{EXECUTABLE[case]}\n"), {}, {"HOME": "/h", "PATH": "/p"})
    assert refused.value.code == "config.syntax"
    assert "line " in refused.value.where
    assert not (tmp_path / "canary").exists()


BAD_NODES = (
    "-oProxyCommand=touch canary",
    "a;b",
    "a b",
    "$(id)",
    "a@b@c",
    "host:0",
    "host:99999",
    "a\nb",
    "имя",
    "",
    "[::1",
)


@pytest.mark.parametrize("text", BAD_NODES)
def test_a_node_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_address(text)


@pytest.mark.parametrize("prefix", ["-x", "$(id)/", "a;b", "a'b", "a\\b", "*"])
def test_a_prefix_that_begins_no_name_is_refused(prefix: str, tmp_path: Path) -> None:
    with pytest.raises(ImageSyncError) as refused:
        load_config(None, {"NODES": ("a",), "PREFIXES": (prefix,), "LOG_DIR": "/l"}, {})
    assert refused.value.code == "config.invalid"


def test_a_node_or_prefix_that_cannot_be_one_is_named_with_its_line(tmp_path: Path) -> None:
    text = 'LOG_DIR=/l\nNODES=(\n  good\n  "b;d"  # here\n  also-good\n  "b ad"\n)\nPREFIX1=x/\nPREFIX2="-y"\n'
    path = write(tmp_path, text)
    with pytest.raises(Mistakes) as refused:
        load_config(path, {}, {})
    said = {(error.where, error.what) for error in refused.value.errors}
    assert said == {
        (f"{path} line 4", "not a node: 'b;d'"),
        (f"{path} line 6", "not a node: 'b ad'"),
        (f"{path} line 9", "not a prefix: '-y'"),
    }


def test_every_ssh_file_that_cannot_be_read_is_named_at_once(tmp_path: Path) -> None:
    absent = {"SSH_CONFIG": "/no/config", "SSH_KNOWN_HOSTS": "/no/hosts", "SSH_KEY": "/no/key"}
    with pytest.raises(Mistakes) as refused:
        load_config(write(tmp_path, SEED), absent, {})
    assert [error.where for error in refused.value.errors] == [f"{key}={path}" for key, path in absent.items()]
    assert {error.code for error in refused.value.errors} == {"config.unreadable"}


def test_nodes_may_be_names_addresses_or_ipv6() -> None:
    assert parse_address("root@[::1]:22").host == "::1"
    assert parse_address("10.0.0.7").port is None
    assert parse_address("worker_alias-1").host == "worker_alias-1"


def test_values_keep_what_quotes_protect() -> None:
    values = parse_shell_file('A=\'$x `y`\'\nB="a\\"b \\$c"\nC=pre"mid"\'end\'\n', where="f", environment={})
    assert values.values == {"A": "$x `y`", "B": 'a"b $c', "C": "premidend"}


CHOSEN = {"NODES": ("a",), "PREFIXES": ("x/",)}


@pytest.mark.parametrize("name", ["image-sync.conf", "image-sync.toml"])
def test_the_file_of_init_names_every_setting_and_runs_only_when_edited(name: str, tmp_path: Path) -> None:
    text = initial_settings(name.endswith(".toml"))
    path = write(tmp_path, text, name)
    with pytest.raises(ImageSyncError, match=r"not set: NODES, PREFIXES\."):
        load_config(path, {}, {})
    config = load_config(path, CHOSEN, {})
    assert config.settings == Settings()
    assert config.warnings == ()
    wanted = (setting.key if name.endswith(".conf") else setting.key.lower() for setting in SETTINGS)
    assert all(f"#{key}" in text for key in wanted)


@pytest.mark.parametrize("name", ["image-sync.conf", "image-sync.toml"])
def test_the_defaults_that_init_shows_are_the_defaults(name: str, tmp_path: Path) -> None:
    lines = initial_settings(name.endswith(".toml")).splitlines()
    text = "\n".join(line[1:] if line.startswith("#") and not line.startswith("# ") else line for line in lines)
    config = load_config(write(tmp_path, text, name), CHOSEN, {})
    assert config.settings == Settings()
    assert config.warnings == ()


MISTAKES = """
NODES="worker-1 a;b"
NODE2="-oProxyCommand=x"
PREFIXES=$(id)
TIME_OUT=60; reboot
MAX_PARALLEL=`id`
NODE3='open
"""


def test_every_mistake_is_named_at_once_with_its_place(tmp_path: Path) -> None:
    path = write(tmp_path, MISTAKES)
    with pytest.raises(ImageSyncError) as refused:
        load_config(path, {"PREFIXES": ("*",)}, {})
    lines = str(refused.value).splitlines()
    assert lines[0] == "8 mistakes in the settings:"
    begun = [f"{path} line {number}: " for number in (4, 5, 6, 7)]
    begun += [
        f"{path}: required but not set: LOG_DIR.",
        f"{path} line 2: not a node: 'a;b';",
        f"{path} line 3: not a node: '-oProxyCommand=x';",
        "command line: not a prefix: '*';",
    ]
    assert [line.strip().startswith(begin) for line, begin in zip(lines[1:], begun, strict=True)] == [True] * 8


def test_a_line_that_was_refused_is_not_called_missing(tmp_path: Path) -> None:
    with pytest.raises(ImageSyncError) as refused:
        load_config(write(tmp_path, "NODES=a\nPREFIX1=$(x)\nLOG_DIR=/l\n"), {}, {})
    assert refused.value.code == "config.syntax"
    assert "not set" not in str(refused.value)


def test_a_bad_value_is_blamed_on_who_gave_it(tmp_path: Path) -> None:
    path = write(tmp_path, "NODES=a\nPREFIXES=x/\nLOG_DIR=/l\nRETRIES=many\nTYPO=1\n")
    config = load_config(path, {"TIME_OUT": "5", "SPEED": "high"}, {})
    assert [warning.partition(": ")[0] for warning in config.warnings] == [
        "TIME_OUT='5' (command line)",
        f"RETRIES='many' ({path} line 4)",
        f"TYPO ({path} line 5)",
        "SPEED (command line)",
    ]


def test_a_relative_log_dir_begins_at_the_file_that_says_it(tmp_path: Path) -> None:
    """cron starts in another directory than a login shell; both must find the same logs and the same lock."""
    path = write(tmp_path, "NODES=a\nPREFIXES=x/\nLOG_DIR=logs\n")
    assert load_config(path, {}, {}).log_dir == tmp_path / "logs"
    elsewhere = load_config(path, {"LOG_DIR": "/other"}, {})
    assert (elsewhere.log_dir, elsewhere.lock_dir) == (Path("/other"), tmp_path / "logs")


@pytest.mark.parametrize("value", ["~nobody-of-that-name/x", "a\0b"])
def test_a_log_dir_that_is_no_directory_is_a_mistake_and_no_crash(value: str) -> None:
    with pytest.raises(ImageSyncError, match="LOG_DIR"):
        load_config(None, {**CHOSEN, "LOG_DIR": value}, {})


def test_a_file_that_is_not_there_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ImageSyncError, match="--init"):
        load_config(tmp_path / "none.conf", {}, {})
