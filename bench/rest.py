"""A turn begins when what came before has come to rest: what one side still writes down or clears away is nobody's handicap."""

import os
import time

import psutil
from tests.parts.waiting import wait_for

LOOK_SECONDS = 0.25
AT_REST = 0.04
"""Of a core, taken by processes that have nothing to do."""
PATIENCE_SECONDS = 120


def rest(*pids: int) -> None:
    """Until none of these and of their children does anything any more, and what they left to the disk is written."""
    os.sync()
    wait_for(lambda: used_share(pids) < AT_REST, PATIENCE_SECONDS, "all sides to come to rest")


def used_share(pids: tuple[int, ...]) -> float:
    """Of one core, over a moment."""
    processes = [process for pid in pids for process in family(pid)]
    before = {process: used_seconds(process) for process in processes}
    time.sleep(LOOK_SECONDS)
    return sum(used_seconds(process) - before[process] for process in processes if process.is_running()) / LOOK_SECONDS


def family(pid: int) -> list[psutil.Process]:
    first = psutil.Process(pid)
    return [first, *first.children(recursive=True)]


def used_seconds(process: psutil.Process) -> float:
    """Of the processor; of one that has just ended, none."""
    try:
        used = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(used.user + used.system)
