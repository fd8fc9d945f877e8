"""Starting and ending: what `up` refuses with a reason, what `down` leaves and what it takes along."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli.person import PROGRAM, at_a_terminal
from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for
from windlass.cli import exits


def state(server: WindlassServer, job: str) -> str:
    return server.state_of(job)


def test_down_finds_the_engine_that_up_used(docker_engine: DockerEngine) -> None:
    with WindlassServer(docker_host=docker_engine.host) as server:
        last_words = "trap 'echo farewell; exit 0' TERM; echo ready; sleep 600 & wait"
        server.cli("run", "--detach", "--name", "left", IMAGE, "--", "sh", "-c", last_words)
        wait_for(lambda: "ready" in server.cli("logs", "left", check=False).out, 120, "its trap")
        everything = f"{server.client().nodes()[0]['capacity']['cpu']}"
        server.cli("run", "--detach", "--name", "queued", "--cpu", everything, IMAGE, "--", "true")
        uid = server.cli("get", "job", "left", "-o", "json").json()["metadata"]["uid"]
        said = server.cli("down")
        assert "ending 1 run" in said.out
        assert "ended: 1 run" in said.out
        assert uid not in str(docker_engine.containers())
        assert uid in str(docker_engine.ask("/volumes"))
        server.start()
        over = server.cli("get", "job", "left", "-o", "json").json()["status"]
        assert (over["state"], over["reason"]) == ("CANCELLED", "TakenDown")
        assert "taken down" in over["message"]
        assert server.cli("logs", "left").out == "ready\nfarewell\n", "it had its grace"
        wait_for(lambda: state(server, "queued") == "SUCCEEDED", 120, "what waited meanwhile")
        (server.data / "windlass.toml").write_text("")
        said = server.cli("down", "--purge", "--yes")
        assert uid not in str(docker_engine.ask("/volumes"))
        assert "left there: windlass.toml" in said.out
        assert [path.name for path in server.data.iterdir()] == ["windlass.toml"]


def test_down_refuses_to_forget_what_an_absent_engine_holds() -> None:
    with DockerEngine() as engine:
        engine.import_busybox()
        with WindlassServer(docker_host=engine.host) as server:
            server.cli("run", "--name", "kept", IMAGE, "--", "true")
            server.stop()
            engine.stop()
            said = server.cli("down", "--purge", "--yes", check=False)
            assert said.code != 0
            assert "does not answer" in said.err
            assert (server.data / "installation.json").exists()
            engine.start()


def test_down_ends_plain_processes() -> None:
    with WindlassServer() as server:
        server.cli("run", "--detach", "--name", "proc", "--", "sleep", "600")
        wait_for(lambda: state(server, "proc") == "RUNNING", 120, "RUNNING")
        assert "ended: 1 run" in server.cli("down").out
        assert "nothing to do" not in server.cli("down", "--purge", "--yes").out
        assert "nothing to do" in server.cli("down").out


def test_who_follows_a_job_is_told_that_it_was_taken_down() -> None:
    """Also of the one whose end is the last thing the server does."""
    with WindlassServer() as server:
        quick, slow = "echo up; sleep 600", "trap '' TERM; echo up; while :; do sleep 1; done"
        followers = [
            server.begin("run", *flags, "--cpu", "100m", "--name", name, "--", "sh", "-c", script)
            for name, script, *flags in (("quick", quick), ("slow", slow), ("fed", slow, "-i"))
        ]
        for follower in followers:
            assert follower.stdout is not None
            assert follower.stdout.readline() == "up\n"
        server.cli("down")
        for name, follower in zip(("quick", "slow", "fed"), followers, strict=True):
            _, err = follower.communicate(timeout=120)
            assert f"{name} CANCELLED" in err
            assert "TakenDown" in err
            assert follower.returncode == exits.INTERRUPTED, err


@pytest.mark.parametrize("words", [("run", "-it", "--name", "shell", "--", "sh", "-c"), ("attach", "shell")])
def test_who_sits_at_a_terminal_is_told_that_it_was_taken_down(words: tuple[str, ...]) -> None:
    """Also where what ran in it ended well when it was asked to."""
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    with WindlassServer() as server:
        environ = {**os.environ, **server.variables()}
        if words[0] == "run":
            words = (*words, script)
        else:
            spec = {"command": ["sh", "-c", script], "terminal": True}
            job = {"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {"name": "shell"}, "spec": spec}
            server.cli("apply", "-f", "-", input=json.dumps(job))
        with at_a_terminal(PROGRAM, *words, environ=environ) as person:
            person.reads("ready")
            server.cli("down")
            person.reads("bye")
            person.reads("shell CANCELLED")
            person.reads("TakenDown")
            assert person.waits() == exits.INTERRUPTED


def test_who_stops_waiting_for_down_is_told_what_goes_on_and_each_run_is_counted_once() -> None:
    with WindlassServer() as server:
        server.cli(
            "run", "--detach", "--name", "slow", "--", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"
        )
        wait_for(lambda: "up" in server.cli("logs", "slow", check=False).out, 120, "its trap")
        first = server.begin("down")
        assert first.stdout is not None
        assert "ending 1 run" in first.stdout.readline()
        first.send_signal(signal.SIGINT)
        said, _ = first.communicate(timeout=120)
        assert "no longer waited for: the server goes on to end what runs" in said
        assert first.returncode == exits.INTERRUPTED
        assert "ended: 1 run\n" in server.cli("down").out
        server.start()
        assert not (server.data / "ending").exists(), "or the next Ctrl-C would end what runs"
        wait_for(lambda: state(server, "slow") == "CANCELLED", 120, "its end on record")
        assert server.cli("get", "job", "slow", "-o", "json").json()["status"]["reason"] == "TakenDown"


def a_run_that_takes_its_time_to_end(server: WindlassServer) -> Path:
    """It does when there is such a file."""
    go_on = server.directory / "go-on"
    last_words = f"trap 'until [ -e {go_on} ]; do sleep 0.05; done; echo farewell; exit 0' TERM; echo ready"
    script = f"{last_words}; while :; do sleep 0.1; done"
    manifest = {
        "apiVersion": "windlass.dev/v1",
        "kind": "Job",
        "metadata": {"name": "slow"},
        "spec": {"command": ["sh", "-c", script], "graceSeconds": 120},
    }
    server.cli("apply", "-f", "-", input=json.dumps(manifest))
    wait_for(lambda: "ready" in server.cli("logs", "slow", check=False).out, 120, "its trap")
    return go_on


def test_two_at_once_take_it_down_once_and_what_runs_has_its_grace() -> None:
    with WindlassServer() as server:
        go_on = a_run_that_takes_its_time_to_end(server)
        first = server.begin("down")
        assert first.stdout is not None
        assert "ending 1 run" in first.stdout.readline()
        second = server.begin("down")
        assert second.stdout is not None
        assert "being taken down already" in second.stdout.readline()
        go_on.touch()
        (said, err), (later, late_err) = first.communicate(timeout=120), second.communicate(timeout=120)
        assert (first.returncode, second.returncode) == (0, 0), err + late_err
        assert "ended: 1 run\n" in said
        assert later == "no server runs here\nended: 0 runs\n"
        server.start()
        assert server.cli("logs", "slow").out == "ready\nfarewell\n"
        assert server.cli("get", "job", "slow", "-o", "json").json()["status"]["reason"] == "TakenDown"


def test_who_waits_for_another_down_that_was_broken_off_goes_on_waiting_for_what_runs() -> None:
    with WindlassServer() as server:
        go_on = a_run_that_takes_its_time_to_end(server)
        first = server.begin("down")
        assert first.stdout is not None
        assert "ending 1 run" in first.stdout.readline()
        second = server.begin("down", "--purge", "--yes")
        assert second.stdout is not None
        assert "being taken down already" in second.stdout.readline()
        first.send_signal(signal.SIGINT)
        assert first.wait(timeout=120) == exits.INTERRUPTED
        assert "ending 1 run" in second.stdout.readline()
        third = server.begin("down")
        assert third.stdout is not None
        assert "being taken down already" in third.stdout.readline()
        assert state(server, "slow") == "RUNNING", "it has its grace, from a server that was not told twice"
        go_on.touch()
        said, err = second.communicate(timeout=120)
        assert second.returncode == 0, err
        assert "ended: 1 run and all volumes\n" in said
        said, err = third.communicate(timeout=120)
        assert (third.returncode, err) == (0, "")
        assert "nothing to do" in said
        assert not server.data.exists()


def test_a_purge_that_nobody_agrees_to_says_that_it_removed_nothing() -> None:
    with WindlassServer() as server:
        server.stop()
        unanswered = server.cli("down", "--purge", check=False, stdin=subprocess.DEVNULL)
        assert unanswered.code == exits.USAGE
        assert "nothing was removed: nobody answered; --yes answers for you" in unanswered.err
        refused = server.cli("down", "--purge", check=False, input="n\n")
        assert (refused.code, refused.out.splitlines()[-1][-19:]) == (1, "nothing was removed")
        assert (server.data / "installation.json").exists()


def test_a_port_that_is_taken_is_said_in_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with WindlassServer() as server:
            other = server.directory / "other"
            said = server.cli(
                "up",
                "--data-dir",
                str(other),
                "--port",
                str(taken.getsockname()[1]),
                "--runtime",
                "process",
                check=False,
            )
            assert said.code != 0
            assert "cannot listen" in said.err
            assert "Traceback" not in said.err
            assert not other.exists(), "nothing was made, so nothing is left"


def test_an_address_or_a_directory_that_cannot_be_had_is_said_with_what_can(tmp_path: Path) -> None:
    with WindlassServer() as server:
        (tmp_path / "file").write_text("")
        said = server.cli("up", "--data-dir", str(tmp_path / "no"), "--host", "192.0.2.1", check=False)
        assert "cannot listen on 192.0.2.1:8080" in said.err
        assert "hint: this machine has no such address" in said.err
        for path in (tmp_path / "file", tmp_path / "file" / "below"):
            said = server.cli("up", "--data-dir", str(path), "--port", "0", check=False)
            assert f"{path} cannot be the data directory" in said.err
            assert "is a file: give --data-dir a directory" in said.err
        assert (
            f"{tmp_path / 'file'} is a file"
            in server.cli("doctor", "--data-dir", str(tmp_path / "file"), check=False).out
        )
        assert [path.name for path in tmp_path.iterdir()] == ["file"], "and nothing was made"


def test_a_second_server_on_the_same_directory_is_refused() -> None:
    with WindlassServer() as server:
        said = server.cli("up", "--port", "0", "--runtime", "process", check=False)
        assert said.code == 5
        assert str(server.pid) in said.err


def test_every_fault_of_a_manifest_is_named_at_once(tmp_path: Path) -> None:
    manifest = tmp_path / "bad.yaml"
    manifest.write_text(
        "apiVersion: windlass.dev/v1\nkind: Job\nmetadata: {name: Bad_Name}\n"
        "spec: {command: [true], retries: -1, resources: {cpu: lots}}\n"
    )
    with WindlassServer() as server:
        said = server.cli("apply", "-f", str(manifest), check=False)
        assert said.code != 0
        for field in ("metadata.name", "spec.retries", "spec.resources.cpu"):
            assert field in said.err


def test_the_doctor_sees_a_healthy_server_and_a_missing_engine() -> None:
    with WindlassServer() as server:
        said = server.cli("doctor", "--docker-host", "unix:///nonexistent.sock", check=False)
        assert said.code == 0
        assert f"running (pid {server.pid}; it decides interpreted)" in said.out
        assert "no engine answers" in said.out


def test_the_doctor_sees_that_a_server_hangs_and_says_what_to_do() -> None:
    with WindlassServer() as server:
        pid = server.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            said = server.cli("doctor", "--docker-host", "unix:///nonexistent.sock", check=False)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert said.code == 1
        assert f"running (pid {pid}), but it does not answer" in said.out
        assert f"kill -9 {pid}" in said.out


def test_up_does_not_fall_back_to_processes_where_an_engine_was_used(docker_engine: DockerEngine) -> None:
    with WindlassServer(docker_host=docker_engine.host) as server:
        server.cli("run", "--detach", "--name", "alive", IMAGE, "--", "sleep", "600")
        wait_for(lambda: state(server, "alive") == "RUNNING", 120, "RUNNING")
        server.kill()
        server.cli("up", "--port", "0", "--docker-host", "unix:///nonexistent.sock", check=False)
        as_processes = server.cli("up", "--port", "0", "--runtime", "process", check=False)
        assert as_processes.code == 5
        assert "another runtime" in as_processes.err
        server.start()
        assert state(server, "alive") == "RUNNING"
        assert len(server.cli("get", "job", "alive", "-o", "json").json()["status"]["runs"]) == 1


def test_an_engine_that_was_used_is_found_again_without_being_named(docker_engine: DockerEngine) -> None:
    with WindlassServer(docker_host=docker_engine.host) as server:
        server.stop()
        unnamed = WindlassServer(directory=server.directory)
        unnamed.data = server.data
        unnamed.runtime = ()
        unnamed.start()
        try:
            assert "docker" in unnamed.cli("get", "nodes").out
        finally:
            unnamed.stop()


def test_damaged_files_are_named_with_what_to_do() -> None:
    with WindlassServer() as server:
        server.stop()
        for name in ("clock.json", "installation.json", "history.db"):
            path = server.data / name
            kept = path.read_bytes()
            path.write_bytes(b"garbage garbage garbage garbage")
            said = server.cli("up", "--port", "0", "--runtime", "process", check=False)
            assert said.code != 0
            assert name in said.err
            assert "bug in windlass" not in said.err
            path.write_bytes(kept)
