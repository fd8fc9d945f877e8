"""How jobs end that do not end by themselves, on a real Docker Engine: cancelled in every state, gone from the engine, too dear.

The engine's own record is the witness of what was started, and how often.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.chaos.witness import Witness
from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.hanging import Hanging
from tests.parts.registry import Registry
from tests.parts.waiting import wait_for

NUMBERS = "".join(f"{n}\n" for n in range(1, 1001))


@pytest.fixture(scope="module")
def server(docker_engine: DockerEngine) -> Iterator[WindlassServer]:
    with WindlassServer(docker_host=docker_engine.host) as one:
        yield one


@pytest.fixture
def witness(docker_engine: DockerEngine) -> Iterator[Witness]:
    with Witness(docker_engine) as one:
        yield one


# — cancelled in every state —


def test_a_job_that_waits_for_room_is_cancelled_at_once_and_never_starts(
    server: WindlassServer, witness: Witness
) -> None:
    everything = server.client().nodes()[0]["free"]["cpu"]
    holder = submit(server, "sleep", "600", resources={"cpu": everything, "memory": "8Mi"})
    until(server, holder, "RUNNING")
    waiting = submit(server, "true")
    assert wait_for(lambda: status(server, waiting)["waiting"], 120, "a reason to wait")
    assert server.client().cancel(waiting)["status"]["state"] == "CANCELLED"
    end(server, holder)
    after = submit(server, "true")
    until(server, after, "SUCCEEDED")
    assert witness.starts() == once(holder, after)


def test_a_job_whose_registry_hangs_is_cancelled_without_waiting_for_it(
    server: WindlassServer, witness: Witness, docker_engine: DockerEngine
) -> None:
    with Hanging() as registry:
        job = submit(server, "true", image=f"{registry.address}/none:1")
        until(server, job, "STARTING", "SCHEDULED")
        assert registry.asked.wait(120), "the engine has not asked the registry"
        server.client().cancel(job)
        over = until(server, job, "CANCELLED")
    assert (over["reason"], over["runs"][0]["message"]) == ("Cancelled", "cancelled before it started")
    assert (over["startedAt"], over["cost"]) == (None, 0)
    assert not containers_of(docker_engine, job)
    assert witness.starts() == {}


def test_a_running_job_is_cancelled_and_its_container_goes(
    server: WindlassServer, witness: Witness, docker_engine: DockerEngine
) -> None:
    job = submit(server, "sleep", "600", retries=3)
    until(server, job, "RUNNING")
    server.client().cancel(job)
    over = until(server, job, "CANCELLED")
    assert (over["reason"], over["attempt"]) == ("Cancelled", 1), "a cancel is no failure to try again after"
    wait_for(lambda: not containers_of(docker_engine, job), 120, "the container to go")
    assert witness.starts() == once(job)


def test_a_job_between_two_attempts_is_cancelled_and_not_tried_again(server: WindlassServer, witness: Witness) -> None:
    job = submit(server, "false", retries=10)
    # The third pause is four seconds long; the longer the pause, the surer we are in it.
    wait_for(lambda: (status(server, job)["state"], status(server, job)["attempt"]) == ("PENDING", 3), 120, "the pause")
    assert server.client().why(job)["gate"] == "backoff"
    assert server.client().cancel(job)["status"]["state"] == "CANCELLED"
    over = status(server, job)
    assert (over["state"], over["attempt"], over["reason"]) == ("CANCELLED", 3, "Cancelled")
    assert witness.starts() == Counter({f"{job}-{attempt}": 1 for attempt in (1, 2, 3)})


def test_a_cancel_that_comes_after_the_end_changes_nothing(server: WindlassServer, witness: Witness) -> None:
    job = submit(server, "sh", "-c", "exit 3")
    before = until(server, job, "FAILED")
    said = server.cli("cancel", job, check=False)
    assert status(server, job) == before, said
    assert witness.starts() == once(job)


# — gone from the engine —


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2)])
def test_a_container_removed_by_hand_is_a_failed_run_and_only_retries_bring_a_second(
    retries: int, attempts: int, server: WindlassServer, witness: Witness, docker_engine: DockerEngine
) -> None:
    first_waits = "test -e /artifacts/second && exit 0; touch /artifacts/second; echo waits; sleep 600"
    job = submit(server, "sh", "-c", first_waits, retries=retries)
    until(server, job, "RUNNING")
    wait_for(lambda: witness.heard, 120, "the engine to tell of the start")
    wait_for(lambda: "waits" in server.cli("logs", job, check=False).out, 120, "it to have left word for the second")
    docker_engine.remove_container(f"{job}-1")
    over = until(server, job, "FAILED", "SUCCEEDED")
    first = over["runs"][0]
    assert (first["reason"], first["state"]) == ("Vanished", "LOST")
    assert over["state"] == ("SUCCEEDED" if retries else "FAILED")
    assert over["attempt"] == len(over["runs"]) == attempts
    assert retries or over["reason"] == "Vanished"
    assert witness.starts() == Counter({f"{job}-{attempt}": 1 for attempt in range(1, attempts + 1)})


# — no image —


def test_a_registry_that_comes_back_in_time_is_asked_again_and_the_job_succeeds(
    server: WindlassServer, witness: Witness, docker_engine: DockerEngine
) -> None:
    with Registry() as registry:
        image = f"{registry.address}/late:1"
        docker_engine.tag(IMAGE, image)
        docker_engine.push(image)
        docker_engine.remove_image(image)
        registry.kill()
        job = submit(server, "true", image=image, retries=0)
        told = wait_for(lambda: said_to_try_again(server, job), 120, "the failed pull to be told")
        assert told.startswith(f"pulling {image}: ")
        registry.start()
        over = until(server, job, "SUCCEEDED")
    assert over["attempt"] == 1, "waiting for an image is no attempt"
    assert witness.starts() == once(job)


def test_an_image_that_cannot_be_had_is_said_with_its_name_and_its_reason(
    server: WindlassServer, witness: Witness
) -> None:
    with Registry() as registry:
        image = f"{registry.address}/none:1"
        said = server.cli("run", "--name", "noimage", image, "--", "true", check=False, timeout=180)
    assert said.code == 125, said
    over = status(server, "noimage")
    assert (over["state"], over["reason"], over["startedAt"]) == ("FAILED", "ImagePull", None)
    assert image in over["message"]
    assert "not" in over["message"]
    assert over["message"] in said.err
    assert witness.starts() == {}


# — too dear —


@pytest.fixture
def dear(server: WindlassServer) -> Iterator[None]:
    """Prices at which a small job costs as much in seconds as others in years."""
    _put(server, "prices", {"every": {"coreHour": 3_600_000_000_000}})  # 0.1 cores: 100 units a second
    yield
    server.client().change_tenant("local", {"budget": None})
    _put(server, "prices", {"every": {}})


def test_a_job_at_its_maximum_is_warned_then_stopped_and_its_files_can_be_had(
    server: WindlassServer, dear: None, tmp_path: Path
) -> None:
    job = submit(server, *writes_and_waits(), maxCost=300_000_000)
    over = until(server, job, "FAILED")
    assert over["reason"] == "CostExceeded"
    kinds = [event["kind"] for event in server.client().happenings(job)]
    assert kinds.index("CostWarning") < kinds.index("Failed")
    assert over["cost"] >= 300_000_000
    assert downloaded(server, job, tmp_path) == NUMBERS


def test_a_spent_budget_is_told_then_stops_what_runs_and_its_files_can_be_had(
    server: WindlassServer, dear: None, tmp_path: Path
) -> None:
    job = submit(server, *writes_and_waits())
    until(server, job, "RUNNING")
    spent = server.client().costs()["total"]
    budget = {"perMonth": spent + 300_000_000, "thresholds": [50, 100], "hardStop": True}
    server.client().change_tenant("local", {"budget": budget})
    over = until(server, job, "FAILED")
    assert over["reason"] == "BudgetExceeded"
    assert [one["percent"] for one in server.client().budget("local")["passed"]] == [50, 100]
    assert downloaded(server, job, tmp_path) == NUMBERS
    refused = server.cli("run", IMAGE, "--", "true", check=False)
    assert refused.code != 0
    assert "budget" in refused.err


# — words —


def submit(server: WindlassServer, *command: str, **spec: Any) -> str:
    """By its uid."""
    small = {"cpu": "100m", "memory": "8Mi"}
    spec = {"image": IMAGE, "command": list(command), "resources": small, "graceSeconds": 1, **spec}
    manifest = {"apiVersion": "windlass.dev/v1", "kind": "Job", "metadata": {}, "spec": spec}
    return str(server.client().create(manifest)["metadata"]["uid"])


def status(server: WindlassServer, job: str) -> dict[str, Any]:
    return dict(server.client().job(job)["status"])


def until(server: WindlassServer, job: str, *states: str) -> dict[str, Any]:
    over = {"SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT"}
    wait_for(lambda: status(server, job)["state"] in {*states, *over}, 120, f"{job} to be {' or '.join(states)}")
    found = status(server, job)
    assert found["state"] in states or not over & set(states), found
    return found


def end(server: WindlassServer, job: str) -> None:
    server.client().cancel(job)
    until(server, job, "CANCELLED")


def once(*jobs: str) -> Counter[str]:
    return Counter({f"{job}-1": 1 for job in jobs})


def containers_of(engine: DockerEngine, job: str) -> list[dict[str, Any]]:
    return engine.containers(name=[job])


def said_to_try_again(server: WindlassServer, job: str) -> str:
    told = str(status(server, job).get("progress"))
    return told if "; trying again in " in told else ""


def writes_and_waits() -> tuple[str, ...]:
    return "sh", "-c", "seq 1000 > /artifacts/numbers; sleep 600"


def downloaded(server: WindlassServer, job: str, target: Path) -> str:
    server.cli("download", job, "-d", str(target))
    (numbers,) = target.rglob("numbers")
    return numbers.read_text()


def _put(server: WindlassServer, what: str, body: dict[str, Any]) -> None:
    answer = httpx2.put(f"{server.url}/api/v1/{what}", json=body, headers={"Authorization": f"Bearer {server.token}"})
    assert answer.status_code == 200, answer.text
