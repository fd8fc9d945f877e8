"""What a container prints is kept whole over a server that dies again and again: no line lost, none doubled."""

import random
import time
from pathlib import Path
from typing import Any

from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for
from tests.store.small_disk import filled, small_disk
from windlass.client.client import Client

DEADLINE_SECONDS = 120
KILLS = 5
LINES = 3000
SCRIPT = f"""i=0
while [ $i -lt {LINES} ]; do
  echo out $i; echo err $i >&2; i=$((i+1))
  [ $((i%100)) -eq 0 ] && sleep 0.3
done
exit 0"""


def test_no_line_is_lost_or_doubled_over_kills(docker_engine: DockerEngine) -> None:
    chance = random.Random(7)
    with WindlassServer(docker_host=docker_engine.host) as server:
        server.cli("run", "--detach", "--name", "chatty", IMAGE, "--", "sh", "-c", SCRIPT)
        wait_for(lambda: server.cli("logs", "chatty", "--tail", "1", check=False).out, 120, "the first line")
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.1, 0.6))  # the moment of the kill is the chance under test
            server.kill()
            server.start()
        followed = server.cli("logs", "-f", "chatty", timeout=120)
        assert followed.out.splitlines() == [f"out {n}" for n in range(LINES)]
        assert followed.err.splitlines() == [f"err {n}" for n in range(LINES)]
        uid = server.client().job("chatty")["metadata"]["uid"]
        wait_for(lambda: uid not in str(docker_engine.containers()), 120, "the container to go")
        again = server.cli("logs", "chatty")
        assert (again.out, again.err) == (followed.out, followed.err)


def test_a_full_disk_under_the_logs_delays_a_log_and_loses_nothing(docker_engine: DockerEngine, tmp_path: Path) -> None:
    """R-17: the server serves on, the run comes to its own end, and its log is whole when there is room again."""
    server = WindlassServer(docker_host=docker_engine.host, directory=tmp_path / "server")
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        server.data.mkdir(parents=True)
        (server.data / "logs").symlink_to(disk)
        with server:
            _prints_on_a_full_disk(server, docker_engine, disk)


def _prints_on_a_full_disk(server: WindlassServer, engine: DockerEngine, disk: Path) -> None:
    client = server.client()
    with filled(disk):
        job = client.create(_printing(2000))["metadata"]["uid"]
        wait_for(lambda: "keeper.failed" in server.log.read_text(), DEADLINE_SECONDS, "the log to be refused")
        wait_for(lambda: _has_ended(engine, job), DEADLINE_SECONDS, "the container to end all the same")
        assert client.job(job)["status"]["state"] == "RUNNING", "its end is told with its log, not before"
        assert "No space left on device" in server.log.read_text()
    status = wait_for(lambda: _over(client, job), DEADLINE_SECONDS, "its end")
    assert (status["state"], status["exitCode"]) == ("SUCCEEDED", 0)
    assert server.cli("logs", client.job(job)["metadata"]["name"]).out.split() == [str(n) for n in range(1, 2001)]
    assert server.is_running


def _printing(lines: int) -> dict[str, Any]:
    spec = {"image": IMAGE, "command": ["seq", "1", str(lines)], "resources": {"cpu": "100m", "memory": "16Mi"}}
    return {"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {}, "spec": spec}


def _has_ended(engine: DockerEngine, job: str) -> bool:
    return any(one["State"] == "exited" for one in engine.containers(name=[job]))


def _over(client: Client, job: str) -> dict[str, Any] | None:
    status: dict[str, Any] = client.job(job)["status"]  # type: ignore[assignment]
    return status if status.get("finishedAt") else None
