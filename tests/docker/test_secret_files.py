"""Secret files in real containers: in memory, read-only, there before the first instruction, gone with the end."""

from pathlib import Path
from typing import Any

import pytest

from tests.docker.test_engine import an_assignment, opened
from tests.parts.engine_api import EngineApi
from windlass.core.model.ids import VolumeId
from windlass.core.model.secret import Handed, SecretFile
from windlass.ports.runtime import LogPosition

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

SPEC: dict[str, Any] = {"secret_files": (SecretFile(name="f", secret="s"),)}
LOOK = "cat $WINDLASS_SECRETS/f; stat -f -c %T /run/secrets; stat -c '%a %u' /run/secrets/f; touch /run/secrets/g || echo no"


@pytest.fixture(params=["docker_engine", "podman_service"])
def engine(request: pytest.FixtureRequest) -> EngineApi:
    found: EngineApi = request.getfixturevalue(request.param)
    return found


async def test_a_container_reads_its_secret_files_from_memory_and_they_end_with_it(engine: EngineApi) -> None:
    assignment = an_assignment("handed", LOOK, **SPEC)
    handed = Handed(files=(("f", b"canary\n"),))
    async with opened(engine) as runtime:
        try:
            await runtime.ensure_volume(VolumeId("handed"), labels={})
            await runtime.create(assignment, handed=handed)
            (file,) = written()
            assert file.read_bytes() == b"canary\n"
            await runtime.start(assignment.run, handed=handed)
            await runtime.wait(assignment.run)
            said = [line async for line in runtime.logs(assignment.run, after=LogPosition())]
        finally:
            await runtime.remove_all()
    lines = [
        line.text for line in said if line.stream == "stdout"
    ]  # what a tool complained of may come before or after
    assert lines[:3] == [b"canary", b"tmpfs", b"400 0"]
    assert b"no" in lines
    assert written() == []


def written() -> list[Path]:
    return [path for root in ("/run", "/dev/shm") for path in Path(root).glob("windlass-engine-tests-n1/handed-1/*")]
