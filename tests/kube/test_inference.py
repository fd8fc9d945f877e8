"""The seed's own job on a real cluster: the inference program on a picture, and its answer brought home."""

import json
import time
from datetime import datetime
from pathlib import Path

import pytest
from examples.inference import make_network

from tests.inference.expected import assert_answers, through_jpeg
from tests.inference.image import inference_archive, python_packages
from tests.inference.pictures import write_jpeg
from tests.inference.workbench import GREEN, RED
from tests.kube.cluster import KubeCluster
from tests.kube.lab import Egpu, Lab
from tests.kube.operator import Operator
from tests.kube.serving import served

LIGHT = ("--gpu", "0", "--cpu", "1", "--memory", "1Gi")


@pytest.fixture
def image(cluster: KubeCluster, request: pytest.FixtureRequest) -> str:
    if not isinstance(cluster, KubeCluster):
        pytest.skip("there is no registry to bring the image to somebody else's cluster")
    tag, archive = inference_archive(lambda: request.getfixturevalue("docker_engine"))
    cluster.import_image(archive.read_bytes())
    return tag


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A picture and a network whose answer is known."""
    directory = tmp_path / "code"
    directory.mkdir()
    write_jpeg(directory / "input.jpg", python_packages(), (448, 256), (240, 240), RED, GREEN)
    make_network.write(directory, "resnet50")
    return directory


def assert_right(output: str) -> None:
    answer = json.loads(output)
    assert (answer["model"], answer["device"]) == ("resnet50", "cpu")
    assert_answers(answer, through_jpeg(RED))


def test_a_picture_goes_in_and_the_known_answer_comes_out(
    lab: Lab, operator: Operator, image: str, egpu: Egpu, code: Path, tmp_path: Path
) -> None:
    done = egpu("create", "cat", "--project-dir", str(code), "--image", image, *LIGHT)
    assert "running resnet50 on device cpu" in done.stdout
    egpu("download", "cat", "output.json")
    assert_right((tmp_path / "output.json").read_text())


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_whole_life_by_egpu_step_by_step(
    lab: Lab, operator: Operator, image: str, egpu: Egpu, code: Path, tmp_path: Path
) -> None:
    egpu("create", "cat", "--project-dir", str(code), "--image", image, *LIGHT, "--ttl", "20s", "--pvc-ttl", "1h")
    status = lab.wait_status("cat", phase="Succeeded")
    finished = datetime.fromisoformat(status["finishedAt"].replace("Z", "+00:00")).timestamp()
    assert (lab.get("pvc", "artifacts-cat") or {})["status"]["phase"] == "Bound"
    egpu("download", "cat", "output.json")
    assert_right((tmp_path / "output.json").read_text())
    assert_right(egpu("debug", "cat", "--exec", "cat /mnt/output.json", stdin="").stdout)
    lab.wait_gone("pod", "cat-1")
    assert time.time() - finished >= 20, "the pod went early"
    assert "running resnet50 on device cpu" in egpu("logs", "cat").stdout
    assert "0 deleted, 1 skipped" in egpu("cleanup", "-v").stdout
    # Only now, so that a busy machine has the time to look.
    lab.kubectl("patch", "eaj", "cat", "--type=merge", "-p", '{"spec":{"pvcTTLSecondsAfterFinished":30}}')
    lab.wait_gone("pvc", "artifacts-cat")
    assert time.time() - finished >= 30, "the volume went early"
    egpu("delete", "cat")
    lab.wait_gone("eaj", "cat")
    lab.wait_gone("configmap", "cat-1-log")


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_whole_life_by_kubectl_step_by_step(
    lab: Lab, operator: Operator, image: str, egpu: Egpu, code: Path, cluster: KubeCluster, tmp_path: Path
) -> None:
    with served({f"/{file.name}": file.read_bytes() for file in code.iterdir()}, cluster.host) as url:
        for file in sorted(code.iterdir()):
            egpu("copy-file", "cat", f"{url}/{file.name}", "--target-path", f"/artifacts/{file.name}")
    waiting = lab.wait_there("pvc", "artifacts-cat")
    assert "windlass.dev/expires-at" in waiting["metadata"]["annotations"]
    spec = {"image": image, "resources": {"gpu": 0, "cpu": "1", "memory": "1Gi"}, "ttlSecondsAfterFinished": 0}
    job = {
        "apiVersion": "windlass.dev/v1",
        "kind": "EphemeralAccelerationJob",
        "metadata": {"name": "cat"},
        "spec": spec,
    }
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    status = lab.wait_status("cat", phase="Succeeded")
    adopted = lab.wait_there("pvc", "artifacts-cat")
    assert (adopted["metadata"]["uid"], adopted["status"]["phase"]) == (waiting["metadata"]["uid"], "Bound")
    assert adopted["metadata"]["ownerReferences"][0]["name"] == "cat"
    lab.wait_gone("pod", status["podName"])
    assert "running resnet50 on device cpu" in lab.log("cat")
    egpu("download", "cat", "output.json")
    assert_right((tmp_path / "output.json").read_text())
    lab.kubectl("delete", "eaj", "cat")
    lab.wait_gone("pvc", "artifacts-cat")
