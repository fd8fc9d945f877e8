"""A large process is gathered into large pages, where the kernel can: a small one is left alone."""

import subprocess
import sys
from pathlib import Path

import pytest

LARGE = """
from pathlib import Path
from windlass.boot import pages

def in_large_pages():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("AnonHugePages:"))

kept = [str(number) for number in range({objects})]
print(pages.gather(), in_large_pages())
"""


def gathered(objects: int) -> tuple[int, int]:
    run = subprocess.run(
        [sys.executable, "-c", LARGE.format(objects=objects)], check=True, capture_output=True, text=True
    )
    resident, in_large_pages = run.stdout.split()
    return int(resident), int(in_large_pages)


def test_a_small_process_is_left_alone() -> None:
    assert gathered(1000)[0] == 0


def test_most_of_a_large_process_lies_in_large_pages() -> None:
    if not _can_collapse():
        pytest.skip("this kernel gathers no large pages (before Linux 6.1, or set to never)")
    resident, in_large_pages = gathered(5_000_000)
    assert in_large_pages > resident // 2


def _can_collapse() -> bool:
    release = Path("/proc/sys/kernel/osrelease").read_text().split(".")
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return (int(release[0]), int(release[1])) >= (6, 1) and setting.exists() and "[never]" not in setting.read_text()
