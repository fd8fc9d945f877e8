"""The runtime contract on the fake, on a real Docker Engine and on a real Podman."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from tests.contracts.runtime_suite import Harness, RealClock, RuntimeContract, Step, Trait, as_fake, as_shell
from tests.parts import busybox
from tests.parts.engine_api import EngineApi
from windlass.adapters.runtime.docker import DockerRuntime
from windlass.ports.runtime import Runtime
from windlass.testing.runtime import FakeMachine, FakeRuntime

INSTALLATION, NODE = "contract", "node"


class FakeHarness:
    traits = frozenset(Trait)
    image = "any"

    def __init__(self) -> None:
        self.machine = FakeMachine(RealClock())
        self.runtime: Runtime = FakeRuntime(self.machine, installation=INSTALLATION, node=NODE)

    def command(self, *steps: Step) -> tuple[str, ...]:
        return as_fake(steps)

    @asynccontextmanager
    async def open(self, *, installation: str = INSTALLATION, node: str = NODE) -> AsyncIterator[Runtime]:
        yield FakeRuntime(self.machine, installation=installation, node=node)


class EngineHarness:
    """Docker and Podman: the same adapter on another socket."""

    traits = frozenset(Trait)
    image = busybox.IMAGE

    def __init__(self, engine: EngineApi) -> None:
        self.engine = engine
        self.runtime: Runtime

    def command(self, *steps: Step) -> tuple[str, ...]:
        return as_shell(steps)

    def open(self, *, installation: str = INSTALLATION, node: str = NODE) -> AbstractAsyncContextManager[Runtime]:
        return DockerRuntime.open(self.engine.host, installation=installation, node=node, clock=RealClock())


@pytest.mark.anyio
class TestFake(RuntimeContract):
    @pytest.fixture
    async def harness(self) -> Harness:
        return FakeHarness()


class _OnEngine(RuntimeContract):
    @asynccontextmanager
    async def _harness(self, engine: EngineApi) -> AsyncIterator[Harness]:
        harness = EngineHarness(engine)
        async with harness.open() as runtime:
            harness.runtime = runtime
            try:
                yield harness
            finally:
                await runtime.remove_all()


@pytest.mark.anyio
@pytest.mark.docker
class TestDocker(_OnEngine):
    @pytest.fixture
    async def harness(self, docker_engine: EngineApi) -> AsyncIterator[Harness]:
        async with self._harness(docker_engine) as harness:
            yield harness


@pytest.mark.anyio
@pytest.mark.podman
class TestPodman(_OnEngine):
    @pytest.fixture
    async def harness(self, podman_service: EngineApi) -> AsyncIterator[Harness]:
        async with self._harness(podman_service) as harness:
            yield harness
