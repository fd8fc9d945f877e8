"""The cluster that the tests of this folder share, and a run of image-sync in this process."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.images.lab import Lab, a_lab
from windlass.images.config import Config
from windlass.images.logs import DayLogs
from windlass.images.progress import Quiet
from windlass.images.report import Report
from windlass.images.sync import Choices, synchronise


@pytest.fixture(scope="package")
def lab() -> Iterator[Lab]:
    with a_lab() as cluster:
        yield cluster


@pytest.fixture
def run_sync() -> Callable[..., "object"]:
    """`await run_sync(config)`: the whole run without the process around it; no pause between tries."""

    async def run(config: Config, **choices: object) -> Report:
        logs = logs_for(config)
        try:
            return await synchronise(
                config,
                logs,
                Quiet(),
                choices=Choices(**choices),
                pause=lambda _: 0.0,  # type: ignore[arg-type]
            )
        finally:
            logs.close()

    return run


def logs_for(config: Config) -> DayLogs:
    logs = DayLogs(config.log_dir, now=lambda: datetime(2026, 3, 2, 12, tzinfo=UTC), overflow=lambda _: None)
    logs.start()
    return logs


def log_text(directory: Path, kind: str) -> str:
    return (directory / f"{kind}-2026-03-02.log").read_text()
