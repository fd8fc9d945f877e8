"""The runtime contract on plain processes."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.contracts.runtime_suite import Harness, RuntimeContract, Step, Trait, as_shell
from tests.process.nodes import Node
from windlass.adapters.runtime.process.runtime import ProcessRuntime
from windlass.core.model.ids import NodeId
from windlass.ports.runtime import Runtime

INSTALLATION, NODE = "contract", "node"


class ProcessHarness:
    traits = frozenset(Trait)
    image = ""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runtime: Runtime

    def command(self, *steps: Step) -> tuple[str, ...]:
        return as_shell(steps)

    def open(self, *, installation: str = INSTALLATION, node: str = NODE) -> AbstractAsyncContextManager[Runtime]:
        return ProcessRuntime.open(self.directory, installation, NodeId(node))


@pytest.mark.anyio
class TestProcess(RuntimeContract):
    @pytest.fixture
    async def harness(self, node: Node) -> AsyncIterator[Harness]:
        harness = ProcessHarness(node.directory)
        async with harness.open() as runtime:
            harness.runtime = runtime
            yield harness
            await runtime.remove_all()
