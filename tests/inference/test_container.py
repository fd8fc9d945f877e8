"""The workload as a job runs it: a real container of the real image, hardened, with nothing but its volume."""

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
from examples.inference import make_network
from examples.inference.infer.failures import Exit
from tests.inference.expected import assert_answers, read_strictly, through_jpeg
from tests.inference.image import build_inference_image
from tests.inference.pictures import write_jpeg
from tests.inference.workbench import GREEN, RED
from tests.parts.dockerd import DockerEngine
from tests.parts.engine_api import EngineApi

pytestmark = pytest.mark.docker

HARDENED = {
    "ReadonlyRootfs": True,
    "CapDrop": ["ALL"],
    "SecurityOpt": ["no-new-privileges"],
    "NetworkMode": "none",
    "Memory": 512 << 20,
    "PidsLimit": 64,
}


@pytest.fixture(scope="module")
def image(docker_engine: DockerEngine) -> str:
    return build_inference_image(docker_engine)


@pytest.fixture
def files(tmp_path: Path, packages: Path) -> dict[str, bytes]:
    """What the volume holds before the job: the picture, the network, and two files that only look harmless."""
    write_jpeg(tmp_path / "input.jpg", packages, (448, 256), (240, 240), RED, GREEN)
    make_network.write(tmp_path, "resnet50")
    trap = b"raise SystemExit('a file of the volume was run as code')"
    return {path.name: path.read_bytes() for path in tmp_path.iterdir()} | {"numpy.py": trap, "infer.py": trap}


@pytest.mark.parametrize("opened", [False, True], ids=["volume with the image's owner", "volume open to all"])
def test_a_picture_goes_in_and_the_known_answer_comes_out(
    docker_engine: DockerEngine, image: str, files: dict[str, bytes], opened: bool
) -> None:
    with a_container(docker_engine, image, files, {"WINDLASS_GPU": "0"}, opened=opened) as container:
        assert container.finish() == 0, container.log("stderr")
        assert "running resnet50 on device cpu" in container.log("stdout")
        assert container.log("stderr") == ""
        member, content = container.fetch("/artifacts/output.json")
    assert (member.uid, member.gid) == (65532, 65532)
    answer = read_strictly(content)
    assert (answer["model"], answer["device"]) == ("resnet50", "cpu")
    assert_answers(answer, through_jpeg(RED))


def test_a_gpu_that_is_not_there_fails_the_job_with_its_own_code(
    docker_engine: DockerEngine, image: str, files: dict[str, bytes]
) -> None:
    with a_container(docker_engine, image, files, {"WINDLASS_GPU": "1"}) as container:
        assert container.finish() == Exit.GPU_MISSING
        assert container.log("stderr").count("\n") == 1


def test_an_empty_volume_fails_the_job_with_its_own_code(docker_engine: DockerEngine, image: str) -> None:
    with a_container(docker_engine, image, {}, {}) as container:
        assert container.finish() == Exit.INPUT_MISSING
        assert "no input file at /artifacts/input.jpg" in container.log("stderr")


def test_the_image_runs_as_nobody_in_particular(docker_engine: DockerEngine, image: str) -> None:
    config = docker_engine.ask(f"/images/{quote(image, safe='')}/json")["Config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["python3", "-P", "-m", "infer"]


@dataclass(frozen=True)
class Container:
    """A container that was made and not started."""

    engine: EngineApi
    id: str

    def finish(self) -> int:
        """Start it, wait for its end, and give its exit code."""
        self.engine.start_container(self.id)
        code: int = json.loads(self.engine.call("POST", f"/containers/{self.id}/wait"))["StatusCode"]
        return code

    def log(self, stream: str) -> str:
        """One of its two streams: frames of a header of eight bytes, the last four the length, and the text."""
        content = io.BytesIO(self.engine.call("GET", f"/containers/{self.id}/logs", query={stream: "1"}))
        text = b""
        while header := content.read(8):
            text += content.read(int.from_bytes(header[4:]))
        return text.decode()

    def fetch(self, path: str) -> tuple[tarfile.TarInfo, bytes]:
        archive = self.engine.call("GET", f"/containers/{self.id}/archive", query={"path": path})
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            (member,) = tar.getmembers()
            content = tar.extractfile(member)
            assert content is not None
            return member, content.read()


@contextmanager
def a_container(
    engine: EngineApi, image: str, files: dict[str, bytes], variables: dict[str, str], *, opened: bool = False
) -> Iterator[Container]:
    """A hardened container with a volume of its own that holds `files`; both are gone afterwards.

    A volume takes its owner from the image, as Docker does by itself, or is `opened` to whatever user the image has: then
    nothing is copied from the image, and a first run and a retry find the same.
    """
    volume = f"inference-{uuid4().hex}"
    engine.call("POST", "/volumes/create", body={"Name": volume})
    mount = {"Type": "volume", "Source": volume, "Target": "/artifacts", "VolumeOptions": {"NoCopy": opened}}
    try:
        environment = [f"{name}={value}" for name, value in variables.items()]
        made = engine.create(image=image, Env=environment, HostConfig={**HARDENED, "Mounts": [mount]})
        try:
            if opened:
                _open_volume(engine, image, mount)
            engine.call("PUT", f"/containers/{made}/archive", query={"path": "/artifacts"}, body=_tar(files))
            yield Container(engine, made)
        finally:
            engine.remove_container(made)
    finally:
        engine.call("DELETE", f"/volumes/{volume}")


def _open_volume(engine: EngineApi, image: str, mount: Mapping[str, object]) -> None:
    """By an archive that holds the mount point itself; through a container with a root that may be written to."""
    helper = engine.create(image=image, HostConfig={"NetworkMode": "none", "Mounts": [mount]})
    try:
        engine.call(
            "PUT", f"/containers/{helper}/archive", query={"path": "/"}, body=_directory_tar("artifacts", 0o777)
        )
    finally:
        engine.remove_container(helper)


def _directory_tar(name: str, mode: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.mode = tarfile.DIRTYPE, mode
        tar.addfile(member)
    return stream.getvalue()


def _tar(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()
