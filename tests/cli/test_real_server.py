"""The command line and a real server, as a person meets them."""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.person import at_a_terminal
from tests.cli.server import DEADLINE_SECONDS, RealServer, real_server, the_rest
from tests.parts.ports import free_port
from tests.parts.waiting import wait_for

from windlass.cli import exits

PROGRAM = "from windlass.boot.entry import windlass; windlass()"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with real_server(tmp_path_factory.mktemp("server"), free_port()) as running:
        yield running


def test_a_job_prints_leaves_an_artifact_and_exits_with_3(server: RealServer, tmp_path: Path) -> None:
    script = "echo one; echo two; echo oops >&2; head -c 300000 /dev/zero | tr '\\0' x > model.bin; echo three; exit 3"
    done = server.windlass("run", "--name", "maker", "--", "sh", "-c", script)
    assert done.stdout == "one\ntwo\nthree\n"
    assert done.stderr.startswith("oops\n")
    assert done.stderr.rstrip().endswith("exit code 3")
    assert done.returncode == 3
    uid = json.loads(server.windlass("get", "job", "maker", "-o", "json").stdout)["metadata"]["uid"]
    assert server.windlass("download", uid, cwd=tmp_path).returncode == 0
    assert (tmp_path / "artifacts-maker" / "model.bin").exists(), "named as people know it"
    fetched = server.windlass("download", "maker", "model.bin", cwd=tmp_path)
    assert fetched.stdout == "1 file, 293.0 KiB → model.bin\n"
    assert (tmp_path / "model.bin").read_bytes() == b"x" * 300_000
    assert server.windlass("cp", "maker:/artifacts/model.bin", "-").stdout == "x" * 300_000
    page = server.windlass("describe", "job", "maker").stdout
    assert page.startswith("maker  FAILED  exit code 3\n")
    for part in ("Reason", "ExitCode", "Accepted", "Running", "three"):
        assert part in page


def test_a_project_is_there_when_the_command_starts_and_comes_back_changed(server: RealServer, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    (project / "run.sh").write_text("#!/bin/sh\ncat sub/data > result; echo ran\n")
    (project / "run.sh").chmod(0o755)
    (project / "sub/data").write_bytes(bytes(range(256)))
    (project / ".windlassignore").write_text("*.secret\n")
    (project / "my.secret").write_text("stays here")
    done = server.windlass("run", "--name", "proj", "--project-dir", str(project), "--", "./run.sh")
    assert (done.stdout, done.returncode) == ("ran\n", 0), done.stderr
    assert server.windlass("download", "proj", "-d", str(tmp_path / "back")).returncode == 0
    names = sorted(
        str(path.relative_to(tmp_path / "back")) for path in (tmp_path / "back").rglob("*") if path.is_file()
    )
    assert names == ["result", "run.sh", "sub/data"]
    assert (tmp_path / "back/result").read_bytes() == bytes(range(256))
    assert os.access(tmp_path / "back/run.sh", os.X_OK)


def test_followed_logs_lose_and_double_nothing_when_the_server_is_killed(tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); sleep 0.01; done"
    with real_server(tmp_path, free_port()) as server:
        follower = server.popen("run", "--name", "chatty", "--", "sh", "-c", script)
        assert follower.stdout is not None
        first = [follower.stdout.readline() for _ in range(20)]
        server.kill()
        server.start()
        rest, err = the_rest(follower)
        assert first + rest.splitlines(keepends=True) == [f"line {i}\n" for i in range(400)], err
        assert follower.returncode == 0


def test_output_comes_byte_for_byte_whatever_the_bytes_and_however_long_the_lines(
    server: RealServer, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 700 + b"\n\xff\n\n" + b"\xe2\x82\xac\xfe" * 60_000 + b"\nend \xff\xfe"
    (tmp_path / "blob").write_bytes(content)
    done = server.windlass_bytes("run", "--name", "binary", "--", "cat", str(tmp_path / "blob"))
    assert (done.stdout == content, done.stderr, done.returncode) == (True, b"", 0)
    assert server.windlass_bytes("logs", "binary").stdout == content
    to_stderr = server.windlass_bytes("run", "--", "sh", "-c", r"printf '\377\376' >&2")
    assert (to_stderr.stdout, to_stderr.stderr) == (b"", b"\xff\xfe")


def test_a_terminal_for_a_quick_command_loses_neither_output_nor_exit_code(server: RealServer) -> None:
    for code in range(6):
        done = server.windlass("run", "-it", "--", "sh", "-c", f"echo hi {code}; exit {code}")
        assert (done.stdout.replace("\r", ""), done.returncode) == (f"hi {code}\n", code), done.stderr


def test_input_without_a_terminal_goes_in_and_comes_out_once(server: RealServer) -> None:
    done = server.windlass("run", "-i", "--", "cat", stdin="hi\n")
    assert (done.stdout, done.stderr, done.returncode) == ("hi\n", "", 0)
    apart = server.windlass("run", "-i", "--", "sh", "-c", "read a; echo $a; cat >&2; exit 3", stdin="one\ntwo\n")
    assert (apart.stdout, apart.returncode) == ("one\n", 3)
    assert apart.stderr.startswith("two\n"), "and nothing is echoed"
    assert "FAILED" in apart.stderr
    empty = server.windlass("run", "-q", "-i", "--", "wc", "-c", stdin="")
    assert (empty.stdout.strip(), empty.stderr, empty.returncode) == ("0", "", 0)


def test_input_is_a_pipe_also_when_it_is_long_or_not_read(server: RealServer) -> None:
    lines = "".join(f"{number}\n" for number in range(600_000, 0, -1))
    done = server.windlass("run", "-i", "--", "sort", "-n", stdin=lines)
    assert done.stdout.splitlines() == [str(number) for number in range(1, 600_001)], done.stderr
    head = server.windlass("run", "-i", "--", "head", "-n", "1", stdin=lines)
    assert (head.stdout, head.stderr, head.returncode) == ("600000\n", "", 0)


@pytest.mark.parametrize("away_seconds", [1, pytest.param(60, marks=pytest.mark.soak)])
def test_a_reader_that_takes_its_time_holds_up_input_and_output_and_loses_nothing(
    server: RealServer, tmp_path: Path, away_seconds: int
) -> None:
    """Both directions are full then: whoever sends must not keep the other from taking, nor take it for gone."""
    given = tmp_path / "given"
    given.write_bytes(random.Random(3).randbytes(40_000_000))
    with given.open("rb") as source:
        command = (sys.executable, "-c", PROGRAM, "run", "-q", "-i", "--", "cat")
        client = subprocess.Popen(command, env=server.environ, stdin=source, stdout=subprocess.PIPE, bufsize=0)
        assert client.stdout is not None
        before = client.stdout.read(1)
        stands = StandsStill(lambda: position(client.pid), away_seconds)
        wait_for(stands, away_seconds + DEADLINE_SECONDS, "input to go on until nobody takes more")
        rest, _ = client.communicate(timeout=120)
    assert before + rest == given.read_bytes()
    assert client.returncode == 0


class StandsStill:
    """Whether a number has not changed for so long."""

    def __init__(self, look: Callable[[], int], seconds: float) -> None:
        self._look = look
        self._seconds = seconds
        self._seen = -1
        self._since = 0.0

    def __call__(self) -> bool:
        seen, now = self._look(), time.monotonic()
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since >= self._seconds


def position(pid: int) -> int:
    """How far its standard input has been read."""
    return int(Path(f"/proc/{pid}/fdinfo/0").read_text().split("pos:")[1].split()[0])


def test_an_interrupt_cancels_a_job_that_is_given_input_without_a_question(server: RealServer) -> None:
    loop = ("run", "-i", "--name", "typed", "--", "sh", "-c", "while read a; do echo got $a; done")
    with at_a_terminal(PROGRAM, *loop, environ=server.environ) as person:
        person.types("one\n")
        person.reads("got one")
        person.types("\x03")
        person.reads("cancelling typed")
        person.reads("typed CANCELLED")
        assert person.waits() == exits.INTERRUPTED


def test_input_is_given_once(server: RealServer) -> None:
    done = server.windlass("run", "-i", "--retries", "2", "--", "cat", stdin="hi\n")
    assert (done.stdout, done.returncode) == ("", exits.USAGE)
    assert "-i and --retries exclude each other: input can be given only once" in done.stderr


def test_a_window_without_a_size_or_with_too_large_a_one_is_no_reason_to_leave(server: RealServer) -> None:
    loop = (
        "run",
        "-it",
        "--name",
        "window",
        "--",
        "sh",
        "-c",
        "echo ready; while read x; do echo $x: $(stty size); done",
    )
    with at_a_terminal(PROGRAM, *loop, environ=server.environ) as person:
        person.reads("ready")
        person.types("one\n")
        person.reads("one: 24 80")
        person.sizes_the_window(0, 0)
        person.types("two\n")
        person.reads("two: 24 80")
        person.sizes_the_window(30, 1200)
        end = time.monotonic() + DEADLINE_SECONDS
        while "30 1000" not in person.seen:
            assert time.monotonic() < end
            person.types("three\n")
            person.reads("three: ")
            person.reads("\n")
        person.types("\x04")
        assert person.waits() == 0


def test_who_attaches_to_a_job_without_input_is_told_so_and_shown_its_output(server: RealServer) -> None:
    server.windlass(
        "run", "-d", "--name", "deaf", "--", "sh", "-c", "echo up; until [ -e go ]; do sleep 0.05; done; exit 4"
    )
    with at_a_terminal(PROGRAM, "attach", "deaf", environ=server.environ) as person:
        person.reads("deaf takes no input; what it prints follows")
        person.reads("up")
        person.types("x\n")
        server.windlass("exec", "deaf", "--", "sh", "-c", "touch $WINDLASS_ARTIFACTS/go")
        person.reads("deaf FAILED")
        assert person.waits() == 4
    assert "error" not in person.seen


def test_a_follower_is_told_that_the_job_was_deleted(server: RealServer) -> None:
    server.windlass("run", "-d", "--name", "doomed", "--", "sh", "-c", "echo up; sleep 3600")
    follower = server.popen("logs", "-f", "doomed")
    assert follower.stdout is not None
    assert follower.stdout.readline() == "up\n"
    server.windlass("delete", "doomed", "--volume")
    _, err = follower.communicate(timeout=DEADLINE_SECONDS)
    assert (err.splitlines()[0], follower.returncode) == (
        "error: the job was deleted by somebody else",
        exits.NOT_FOUND,
    )


def test_who_cancels_a_job_in_its_flood_does_not_wait_for_all_that_it_printed(server: RealServer) -> None:
    flood = ("run", "--name", "flood", "--", "yes", "a line of a flood")
    with at_a_terminal(PROGRAM, *flood, environ=server.environ) as person:
        person.reads("a line of a flood")
        person.types("\x03")
        person.reads("[c]ancel")
        person.types("c")
        person.reads("the rest of what it printed is left out here; `windlass logs flood` has it")
        person.reads("flood CANCELLED")
        assert person.waits() == exits.INTERRUPTED


def test_a_suspended_job_runs_when_it_is_released(server: RealServer) -> None:
    held = (
        "apiVersion: windlass.dev/v1\nkind: Job\nmetadata: {name: held}\nspec: {command: [echo, free], suspend: true}\n"
    )
    assert server.windlass("apply", "-f", "-", stdin=held).returncode == 0
    assert server.windlass("release", "held").stdout == "job/held released\n"
    followed = server.windlass("logs", "-f", "held")
    assert (followed.stdout, followed.returncode) == ("free\n", 0), followed.stderr


def test_a_terminal_whose_server_is_killed_says_that_the_job_lives_on(tmp_path: Path) -> None:
    with real_server(tmp_path, free_port()) as server:
        process = server.popen("run", "-it", "--name", "shell", "--", "sh", "-c", "echo up; sleep 3600")
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "up"
        server.kill()
        _, err = process.communicate(timeout=DEADLINE_SECONDS)
        server.start()
        assert "error: the terminal's connection broke off" in err
        assert "hint: the job lives on; `windlass attach shell` comes back to it" in err
        assert process.returncode == exits.TRY_LATER


def test_states_and_exit_codes_of_ends(server: RealServer) -> None:
    timed_out = server.windlass("run", "--timeout", "1", "--", "sleep", "3600")
    assert timed_out.returncode == exits.TIMED_OUT
    assert "TIMED_OUT" in timed_out.stderr
    absent = server.windlass("run", "--", "no-such-program-anywhere")
    assert absent.returncode not in {0, exits.GENERAL, exits.USAGE}
    assert "no-such-program-anywhere" in absent.stderr
    again = server.windlass("run", "--retries", "1", "--", "sh", "-c", "echo try; exit 9")
    assert again.returncode == 9
    assert again.stdout == "try\ntry\n", "both attempts are shown"


def test_a_waiting_job_says_why_and_can_be_cancelled(server: RealServer) -> None:
    all_cores = json.loads(server.windlass("get", "nodes", "-o", "json").stdout)["items"][0]["capacity"]["cpu"]
    server.windlass("run", "-d", "--name", "hog", "--cpu", str(all_cores), "--", "sleep", "3600")
    server.windlass("run", "-d", "--name", "waits", "--cpu", str(all_cores), "--", "true")
    pending = ("get", "jobs", "--state", "pending")
    wait_for(lambda: "cpu" in server.windlass(*pending).stdout, DEADLINE_SECONDS, "a try to place it")
    [_, line] = server.windlass(*pending).stdout.splitlines()
    assert line.startswith("waits")
    assert "cpu" in line
    assert server.windlass("cancel", "waits").stdout.startswith("job/waits ")
    assert server.windlass("logs", "-f", "waits").returncode == 0
    assert json.loads(server.windlass("get", "job", "waits", "-o", "json").stdout)["status"]["state"] == "CANCELLED"
    assert server.windlass("cancel", "waits").returncode == exits.CONFLICT
    assert server.windlass("delete", "hog", "--volume").returncode == 0


def test_what_can_never_run_is_refused_with_what_would_fit(server: RealServer) -> None:
    refused = server.windlass("run", "-d", "--cpu", "4000", "--", "true")
    assert refused.returncode != 0
    assert "spec.resources.cpu" in refused.stderr
    assert "hint:" in refused.stderr


def test_interrupting_run_cancels_the_job(server: RealServer) -> None:
    process = server.popen("run", "--name", "stopped", "--", "sh", "-c", "echo up; sleep 3600")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == exits.INTERRUPTED
    assert json.loads(server.windlass("get", "job", "stopped", "-o", "json").stdout)["status"]["state"] == "CANCELLED"


def test_apply_many_documents_twice_then_changed(server: RealServer, tmp_path: Path) -> None:
    one = "apiVersion: windlass.dev/v1\nkind: Job\nmetadata: {name: doc-one}\nspec: {command: 'true', env: {A: no}}\n"
    (tmp_path / "jobs.yaml").write_text(one + "---\n" + one.replace("one", "two"))
    apply = ("apply", "-f", str(tmp_path / "jobs.yaml"))
    assert server.windlass(*apply).stdout == "job/doc-one created\njob/doc-two created\n"
    assert server.windlass(*apply).stdout == "job/doc-one unchanged\njob/doc-two unchanged\n"
    changed = server.windlass("apply", "-f", "-", stdin=one.replace("A: no", "A: yes"))
    assert changed.returncode == exits.CONFLICT
    assert "spec.env" in changed.stderr
    shown = server.windlass("get", "job", "doc-one", "-o", "yaml").stdout
    assert server.windlass("apply", "-f", "-", stdin=shown).stdout == "job/doc-one unchanged\n"


def test_every_fault_is_named_at_once(server: RealServer) -> None:
    bad = "apiVersion: windlass.dev/v1\nkind: Job\nmetadata: {name: bad}\n"
    bad += "spec: {command: 'true', retries: -1, resources: {cpu: lots}}\n"
    refused = server.windlass("apply", "-f", "-", stdin=bad)
    assert refused.returncode == exits.GENERAL
    assert "spec.retries" in refused.stderr
    assert "spec.resources.cpu" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_exec_runs_beside_the_job_and_passes_input_through(server: RealServer) -> None:
    server.windlass("run", "-d", "--name", "host", "--", "sh", "-c", "echo ready; sleep 3600")
    follower = server.popen("logs", "-f", "host")
    assert follower.stdout is not None
    assert follower.stdout.readline() == "ready\n"
    done = server.windlass("exec", "host", "--", "sh", "-c", "echo inside; echo err >&2; exit 5")
    assert (done.stdout, done.stderr, done.returncode) == ("inside\n", "err\n", 5)
    piped = server.windlass("exec", "-i", "host", "--", "tr", "a-z", "A-Z", stdin="shout\n")
    assert (piped.stdout, piped.returncode) == ("SHOUT\n", 0), piped.stderr
    server.windlass("delete", "host", "--volume")
    follower.kill()
    follower.communicate(timeout=DEADLINE_SECONDS)
    over = server.windlass("exec", "host", "--", "true")
    assert over.returncode in {exits.NOT_FOUND, exits.CONFLICT}


def test_egpu_from_create_to_cleanup(server: RealServer, tmp_path: Path) -> None:
    refused = server.egpu("create", "cat", "--", "true")
    assert refused.returncode != 0
    assert "--gpu 0" in refused.stderr
    assert refused.stderr.count("error:") == 1
    (tmp_path / "input.jpg").write_bytes(b"picture")
    script = ("sh", "-c", "cp input.jpg output.json; echo device: cpu")
    done = server.egpu("create", "cat", "--gpu", "0", "--project-dir", str(tmp_path), "--", *script)
    assert (done.stdout, done.returncode) == ("device: cpu\n", 0), done.stderr
    listed = server.egpu("list").stdout.splitlines()
    assert [line.split()[:2] for line in listed] == [["NAME", "PHASE"], ["cat", "Succeeded"]]
    status = json.loads(server.egpu("get", "cat", "-o", "json").stdout)["status"]
    assert status["artifactPath"] == "artifacts-cat"
    assert server.egpu("download", "cat", "output.json", cwd=tmp_path).returncode == 0
    assert (tmp_path / "output.json").read_bytes() == b"picture"
    assert server.egpu("logs", "cat").stdout == "device: cpu\n"
    assert server.egpu("debug", "cat", "--exec", "ls").returncode == 0
    assert server.egpu("cleanup").stdout.endswith("skipped\n")
    assert server.egpu("delete", "cat", "--delete-pvc").stdout == "job/cat deleted, its volume too\n"
    assert server.egpu("get", "cat").returncode == exits.NOT_FOUND


def test_a_watched_list_prints_a_line_per_change(server: RealServer, tmp_path: Path) -> None:
    watcher = server.popen("get", "jobs", "-o", "name", "--watch")
    assert watcher.stdout is not None
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not select.select([watcher.stdout], [], [], 0)[0] and time.monotonic() < deadline:
        server.windlass("run", "--", "true")  # a first one, so that there is a list to wait for
    go = tmp_path / "go"
    server.windlass("run", "-d", "--name", "seen", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done")
    lines = iter(watcher.stdout.readline, "")
    assert "job/seen\n" in lines, "one line for its beginning"
    go.touch()  # only now, so that its end is another change
    assert "job/seen\n" in lines, "and one for its end"
    watcher.send_signal(signal.SIGINT)
    watcher.communicate(timeout=DEADLINE_SECONDS)
    assert watcher.returncode == exits.INTERRUPTED


def test_a_reader_that_leaves_ends_the_command_quietly(server: RealServer) -> None:
    server.windlass("run", "--name", "wordy", "--", "seq", "1", "20000")
    process = server.popen("logs", "wordy")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "1\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(DEADLINE_SECONDS) == exits.READER_GONE


def test_a_reader_that_leaves_a_copy_is_no_broken_download(server: RealServer) -> None:
    script = 'seq 1 2000000 > "$WINDLASS_ARTIFACTS/big"'
    server.windlass("run", "--name", "copied", "--", "sh", "-c", script)
    process = server.popen("cp", "copied:/artifacts/big", "-")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "1\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(DEADLINE_SECONDS) == exits.READER_GONE


@pytest.mark.parametrize("flags", [(), ("-i",)], ids=["run", "run -i"])
def test_a_reader_that_leaves_a_run_is_told_that_the_job_goes_on(server: RealServer, flags: tuple[str, ...]) -> None:
    script = "while echo more; do sleep 0.05; done"
    process = server.popen("run", *flags, "--name", "unread", "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "more\n"
    process.stdout.close()
    assert "left unread running" in (said := process.stderr.read())
    assert "`windlass cancel unread`" in said
    assert process.wait(DEADLINE_SECONDS) == exits.READER_GONE
    server.windlass("delete", "unread")


def test_a_run_that_is_to_be_removed_leaves_nothing(server: RealServer) -> None:
    assert server.windlass("run", "--rm", "--name", "passing", "--", "sh", "-c", "exit 3").returncode == 3
    assert server.windlass("get", "job", "passing").returncode == exits.NOT_FOUND


@pytest.mark.parametrize("leaves", ["reader", "run"])
def test_a_run_that_was_to_be_removed_and_is_left_says_that_it_stays(server: RealServer, leaves: str) -> None:
    script, name = "while echo more; do sleep 0.05; done", f"unremoved-{leaves}"
    process = server.popen("run", "--rm", "--name", name, "--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "more\n"
    if leaves == "reader":
        process.stdout.close()
    else:
        process.send_signal(signal.SIGTERM)
    said = process.stderr.read()
    assert said.splitlines() == [
        f"left {name} running, and --rm will not be served; `windlass delete --volume {name}` ends and removes it"
    ]
    assert process.wait(DEADLINE_SECONDS) == (exits.READER_GONE if leaves == "reader" else -signal.SIGTERM)
    assert server.windlass("get", "job", name, "-o", "name").stdout == f"job/{name}\n"
    server.windlass("delete", "--volume", name)


def test_who_and_what_is_there(server: RealServer) -> None:
    assert "tenant" in server.windlass("whoami").stdout
    assert "server" in server.windlass("version").stdout
    assert "active" in server.windlass("get", "nodes").stdout
    link = server.windlass("open").stdout.strip()
    assert link.startswith(f"http://127.0.0.1:{server.port}/#token=")


def test_without_a_token_the_answer_says_what_to_do(server: RealServer) -> None:
    refused = server.windlass("--url", f"http://127.0.0.1:{server.port}", "--token", "nonsense", "get", "jobs")
    assert refused.returncode == exits.REFUSED
    assert "error:" in refused.stderr
    assert "hint:" in refused.stderr
