"""A stub server per test, a client of it, and the command line pointed at it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.stub import Stub, serving

from windlass.cli.app import build
from windlass.client.client import Client
from windlass.client.connection import Connection

Invoke = Callable[..., Result]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serving() as running:
        yield running


@pytest.fixture
def client(stub: Stub) -> Iterator[Client]:
    made = Client(Connection(url=stub.url, token="t0ken"))
    yield made
    made.close()


@pytest.fixture
def windlass(stub: Stub, tmp_path: Path) -> Invoke:
    def invoke(*args: str, stdin: str | None = None, **env: str) -> Result:
        environ = {
            "WINDLASS_URL": stub.url,
            "WINDLASS_TOKEN": "t0ken",
            "WINDLASS_DATA_DIR": str(tmp_path / "none"),
            **env,
        }
        return CliRunner().invoke(build({}), list(args), input=stdin, env=environ)

    return invoke
