"""A stop is polite for as long as it was told to be, and then ends everything the run ever started."""

import os
import signal
import sys

import anyio
import pytest

from tests.process.nodes import Node, an_assignment, eventually, finish, is_alive, launch
from windlass.core.model.ids import Millis, RunId
from windlass.ports.runtime import Phase

pytestmark = pytest.mark.anyio

DAEMON = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(2):
    if os.fork():
        break
    os.setsid()
else:
    os.environ.clear()
    os.execve(sys.executable, [sys.executable, "-c", "import signal, os, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "open('daemon', 'w').write(str(os.getpid())); time.sleep(600)"], {})
open('main', 'a').write('x')
time.sleep(600 if len(sys.argv) > 1 else 0.1)
"""


async def _daemon(node: Node) -> int:
    await eventually(lambda: (node.volume / "daemon").exists() and bool((node.volume / "daemon").read_text()))
    return int((node.volume / "daemon").read_text())


async def test_a_stubborn_tree_with_a_daemon_that_slipped_away_is_ended(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", sys.executable, "-c", DAEMON, "stay")
        daemon = await _daemon(node)
        assert daemon not in node.marked("r-1")  # neither session, group nor environment gives it away
        await runtime.stop(RunId("r-1"), grace_ms=Millis(50))
        assert (await runtime.observe(RunId("r-1"))).exit_code == 137
        assert not is_alive(daemon)
        assert node.marked("r-1") == []


async def test_what_a_run_leaves_running_ends_with_it(node: Node) -> None:
    async with node.runtime() as runtime:
        (node.volume / "daemon.py").write_text(DAEMON)
        script = '"$0" daemon.py stay & until [ -s daemon ]; do sleep 0.02; done'
        await launch(runtime, "r-1", "sh", "-c", script, sys.executable)
        seen = await finish(runtime, "r-1")
        assert seen.exit_code == 0
        assert not is_alive(await _daemon(node))


async def test_no_grace_means_at_once_and_a_shorter_one_counts(node: Node) -> None:
    async with node.runtime() as runtime:
        stubborn = "trap '' TERM; touch $0; while :; do sleep 0.02; done"
        for number, graces in enumerate([(0,), (600_000, 20), (600_000, 0)]):
            run = await launch(runtime, f"r-{number}", "sh", "-c", stubborn, f"ready-{number}")
            await eventually((node.volume / f"ready-{number}").exists)
            async with anyio.create_task_group() as tasks:
                for grace in graces:
                    tasks.start_soon(lambda run=run, grace=grace: runtime.stop(run, grace_ms=Millis(grace)))
            seen = await runtime.observe(run)
            assert (seen.phase, seen.exit_code) == (Phase.EXITED, 137)


async def test_the_whole_group_is_asked(node: Node) -> None:
    script = "trap 'wait; exit 4' TERM; sh -c 'trap \"echo child; exit\" TERM; touch ready; while :; do sleep 0.02; done' & wait"
    async with node.runtime() as runtime:
        run = await launch(runtime, "r-1", "sh", "-c", script)
        await eventually((node.volume / "ready").exists)
        await runtime.stop(run, grace_ms=Millis(60_000))
        assert (await runtime.observe(run)).exit_code == 4
        assert (node.directory / "runs/r-1/stdout").read_bytes() == b"child\n"


async def test_a_stop_right_after_the_start_is_not_lost(node: Node) -> None:
    async with node.runtime() as runtime:
        for number in range(10):
            run = RunId(f"r-{number}")
            await runtime.create(an_assignment(run, "sleep", "600"))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(runtime.start, run)
                tasks.start_soon(lambda run=run: runtime.stop(run, grace_ms=Millis(0)))
            await runtime.stop(run, grace_ms=Millis(0))
            assert (await runtime.observe(run)).phase is Phase.EXITED


async def test_a_kept_shim_does_not_carry_one_runs_end_over_to_the_next(node: Node) -> None:
    """The grace of the first runs out while the second is running under the same shim."""
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", "trap 'exit 0' TERM; touch ready; while :; do sleep 0.02; done")
        await eventually((node.volume / "ready").exists)
        shim = node.shim_of("r-1")
        await runtime.stop(RunId("r-1"), grace_ms=Millis(300))
        await launch(runtime, "r-2", "sleep", "0.6")
        assert node.shim_of("r-2") == shim
        seen = await finish(runtime, "r-2")
        assert seen.exit_code == 0


async def test_a_shim_told_to_end_by_hand_ends_its_run_politely(node: Node) -> None:
    async with node.runtime() as runtime:
        await launch(runtime, "r-1", "sh", "-c", "trap 'exit 6' TERM; touch ready; while :; do sleep 0.02; done")
        await eventually((node.volume / "ready").exists)
        os.kill(node.shim_of("r-1"), signal.SIGTERM)
        assert (await finish(runtime, "r-1")).exit_code == 6
