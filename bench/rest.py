"""A turn begins when what came before has come to rest: what one side still writes down or clears away is nobody's handicap."""

import os
import time
from typing import Any

import psutil
from tests.parts.waiting import wait_for

LOOK_SECONDS = 0.25
AT_REST = 0.04
"""Of a core, taken by processes that have nothing to do."""
MACHINE_AT_REST = 0.25
"""Of a core: a cluster with nothing to do takes about half of it."""
PATIENCE_SECONDS = 120


def rest(*pids: int) -> None:
    """Until none of these and of their children does anything any more, and what they left to the disk is written."""
    os.sync()
    wait_for(lambda: used_share(pids) < AT_REST, PATIENCE_SECONDS, "all sides to come to rest")


def machine_rests() -> None:
    """Until nothing on it does anything to speak of: for what is made of a dozen servers that are never quite idle."""
    os.sync()
    wait_for(lambda: machine_share() < MACHINE_AT_REST, PATIENCE_SECONDS, "the machine to come to rest")


def machine_share() -> float:
    """Of one core, over a second."""
    before = psutil.cpu_times()
    time.sleep(1)
    after = psutil.cpu_times()
    return busy_seconds(after) - busy_seconds(before)


def busy_seconds(times: Any) -> float:
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


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
