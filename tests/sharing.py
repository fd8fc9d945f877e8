"""Who runs what, where several workers share the suite: a file is one worker's, and so is a folder with a cluster of its own.

Two clusters on one machine cost more than they save, and each ends with the last test on it. What takes long comes first, so
that no worker is left alone with it at the end; xdist itself would begin with the files of the most tests.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

TOGETHER = ("tests/kube/", "tests/images/", "tests/process/")
"""The last because its runs have the same few names: what a run left is found by its name, on the whole machine, and ended."""
FIRST = (
    "tests/kube/",
    "tests/chaos/",
    "tests/hostile/test_openapi.py",
    "tests/docs/",
    "tests/docker/",
    "tests/e2e/",
    "tests/inference/",
    "tests/images/",
    "tests/process/",
    "tests/contracts/",
    "tests/cli/",
)
"""By how long a file of theirs takes; all others are short."""


class LongFirst(LoadFileScheduling):
    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), super()._split_scope(nodeid))


def long_first(item: pytest.Item) -> int:
    """To sort by; what is equal stays in its order."""
    return next((rank for rank, start in enumerate(FIRST) if item.nodeid.startswith(start)), len(FIRST))
