"""Day-wise logs: rotation at day change, retention of its own files only, a cap that says so."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from windlass.images.errors import ImageSyncError
from windlass.images.logs import DayLogs

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)


class Clock:
    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def __call__(self) -> datetime:
        return self.moment


def logs_in(directory: Path, clock: Clock, **options: object) -> tuple[DayLogs, list[str]]:
    overflow: list[str] = []
    logs = DayLogs(directory, now=clock, overflow=overflow.append, **options)  # type: ignore[arg-type]
    logs.start()
    return logs, overflow


def test_the_days_three_files_are_there_from_the_start(tmp_path: Path) -> None:
    logs_in(tmp_path / "deep" / "logs", Clock(MIDNIGHT))
    assert sorted(path.name for path in (tmp_path / "deep" / "logs").iterdir()) == [
        "failed_images-2026-03-02.log",
        "image-sync-2026-03-02.log",
        "success_images-2026-03-02.log",
    ]


def test_a_run_over_midnight_fills_two_days(tmp_path: Path) -> None:
    clock = Clock(MIDNIGHT - timedelta(seconds=1))
    logs, _ = logs_in(tmp_path, clock)
    logs.info("SYNC STARTED")
    logs.succeeded("n1", "app:1")
    clock.moment = MIDNIGHT
    logs.failed("n2", "app:1", "TIMEOUT")
    logs.info("SYNC COMPLETE")
    assert (tmp_path / "image-sync-2026-03-01.log").read_text() == "[2026-03-01 23:59:59] [INFO] SYNC STARTED\n"
    assert (tmp_path / "success_images-2026-03-01.log").read_text() == "[2026-03-01 23:59:59] n1 app:1 - SUCCESS\n"
    assert (tmp_path / "failed_images-2026-03-02.log").read_text() == "[2026-03-02 00:00:00] n2 app:1 - TIMEOUT\n"
    assert (tmp_path / "image-sync-2026-03-02.log").read_text() == "[2026-03-02 00:00:00] [INFO] SYNC COMPLETE\n"


def test_only_its_own_dated_files_past_the_retention_go(tmp_path: Path) -> None:
    old = ["image-sync-2026-01-30.log", "success_images-2025-01-01.log", "failed_images-2026-01-30.log"]
    stay = [
        "image-sync-2026-01-31.log",
        "image-sync-2026-03-02.log",
        "image-sync-2020-01-01.log.gz",
        "image-sync-2020-13-45.log",
        "my-image-sync-2020-01-01.log",
        "other-2020-01-01.log",
        "notes.txt",
    ]
    for name in (*old, *stay):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "image-sync-2019-01-01.log").mkdir()
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (tmp_path / "failed_images-2019-01-01.log").symlink_to(outside)
    logs_in(tmp_path, Clock(MIDNIGHT), retention_days=30)
    left = {path.name for path in tmp_path.iterdir()}
    assert not left & set(old)
    assert set(stay) | {"image-sync-2019-01-01.log", "failed_images-2019-01-01.log"} <= left
    assert outside.read_text() == "precious"


def test_at_the_cap_a_line_says_so_and_nothing_is_lost(tmp_path: Path) -> None:
    logs, overflow = logs_in(tmp_path, Clock(MIDNIGHT), max_bytes=4096)
    for number in range(100):
        logs.info(f"line {number} " + "x" * 80)
    logs.info("SYNC COMPLETE", always=True)
    written = (tmp_path / "image-sync-2026-03-02.log").read_text()
    inside = [number for number in range(100) if f"line {number} " in written]
    outside = [number for number in range(100) if any(f"line {number} " in line for line in overflow)]
    assert inside + outside == list(range(100))
    assert logs.withheld == len(outside) > 0
    assert written.count("MAX_LOG_SIZE (4.0 KiB) reached") == 1
    assert written.endswith("SYNC COMPLETE\n")


def test_a_later_run_of_the_day_counts_what_is_already_there(tmp_path: Path) -> None:
    (tmp_path / "failed_images-2026-03-02.log").write_text("x" * 4090 + "\n")
    logs, overflow = logs_in(tmp_path, Clock(MIDNIGHT), max_bytes=4096)
    logs.failed("n1", "app:1", "FAILED (EXIT 1)")
    assert overflow == ["[2026-03-02 00:00:00] n1 app:1 - FAILED (EXIT 1)\n"]


def test_what_a_node_prints_cannot_forge_a_line(tmp_path: Path) -> None:
    logs, _ = logs_in(tmp_path, Clock(MIDNIGHT))
    logs.warning("n1: oops\n[2026-03-02 00:00:00] n2 app:1 - SUCCESS\x1b[31m\r\x00")
    (line,) = (tmp_path / "image-sync-2026-03-02.log").read_text().splitlines()
    assert line == "[2026-03-02 00:00:00] [WARNING] n1: oops [2026-03-02 00:00:00] n2 app:1 - SUCCESS [31m"


def test_below_its_level_a_line_is_left_out(tmp_path: Path) -> None:
    logs, _ = logs_in(tmp_path, Clock(MIDNIGHT), level="WARNING")
    logs.info("quiet")
    logs.debug("quieter")
    logs.error("loud")
    assert (tmp_path / "image-sync-2026-03-02.log").read_text() == "[2026-03-02 00:00:00] [ERROR] loud\n"


def _a_file(path: Path) -> Path:
    path.write_text("")
    return path


def _a_linked_log(path: Path) -> Path:
    path.mkdir()
    (path / "image-sync-2026-03-02.log").symlink_to(path / "elsewhere")
    return path


@pytest.mark.parametrize("make", [_a_file, _a_linked_log])
def test_a_directory_that_cannot_hold_logs_stops_the_run(make: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(ImageSyncError) as refused:
        logs_in(make(tmp_path / "logs"), Clock(MIDNIGHT))
    assert refused.value.code == "logs.unusable"
    assert not (tmp_path / "logs" / "elsewhere").exists()
