"""What the inference tests share: the program's packages, and a furnished place to run it."""

from pathlib import Path

import pytest
from tests.inference.image import python_packages
from tests.inference.workbench import Workbench


@pytest.fixture(scope="session")
def packages() -> Path:
    return python_packages()


@pytest.fixture
def bench(tmp_path: Path, packages: Path) -> Workbench:
    return Workbench(volume=tmp_path, packages=packages).furnish()
