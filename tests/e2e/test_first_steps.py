"""A job from the command line to a container and back, on a real Docker Engine, as a person would do it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for

NO_IMAGE = "127.0.0.1:1/none:1"


@pytest.fixture(scope="module")
def server(docker_engine: DockerEngine) -> Iterator[WindlassServer]:
    with WindlassServer(docker_host=docker_engine.host) as one:
        yield one


@pytest.fixture(scope="module", autouse=True)
def without_image(server: WindlassServer) -> Iterator["subprocess.Popen[str]"]:
    """Begun with the first test here: half a minute passes until the last try for its image."""
    with server.begin("run", "--name", "noimage", "--cpu", "10m", "--memory", "8Mi", NO_IMAGE, "--", "true") as running:
        yield running
        running.kill()


def test_a_job_that_prints_writes_an_artifact_and_exits_3(server: WindlassServer, tmp_path: Path) -> None:
    script = "echo one; echo two >&2; echo three; seq 1000 > /artifacts/numbers; exit 3"
    said = server.cli("run", "--name", "trio", IMAGE, "--", "sh", "-c", script, check=False)
    assert said.code == 3, said
    assert said.out.splitlines() == ["one", "three"]
    assert "two" in said.err.splitlines()
    described = server.cli("describe", "job", "trio").out
    assert "FAILED" in described
    assert "exit code 3" in described
    server.cli("download", "trio", "-d", str(tmp_path))
    (numbers,) = tmp_path.rglob("numbers")
    assert numbers.read_text() == "".join(f"{n}\n" for n in range(1, 1001))
    assert server.cli("logs", "trio").out.splitlines() == ["one", "three"]


def test_nothing_of_a_finished_job_is_left_in_the_engine_but_its_volume(
    server: WindlassServer, docker_engine: DockerEngine
) -> None:
    server.cli("run", "--name", "tidy", IMAGE, "--", "true")
    uid = server.cli("get", "job", "tidy", "-o", "json").json()["metadata"]["uid"]
    wait_for(lambda: not [c for c in docker_engine.containers() if uid in str(c["Names"])], 120, "the container to go")
    server.cli("delete", "tidy", "--volume")
    wait_for(lambda: uid not in str(docker_engine.ask("/volumes")), 120, "the volume to go")


def test_containers_are_hardened(server: WindlassServer, docker_engine: DockerEngine) -> None:
    server.cli("run", "--detach", "--name", "hard", "--memory", "64Mi", "--cpu", "0.5", IMAGE, "--", "sleep", "600")
    uid = server.cli("get", "job", "hard", "-o", "json").json()["metadata"]["uid"]
    wait_for(
        lambda: server.cli("get", "job", "hard", "-o", "json").json()["status"]["state"] == "RUNNING", 120, "RUNNING"
    )
    host = docker_engine.inspect(f"{uid}-1")["HostConfig"]
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert "no-new-privileges" in str(host["SecurityOpt"])
    assert (host["Memory"], host["NanoCpus"]) == (64 << 20, 500_000_000)
    assert host["PidsLimit"] > 0
    assert host["RestartPolicy"]["Name"] in ("", "no")
    assert not host["Binds"]
    server.cli("cancel", "hard")
    wait_for(
        lambda: server.cli("get", "job", "hard", "-o", "json").json()["status"]["state"] == "CANCELLED",
        120,
        "CANCELLED",
    )


def test_a_job_over_its_memory_is_named_oomkilled(server: WindlassServer) -> None:
    hungry = "dd if=/dev/zero of=/dev/null bs=200M count=1"
    said = server.cli("run", "--name", "hungry", "--memory", "16Mi", IMAGE, "--", "sh", "-c", hungry, check=False)
    assert said.code != 0
    status = server.cli("get", "job", "hungry", "-o", "json").json()["status"]
    assert status["reason"] == "OOMKilled", status


def test_a_job_past_its_timeout_ends_as_timed_out(server: WindlassServer) -> None:
    said = server.cli("run", "--name", "slow", "--timeout", "1s", IMAGE, "--", "sleep", "600", check=False)
    assert said.code == 124, said
    assert server.cli("get", "job", "slow", "-o", "json").json()["status"]["state"] == "TIMED_OUT"
    spent = server.cli("cost", "--by", "job", "-o", "json").json()["items"]
    (seconds,) = (one["seconds"] for one in spent if one["job"] == "slow")
    assert seconds >= 1, "by the engine's own record: what it took to start it is not of its time"


def test_a_failing_job_is_retried_as_a_new_run(server: WindlassServer) -> None:
    script = "test -e /artifacts/second || { touch /artifacts/second; exit 9; }"
    server.cli("run", "--name", "again", "--retries", "2", IMAGE, "--", "sh", "-c", script)
    runs = server.cli("get", "job", "again", "-o", "json").json()["status"]["runs"]
    assert [(run["attempt"], run["exitCode"]) for run in runs] == [(1, 9), (2, 0)]


def test_a_project_directory_is_there_before_the_run_starts(server: WindlassServer, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.sh").write_text("cat /artifacts/src/data\n")
    (tmp_path / "src" / "data").write_bytes(b"42\n")
    said = server.cli("run", "--project-dir", str(tmp_path), IMAGE, "--", "sh", "/artifacts/src/main.sh")
    assert said.out == "42\n"


def test_a_command_runs_inside_a_running_job(server: WindlassServer) -> None:
    server.cli("run", "--detach", "--name", "host", IMAGE, "--", "sleep", "600")
    wait_for(
        lambda: server.cli("get", "job", "host", "-o", "json").json()["status"]["state"] == "RUNNING", 120, "RUNNING"
    )
    said = server.cli("exec", "host", "--", "sh", "-c", "echo inside; exit 7", check=False)
    assert (said.code, said.out) == (7, "inside\n")
    server.cli("delete", "host", "--volume")


def test_an_image_that_cannot_be_had_is_said_clearly(without_image: "subprocess.Popen[str]") -> None:
    _, said = without_image.communicate(timeout=180)
    assert without_image.returncode == 125, said
    assert NO_IMAGE in said
