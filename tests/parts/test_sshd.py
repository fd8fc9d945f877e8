"""The ssh part is a node: its own address, key and environment."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.parts.sshd import SshNode, make_key


def test_a_command_runs_with_its_arguments_intact(sshd_nodes: Callable[..., list[SshNode]]) -> None:
    (node,) = sshd_nodes(1)
    done = node.run("sh", "-c", 'printf "%s|" "$@"; exit 3', "-", "it's", "$HOME", "a  b")
    assert (done.returncode, done.stdout) == (3, "it's|$HOME|a  b|")


def test_nodes_differ_by_port_and_environment(sshd_nodes: Callable[..., list[SshNode]]) -> None:
    nodes = [
        *sshd_nodes(1, environment={"NODE": "a"}),
        *sshd_nodes(1, environment={"NODE": "b", "PATH": "/none:/usr/bin:/bin"}),
    ]
    told = [node.run("sh", "-c", "echo $NODE $PATH").stdout.split() for node in nodes]
    assert [words[0] for words in told] == ["a", "b"]
    assert told[1][1] == "/none:/usr/bin:/bin"
    assert nodes[0].port != nodes[1].port


def test_another_key_is_refused(sshd_nodes: Callable[..., list[SshNode]], tmp_path: Path) -> None:
    (node,) = sshd_nodes(1)
    make_key(tmp_path / "stranger")
    command = [str(tmp_path / "stranger") if word == str(node.key) else word for word in node.client("true")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 255
    assert "Permission denied" in done.stderr


def test_files_travel_by_sftp(sshd_nodes: Callable[..., list[SshNode]], tmp_path: Path) -> None:
    (node,) = sshd_nodes(1)
    assert shutil.which("scp")
    (tmp_path / "here").write_text("content")
    options = node.client()[1:-1]
    options[options.index("-p")] = "-P"
    subprocess.run(
        ["scp", "-q", *options, str(tmp_path / "here"), f"{node.user}@{node.address}:{tmp_path}/there"], check=True
    )
    assert (tmp_path / "there").read_text() == "content"
