"""The registry part takes and gives images."""

import pytest

from tests.parts import busybox
from tests.parts.dockerd import DockerEngine
from tests.parts.engine_api import EngineRefused
from tests.parts.registry import Registry

pytestmark = pytest.mark.docker


def test_a_pushed_image_comes_back_the_same(docker_engine: DockerEngine, registry: Registry) -> None:
    name = f"{registry.address}/team/busybox:1"
    docker_engine.tag(busybox.IMAGE, name)
    docker_engine.push(name)
    assert registry.repositories() == ["team/busybox"]
    assert registry.tags("team/busybox") == ["1"]
    assert registry.digest("team/busybox", "1").startswith("sha256:")
    docker_engine.remove_image(name)
    docker_engine.pull(name)
    assert docker_engine.images()[name] == busybox.image_id()
    docker_engine.remove_image(name)


def test_an_unknown_image_is_refused(docker_engine: DockerEngine, registry: Registry) -> None:
    with pytest.raises(EngineRefused, match="manifest unknown"):
        docker_engine.pull(f"{registry.address}/team/none:1")
