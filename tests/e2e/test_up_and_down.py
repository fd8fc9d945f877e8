"""Starting and ending: what `up` refuses with a reason, what `down` leaves and what it takes along."""

import socket
from pathlib import Path

from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for


def state(server: WindlassServer, job: str) -> str:
    return str(server.cli("get", "job", job, "-o", "json").json()["status"]["state"])


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
        assert f"pid {server.pid}" in said.out
        assert "no engine answers" in said.out


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
