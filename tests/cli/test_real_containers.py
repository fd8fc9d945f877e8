"""The command line on a real Docker Engine: what differs from plain processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.server import DEADLINE_SECONDS, RealServer, real_server
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.ports import free_port

from windlass.cli import exits

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def server(docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with real_server(tmp_path_factory.mktemp("server"), free_port(), docker_host=docker_engine.host) as running:
        yield running


def test_a_container_prints_writes_and_exits_with_3(server: RealServer, tmp_path: Path) -> None:
    script = "echo one; echo oops >&2; mkdir /artifacts/sub; echo made > /artifacts/sub/out; echo top > /artifacts/top; exit 3"
    done = server.windlass("run", "--name", "maker", IMAGE, "--", "sh", "-c", script)
    assert (done.stdout, done.returncode) == ("one\n", 3), done.stderr
    assert server.windlass("download", "maker", "-d", str(tmp_path / "all")).returncode == 0
    assert (tmp_path / "all/sub/out").read_text() == "made\n"
    assert (tmp_path / "all/top").read_text() == "top\n"
    assert server.windlass("cp", "maker:/sub", str(tmp_path / "mine")).returncode == 0
    assert (tmp_path / "mine/out").read_text() == "made\n"
    assert server.windlass("cp", "maker:/artifacts/top", "-").stdout == "top\n"
    assert "exit code 3" in server.windlass("describe", "maker").stdout
    looked = server.windlass("debug", "maker", "--exec", "cat /mnt/top")
    assert (looked.stdout.replace("\r", ""), looked.returncode) == ("top\n", 0), looked.stderr


def test_a_project_is_the_working_directory(server: RealServer, tmp_path: Path) -> None:
    (tmp_path / "main.sh").write_text("echo from $PWD\n")
    done = server.windlass("run", "--project-dir", str(tmp_path), IMAGE, "--", "sh", "main.sh")
    assert (done.stdout, done.returncode) == ("from /artifacts\n", 0), done.stderr


def test_a_command_that_is_not_in_the_image_is_exit_125_or_its_shells_127(server: RealServer) -> None:
    done = server.windlass("run", IMAGE, "--", "no-such-program")
    assert done.returncode in {exits.NO_EXIT_CODE, 127}
    assert "no-such-program" in done.stderr


def test_a_terminal_for_a_quick_command_returns_its_exit_code(server: RealServer) -> None:
    for code in range(3):
        done = server.windlass("run", "-it", IMAGE, "--", "sh", "-c", f"echo hi; exit {code}")
        assert (done.stdout.replace("\r", ""), done.returncode) == ("hi\n", code), done.stderr


def test_exec_reaches_into_the_container(server: RealServer) -> None:
    server.windlass("run", "-d", "--name", "host", IMAGE, "--", "sh", "-c", "echo ready; sleep 3600")
    follower = server.popen("logs", "-f", "host")
    assert follower.stdout is not None
    assert follower.stdout.readline() == "ready\n"
    done = server.windlass("exec", "-i", "host", "--", "sh", "-c", "read x; echo got $x; exit 4", stdin="this\n")
    assert (done.stdout, done.returncode) == ("got this\n", 4), done.stderr
    server.windlass("cancel", "host")
    follower.communicate(timeout=DEADLINE_SECONDS)
    assert follower.returncode == 0
