"""Servers that the documents are tried on, as a reader would have them."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.server import WindlassServer
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine

ALIASES = ("busybox:latest", "alpine:latest")
"""What the documents call an image that everybody has. Nothing can be pulled where the tests run."""
LOOPBACK = "127.0.0.0/8"
FETCHES = {"WINDLASS_FETCH_NETWORKS": LOOPBACK}
"""The webhooks of the examples listen here."""


@pytest.fixture(scope="session")
def engine(docker_engine: DockerEngine) -> Iterator[DockerEngine]:
    for alias in ALIASES:
        docker_engine.tag(IMAGE, alias)
    yield docker_engine
    for alias in ALIASES:
        docker_engine.remove_image(alias)


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Iterator[Callable[[str], WindlassServer]]:
    """`serve("docker")` or `serve("process")`: one of each, started when first asked for."""
    servers: dict[str, WindlassServer] = {}
    with ExitStack() as stack:

        def start(runtime: str) -> WindlassServer:
            if runtime not in servers:
                host = request.getfixturevalue("engine").host if runtime == "docker" else None
                servers[runtime] = stack.enter_context(WindlassServer(docker_host=host, environ=FETCHES))
            return servers[runtime]

        yield start


@pytest.fixture(scope="module")
def process_server() -> Iterator[WindlassServer]:
    with WindlassServer(environ=FETCHES) as server:
        yield server


@pytest.fixture(scope="module")
def docker_server(engine: DockerEngine) -> Iterator[WindlassServer]:
    with WindlassServer(docker_host=engine.host, environ=FETCHES) as server:
        yield server


def variables(server: WindlassServer, engine: DockerEngine | None = None) -> dict[str, str]:
    """Of somebody who has `windlass` on the PATH and, with `engine`, a container engine that programs find."""
    found = {"DOCKER_HOST": engine.host} if engine is not None else {}
    return {**server.variables(), **found, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
