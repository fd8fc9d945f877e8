import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.nodes import DEADLINE_SECONDS, Node, is_alive, until


@pytest.fixture
def node() -> Iterator[Node]:
    """An own node directory; whatever still runs in it at the end is ended."""
    with tempfile.TemporaryDirectory(prefix="windlass-") as directory:
        node = Node(Path(directory) / "node")
        yield node
        _end(node)


def _end(node: Node) -> None:
    assert node.stop() == 0
    assert until(DEADLINE_SECONDS, lambda: not _has_executor(node))


def _has_executor(node: Node) -> bool:
    try:
        return is_alive(node.executor())
    except (LookupError, FileNotFoundError):
        return False
