"""The virtual loop itself: time that jumps, processes that die without a word, runs that repeat to the byte."""

import os
import subprocess
import sys

import anyio
import anyio.to_thread
import pytest

from tests.simulation.verdict import judge
from windlass.core.model.ids import Millis
from windlass.testing.virtual import Deadlock, Livelock, NotVirtual, Process, VirtualClock, VirtualLoop, run_virtual


def test_a_day_passes_in_no_time() -> None:
    async def main(loop: VirtualLoop) -> int:
        clock = VirtualClock(loop)
        began = clock.now()
        await clock.sleep_until(Millis(began + 86_400_000))
        return clock.now() - began

    assert run_virtual(main) == 86_400_000


def test_a_killed_process_runs_no_finally_and_never_again() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.sleep, 100)
                while True:
                    await anyio.sleep(1)
                    seen.append("worked")
        finally:
            seen.append("tidied up")

    async def main(loop: VirtualLoop) -> list[str]:
        process = Process(loop, "victim", on_failure=lambda error: seen.append(repr(error)))
        process.spawn(work)
        await anyio.sleep(2.5)
        process.kill()
        await anyio.sleep(1000)
        return list(seen)

    assert run_virtual(main) == ["worked", "worked"]


def test_a_failure_in_a_process_is_told() -> None:
    seen: list[BaseException] = []

    async def fail() -> None:
        raise ValueError("oops")

    async def main(loop: VirtualLoop) -> None:
        Process(loop, "unlucky", on_failure=seen.append).spawn(fail)
        await anyio.sleep(1)

    run_virtual(main)
    assert [str(error) for error in seen] == ["oops"]


def test_waiting_for_ever_is_a_deadlock() -> None:
    with pytest.raises(Deadlock):
        run_virtual(lambda loop: anyio.Event().wait())


def test_polling_without_a_pause_is_a_livelock() -> None:
    async def poll(loop: VirtualLoop) -> None:
        while True:
            await anyio.lowlevel.checkpoint()

    with pytest.raises(Livelock):
        run_virtual(poll)


def test_a_thread_is_refused() -> None:
    async def main(loop: VirtualLoop) -> None:
        await anyio.to_thread.run_sync(len, ())

    with pytest.raises(NotVirtual):
        run_virtual(main)


def test_a_run_is_a_function_of_its_seed_to_the_byte() -> None:
    """Also in another process, where strings hash otherwise and objects lie elsewhere."""
    script = "import sys; from tests.simulation.verdict import judge; sys.stdout.buffer.write(judge(3).history)"
    elsewhere = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": "77"}, capture_output=True, check=True
    )
    assert elsewhere.stdout == judge(3).history
