"""Fixtures over the real parts (`tests/parts`), and what a missing part means: a failure where it could be installed."""

import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests import sharing
from tests.parts import ports, present
from tests.parts.dockerd import DockerEngine
from tests.parts.failures import MissingPart
from tests.parts.podman import PodmanService
from tests.parts.registry import Registry
from tests.parts.sshd import SshNode

# An example that took long, or was long in the making, says how busy the machine is and nothing about the code.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

# A picture of every frame with its variables takes a third of a second, and a disk that is full for long is logged often.
structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback


def pytest_configure() -> None:
    """A run put into the background by a shell begins with SIGINT and SIGQUIT ignored, and so would all it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> sharing.LongFirst | None:
    return sharing.LongFirst(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=sharing.long_first)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """What failed, by name, as the last lines: where only an end of the output is kept, a long difference hides them."""
    yield
    reports = [*terminalreporter.stats.get("failed", ()), *terminalreporter.stats.get("error", ())]
    for name in sorted({report.nodeid for report in reports}):
        terminalreporter.write_line(f"not passed: {name}")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Call it for a loopback port that nobody has."""
    return ports.free_port


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[DockerEngine]:
    """One Docker Engine for the whole session, with the busybox image in it. Who breaks engines starts an own one."""
    with DockerEngine() as engine:
        engine.import_busybox()
        yield engine


@pytest.fixture(scope="session")
def podman_service() -> Iterator[PodmanService]:
    """One Podman service for the whole session, with the busybox image in it."""
    with PodmanService() as service:
        service.import_busybox()
        yield service


@pytest.fixture
def registry() -> Iterator[Registry]:
    """An empty registry on loopback."""
    with Registry() as server:
        yield server


@pytest.fixture
def sshd_nodes() -> Iterator[Callable[..., list[SshNode]]]:
    """`sshd_nodes(3)` gives three nodes; keyword arguments go to each `SshNode`."""
    with ExitStack() as open_nodes:

        def start(count: int = 1, **options: object) -> list[SshNode]:
            return [open_nodes.enter_context(SshNode(**options)) for _ in range(count)]  # type: ignore[arg-type]

        yield start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _left_out_when_missing())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _left_out_when_missing())


def _left_out_when_missing() -> Generator[None, object, object]:
    try:
        return (yield)
    except MissingPart as missing:
        if present.must_be_complete():
            raise
        pytest.skip(str(missing))
