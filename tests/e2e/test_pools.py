"""A real autoscale on this machine: a dynamic pool from nothing to its maximum and back, explained; over a killed server, and
though whoever makes its workers is slow and fails half the time."""

from pathlib import Path

from tests.e2e.server import WindlassServer
from tests.parts.waiting import wait_for

POOL = """
apiVersion: windlass.dev/v1
kind: Pool
metadata: {name: grow}
spec:
  kind: dynamic
  scaling:
    max: 3
    worker: {cpu: 200m, memory: 64Mi}
    triggers: [{measure: depth, up: 1, down: 0, target: 5}]
    cooldownUp: 1
    cooldownDown: 1
    downPerMinute: 100
    runsPerWorker: 4
"""
UNRELIABLE = {"WINDLASS_FAILPOINTS": "scale.after_commit_before_act=flaky:300"}
"""Before each worker is asked for or given back."""
JOB = """
apiVersion: windlass.dev/v1
kind: Job
metadata: {name: j%d}
spec:
  command: [sh, -c, 'echo from-%d; echo kept > "$WINDLASS_ARTIFACTS"/kept.txt; %s']
  pool: grow
  resources: {cpu: 100m, memory: 16Mi}
"""


def test_a_pool_goes_from_nothing_to_its_maximum_and_back_and_its_history_explains_every_step(tmp_path: Path) -> None:
    hold = tmp_path / "go"
    wait = f"while [ ! -e {hold} ]; do sleep 0.1; done"
    jobs = "---".join(JOB % (n, n, wait) for n in range(30))
    with WindlassServer(environ=UNRELIABLE) as server:
        assert server.cli("apply", "-f", "-", input=POOL).out == "pool/grow created\n"
        assert server.cli("apply", "-f", "-", input=POOL).out == "pool/grow unchanged\n"
        server.cli("apply", "-f", "-", input=jobs)
        wait_for(lambda: _running(server) == 6, 180, "three workers with two jobs each")
        assert _workers(server) == ["ready"] * 3
        assert server.cli("pools", "show", "grow").out.count("ready, 2 running, 2 runs ever") == 3
        server.kill()
        server.start()
        wait_for(lambda: _workers(server) == ["ready"] * 3, 120, "the slices to come back")
        assert _running(server) == 6, "adopted, not started again"
        has_cgroups = not server.cli("pools", "show", "grow", "-o", "json").json()["status"]["lacks"]
        assert len({path.name for path in _cgroups(server)}) == 3 * has_cgroups, "each in a cgroup of its own"
        first = next(
            job for job in server.cli("get", "jobs", "--all", "-o", "json").json()["items"] if _is_running(job)
        )
        name = first["metadata"]["name"]
        assert server.cli("exec", name, "--", "echo", "inside").out == "inside\n"
        hold.touch()
        wait_for(lambda: _ended(server) == 30, 120, "all jobs to succeed")
        wait_for(lambda: _workers(server) == [], 180, "the pool to be empty again")
        assert _cgroups(server) == []
        assert server.cli("logs", name).out.startswith("from-")
        server.cli("download", name, "-d", str(tmp_path / "out"))
        assert "kept\n" in [path.read_text() for path in (tmp_path / "out").rglob("kept.txt")]
        steps = list(reversed(server.cli("pools", "history", "grow", "-o", "json").json()["items"]))
        assert (steps[0]["by"] > 0, steps[0]["wanted"] >= 1, steps[0]["seen"]["ready"]) == (True, True, 0)
        assert any("has had its 4 runs" in step["rule"] for step in steps), (
            "thirty jobs are more than three workers take"
        )
        assert all(step["seen"]["ready"] + step["seen"]["coming"] + max(0, step["by"]) <= 3 for step in steps)
        assert sum(step["by"] for step in steps) == 0
        told = server.cli("events", "--all", "-o", "json").out
        assert "WorkerFailing" in told, "it did fail"
        assert all(step["rule"] and (step["by"] or step["held"]) for step in steps)
        assert [
            one["name"] for one in server.cli("get", "nodes", "-o", "json").json()["items"] if one["pool"] == "grow"
        ] == []
        server.cli("pools", "delete", "grow")


def _workers(server: WindlassServer) -> list[str]:
    return [one["state"] for one in server.cli("pools", "show", "grow", "-o", "json").json()["status"]["workers"]]


def _cgroups(server: WindlassServer) -> list[Path]:
    """Of its workers: what runs on one is held together by it."""
    known, top = (server.data / "node" / "process").stat(), Path("/sys/fs/cgroup")
    base = f"windlass-{known.st_dev:x}-{known.st_ino:x}"
    return [*top.glob(f"*/{base}/slice-grow-*"), *top.glob(f"{base}/slice-grow-*")]


def _is_running(job: dict) -> bool:  # type: ignore[type-arg]
    return bool(job["status"]["state"] == "RUNNING")


def _running(server: WindlassServer) -> int:
    return sum(_is_running(job) for job in server.cli("get", "jobs", "--all", "-o", "json").json()["items"])


def _ended(server: WindlassServer) -> int:
    jobs = server.cli("get", "jobs", "--all", "-o", "json").json()["items"]
    return sum(job["status"]["state"] == "SUCCEEDED" for job in jobs)
