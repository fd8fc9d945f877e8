"""How workers share the suite: one cluster, and nothing long at the end."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.sharing import LongFirst, long_first

KUBE = ("tests/kube/test_life.py::test_a", "tests/kube/test_time.py::test_b[x::y]")
OTHERS = ("tests/core/test_world.py::test_c", "tests/core/test_world.py::test_d", "tests/e2e/test_ends.py::test_e")


PROCESSES = ("tests/process/test_stopping.py::test_f", "tests/process/test_survival.py::test_g")


def test_what_is_on_kubernetes_is_one_workers_and_every_other_file_is_one_workers() -> None:
    scope = LongFirst.__new__(LongFirst)._split_scope
    assert len({scope(name) for name in KUBE}) == 1
    assert len({scope(name) for name in PROCESSES}) == 1
    assert [scope(name) for name in OTHERS] == [name.split("::")[0] for name in OTHERS]


def test_what_takes_long_is_begun_first_and_all_else_keeps_its_order() -> None:
    items = [SimpleNamespace(nodeid=name) for name in (*OTHERS, *KUBE)]
    ordered = sorted(items, key=lambda item: long_first(cast(pytest.Item, item)))
    assert [item.nodeid for item in ordered] == [*KUBE, OTHERS[2], *OTHERS[:2]]


def test_the_order_of_the_files_is_the_order_of_their_beginning() -> None:
    """xdist would begin with the files that have the most tests: the longest ones have one."""
    option = SimpleNamespace(loadscopereorder=True, tx=[], dist="loadfile")
    config: Any = SimpleNamespace(option=option, getvalue=lambda name: ["popen"] if name == "tx" else None)
    LongFirst(config, None)
    assert not option.loadscopereorder
