"""The life of an ephemeral accelerated job (seed 000), step by step, on a real engine with the real inference program."""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from examples.inference import make_network

from tests.e2e.server import WindlassServer
from tests.inference.expected import assert_answers, read_strictly, through_jpeg
from tests.inference.image import build_inference_image, python_packages
from tests.inference.pictures import write_jpeg
from tests.inference.workbench import GREEN, RED
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.waiting import wait_for
from tests.parts.web import FileServer


@pytest.fixture(scope="module")
def image(docker_engine: DockerEngine) -> str:
    return build_inference_image(docker_engine)


@pytest.fixture(scope="module")
def server(docker_engine: DockerEngine, image: str) -> Iterator[WindlassServer]:
    environ = {"WINDLASS_FETCH_NETWORKS": "127.0.0.0/8", "WINDLASS_PRESET_IMAGE": image}
    with WindlassServer(docker_host=docker_engine.host, environ=environ) as one:
        yield one


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture and a network whose answer is known."""
    directory = tmp_path_factory.mktemp("code")
    write_jpeg(directory / "input.jpg", python_packages(), (448, 256), (240, 240), RED, GREEN)
    make_network.write(directory, "resnet50")
    return directory


def egpu(server: WindlassServer, *arguments: str, check: bool = True):  # type: ignore[no-untyped-def]
    return server.cli(*arguments, program="egpu", check=check)


def test_a_picture_goes_in_and_the_known_answer_comes_out(
    server: WindlassServer, project: Path, tmp_path: Path
) -> None:
    said = egpu(server, "create", "my-job", "--project-dir", str(project), "--gpu", "0")
    assert "resnet50" in said.out
    status = egpu(server, "get", "my-job", "-o", "json").json()["status"]
    assert (status["phase"], status["artifactPath"]) == ("Succeeded", "artifacts-my-job")
    egpu(server, "download", "my-job", "output.json", "-d", str(tmp_path))
    (output,) = tmp_path.rglob("output.json")
    answer = read_strictly(output.read_bytes())
    assert (answer["model"], answer["device"]) == ("resnet50", "cpu")
    assert_answers(answer, through_jpeg(RED))


def test_without_an_accelerator_it_is_refused_with_the_way_out(server: WindlassServer) -> None:
    said = egpu(server, "create", "greedy", check=False)
    assert said.code != 0
    assert "--gpu 0" in said.err
    assert "greedy" not in server.cli("get", "jobs").out


def test_a_file_is_copied_in_before_the_job_exists(
    server: WindlassServer, docker_engine: DockerEngine, project: Path, tmp_path: Path
) -> None:
    with FileServer(project) as files:
        for name in ("input.jpg", "resnet50.onnx", "resnet50.onnx.sha256"):
            egpu(server, "copy-file", "copied", f"{files.url}/{name}", "--target-path", name)
        egpu(server, "create", "copied", "--gpu", "0", "--watch")
    egpu(server, "download", "copied", "output.json", "-d", str(tmp_path))
    (output,) = tmp_path.rglob("output.json")
    assert json.loads(output.read_text())["top5"]
    assert not [one for one in docker_engine.containers() if "copy" in str(one["Names"])]


def test_debug_shows_the_volume_and_leaves_nothing(
    server: WindlassServer, docker_engine: DockerEngine, project: Path
) -> None:
    egpu(server, "create", "look", "--project-dir", str(project), "--gpu", "0")
    before = len(docker_engine.containers())
    said = egpu(server, "debug", "look", "--image", "windlass-test/busybox:1", "--exec", "ls /mnt")
    assert {"input.jpg", "output.json"} <= set(said.out.split())
    wait_for(lambda: len(docker_engine.containers()) <= before, 120, "the debug container to go")


def test_delete_keeps_or_takes_the_volume_as_asked(
    server: WindlassServer, docker_engine: DockerEngine, project: Path
) -> None:
    uids = {}
    for name in ("keep", "take"):
        egpu(server, "create", name, "--project-dir", str(project), "--gpu", "0")
        uids[name] = egpu(server, "get", name, "-o", "json").json()["metadata"]["uid"]
    egpu(server, "delete", "keep")
    egpu(server, "delete", "take", "--delete-pvc")
    wait_for(lambda: uids["take"] not in str(docker_engine.ask("/volumes")), 120, "the taken volume to go")
    assert uids["keep"] in str(docker_engine.ask("/volumes"))
    assert egpu(server, "get", "keep", check=False).code == 3


def test_cleanup_counts_what_it_deletes_and_skips(server: WindlassServer, project: Path) -> None:
    egpu(server, "create", "later", "--project-dir", str(project), "--gpu", "0", "--pvc-ttl", "1h")
    said = egpu(server, "cleanup", "-v")
    assert "deleted," in said.out
    assert "skipped" in said.out
    assert "artifacts-later" in said.out


def test_cleanup_deletes_what_has_passed_its_ttl_and_counts_it(docker_engine: DockerEngine) -> None:
    """The second placing stands still, and with it the server's own look at what is due: otherwise it would be first."""
    still = {"WINDLASS_FAILPOINTS": "sched.after_pick=sleep:60000@2"}
    with WindlassServer(docker_host=docker_engine.host, environ=still) as server:
        server.cli("run", "--name", "old", "--volume-ttl", "5", IMAGE, "--", "true")
        uid = server.client().job("old")["metadata"]["uid"]
        server.cli("run", "--detach", "--name", "new", IMAGE, "--", "true")
        wait_for(lambda: has_passed(server, "artifacts-old"), 120, "the TTL to pass")
        assert uid in str(docker_engine.ask("/volumes"))
        said = egpu(server, "cleanup", "-v")
        assert "1 deleted, 1 skipped" in said.out
        wait_for(lambda: uid not in str(docker_engine.ask("/volumes")), 120, "the volume to go")
        assert "0 deleted, 1 skipped" in egpu(server, "cleanup").out


def has_passed(server: WindlassServer, volume: str) -> bool:
    [found] = [one for one in server.client().volumes() if one["name"] == volume]
    return datetime.fromisoformat(found["expiresAt"]).timestamp() < time.time()
