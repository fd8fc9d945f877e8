"""The command line on a real Docker Engine: what differs from plain processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.person import Person, at_a_terminal
from tests.cli.server import DEADLINE_SECONDS, RealServer, real_server
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.ports import free_port

from windlass.cli import exits
from windlass.cli.render.table import columns_of

pytestmark = pytest.mark.docker

PROGRAM = "from windlass.boot.entry import windlass; windlass()"
LONGEST_NAME = "the-longest-name-that-a-job-may-have-is-sixty-three-letters-lon"
LEAVE = "\x10\x11"


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
    assert (done.stdout, done.stderr, done.returncode) == ("from /artifacts\n", "", 0), "and no bar in a pipe"


def test_a_command_that_is_not_in_the_image_is_exit_125_or_its_shells_127(server: RealServer) -> None:
    done = server.windlass("run", IMAGE, "--", "no-such-program")
    assert done.returncode in {exits.NO_EXIT_CODE, 127}
    assert "no-such-program" in done.stderr


def test_a_terminal_for_a_quick_command_returns_its_exit_code(server: RealServer) -> None:
    for code in range(3):
        done = server.windlass("run", "-it", IMAGE, "--", "sh", "-c", f"echo hi; exit {code}")
        assert (done.stdout.replace("\r", ""), done.returncode) == ("hi\n", code), done.stderr


def test_input_without_a_terminal_goes_in_and_comes_out_once(server: RealServer) -> None:
    for _ in range(3):
        done = server.windlass("run", "-i", IMAGE, "--", "sh", "-c", "cat; echo oh >&2; exit 3", stdin="hi\n" * 1000)
        assert (done.stdout, done.returncode) == ("hi\n" * 1000, 3)
        assert done.stderr.startswith("oh\n"), done.stderr


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


def test_a_shell_at_a_terminal_is_typed_into_sized_left_joined_and_ended(server: RealServer) -> None:
    with at_a_terminal(PROGRAM, "run", "-it", "--name", "shell", IMAGE, "--", "sh", environ=server.environ) as person:
        _is_a_shell_of_its_own_size(person, 101)
        person.types('x=ke""pt; echo s""et\r')
        person.reads("set")
        person.types(LEAVE)
        person.reads("left shell running; `windlass attach shell` comes back to it")
        assert person.waits() == exits.OK
    with at_a_terminal(PROGRAM, "exec", "-it", "shell", "--", "sh", environ=server.environ) as person:
        _is_a_shell_of_its_own_size(person, 102)
        person.types("exit 5\r")
        assert person.waits() == 5
    with at_a_terminal(PROGRAM, "attach", "shell", environ=server.environ) as person:
        _is_a_shell_of_its_own_size(person, 103)  # another size: what was shown before is shown again
        person.types('echo "still $x"\r')
        person.reads("still kept")
        person.types("sh -c 'echo wait\"\"ing; exec sleep 3600'\r")  # by itself, so that it is there to be ended
        person.reads("waiting")
        person.types("\x03")  # ends what the shell runs, not the shell
        person.types('echo al""ive\r')
        person.reads("alive")
        person.types("exit 7\r")
        assert person.waits() == 7
    assert "shell  FAILED  exit code 7" in server.windlass("describe", "shell").stdout


def test_ctrl_c_at_run_offers_to_cancel_or_to_leave_in_lines_of_80(server: RealServer) -> None:
    words = ("run", "--name", LONGEST_NAME, IMAGE, "--", "sh", "-c", "echo up; exec sleep 3600")
    with at_a_terminal(PROGRAM, *words, environ=server.environ) as person:
        person.reads("up\r\n")
        _is_asked_in_whole_lines(person)
        person.types("\r")
        person.reads("\n")  # not before: a Ctrl-C while it still asks is an answer too
        _is_asked_in_whole_lines(person)
        person.types("d")
        person.reads(f"`windlass logs -f {LONGEST_NAME}` comes back to it")
        assert person.waits() == exits.OK
    assert f"{LONGEST_NAME}  RUNNING" in server.windlass("describe", LONGEST_NAME).stdout
    with at_a_terminal(PROGRAM, "logs", "-f", LONGEST_NAME, environ=server.environ) as person:
        person.reads("up\r\n")
        server.windlass("delete", LONGEST_NAME)
        assert person.waits() == exits.NOT_FOUND
    silent = ("run", "--name", "silent", IMAGE, "--", "sleep", "3600")  # so that a living line stands where it asks
    with at_a_terminal(PROGRAM, *silent, environ=server.environ) as person:
        person.reads("running, no output yet")
        _is_asked_in_whole_lines(person, "silent")
        person.types("c")
        person.reads("cancelling silent")
        person.reads("silent CANCELLED")
        assert person.waits() == exits.INTERRUPTED
    assert server.windlass("get", "job", "silent").stdout.count("CANCELLED") == 1


def test_bars_are_drawn_at_a_terminal_while_bytes_go_and_come(server: RealServer, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "data").write_bytes(bytes(4 << 20))
    words = ("run", "--name", "carried", "--project-dir", str(tmp_path / "project"), IMAGE, "--", "true")
    for bars, line in (
        ({"checking": "4.0/4.0 MiB", "uploading": "4.0/4.0 MiB"}, words),
        ({"fetching": "4.0/? MiB"}, ("download", "carried", "-d", str(tmp_path / "back"))),
    ):
        with at_a_terminal(PROGRAM, *line, environ=server.environ) as person:
            assert person.waits() == exits.OK, person.seen
        for bar, figure in bars.items():
            drawn = [one for one in person.lines() if one.lstrip().startswith(bar)]
            assert any("━" in one and figure in one for one in drawn), person.seen
            assert max(map(columns_of, drawn)) <= 80, drawn
    assert (tmp_path / "back/data").read_bytes() == bytes(4 << 20)
    piped = server.windlass("download", "carried", "-d", str(tmp_path / "again"))
    assert (piped.stderr, piped.returncode) == ("", 0)


def _is_a_shell_of_its_own_size(person: Person, columns: int) -> None:
    """The size is told beside the keys: a command may run before it is there. Printed words differ from typed ones by quotes."""
    person.types("\r")
    person.reads("# ")  # not before: what is typed ahead of the shell's own terminal may be thrown away
    for wide in (80, columns):
        person.sizes_the_window(24, wide)
        person.types(f"until stty size | grep -q '24 {wide}'; do sleep 0.1; done; echo {wide} of {columns} fi\"\"ts\r")
        person.reads(f"{wide} of {columns} fits")


def _is_asked_in_whole_lines(person: Person, name: str = LONGEST_NAME) -> None:
    person.types("\x03")
    person.reads(f"{name} is not over.")
    person.reads("keep watching: ")
    asked = person.lines()[-2:]
    assert asked[0] == f"{name} is not over.", person.seen
    assert asked[1].startswith("[c]ancel it"), person.seen
    assert max(map(columns_of, asked)) < 80
