"""The seed's own job on a real cluster: the inference program on a picture, and its answer brought home."""

import json
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


@pytest.fixture
def image(cluster: KubeCluster, request: pytest.FixtureRequest) -> str:
    if not isinstance(cluster, KubeCluster):
        pytest.skip("there is no registry to bring the image to somebody else's cluster")
    tag, archive = inference_archive(lambda: request.getfixturevalue("docker_engine"))
    cluster.import_image(archive.read_bytes())
    return tag


def test_a_picture_goes_in_and_the_known_answer_comes_out(
    lab: Lab, operator: Operator, image: str, egpu: Egpu, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    write_jpeg(code / "input.jpg", python_packages(), (448, 256), (240, 240), RED, GREEN)
    make_network.write(code, "resnet50")
    done = egpu(
        "create", "cat", "--project-dir", str(code), "--image", image, "--gpu", "0", "--cpu", "1", "--memory", "1Gi"
    )
    assert "running resnet50 on device cpu" in done.stdout
    egpu("download", "cat", "output.json")
    answer = json.loads((tmp_path / "output.json").read_text())
    assert (answer["model"], answer["device"]) == ("resnet50", "cpu")
    assert_answers(answer, through_jpeg(RED))
