import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.nodes import Node, is_alive, until


@pytest.fixture
def node() -> Iterator[Node]:
    """An own node directory; whatever still runs in it at the end is ended."""
    with tempfile.TemporaryDirectory(prefix="windlass-") as directory:
        node = Node(Path(directory) / "node")
        yield node
        _end(node)


def _end(node: Node) -> None:
    assert node.stop() == 0
    try:
        pid = node.executor()
    except (LookupError, FileNotFoundError):
        return
    os.kill(pid, signal.SIGKILL)
    assert until(10, lambda: not is_alive(pid))
