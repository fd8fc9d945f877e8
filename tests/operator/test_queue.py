"""The work queue: each key once, never two workers on one, the sooner of two wishes."""

import anyio
import pytest

from windlass.operator.queue import WorkQueue

pytestmark = pytest.mark.anyio


async def test_a_key_asked_for_many_times_is_looked_at_once() -> None:
    queue, looked, done = WorkQueue[str](), list[str](), anyio.Event()

    async def look(key: str) -> None:
        looked.append(key)
        if key == "last":
            done.set()

    for _ in range(5):
        queue.add("a")
    queue.add("last")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(queue.work, look)
        with anyio.fail_after(120):
            await done.wait()
        tasks.cancel_scope.cancel()
    assert looked == ["a", "last"]


async def test_two_workers_never_hold_one_key_and_what_came_meanwhile_is_not_lost() -> None:
    queue, busy, count, done = WorkQueue[str](), set[str](), 0, anyio.Event()

    async def look(key: str) -> None:
        nonlocal count
        assert key not in busy
        busy.add(key)
        count += 1
        if count < 5:
            queue.add(key)
        await anyio.sleep(0)
        busy.discard(key)
        if count == 5:
            done.set()

    queue.add("a")
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(queue.work, look)
        with anyio.fail_after(120):
            await done.wait()
        tasks.cancel_scope.cancel()
    assert count == 5
    assert len(queue) == 0


async def test_the_sooner_of_two_wishes_counts() -> None:
    queue, done = WorkQueue[str](), anyio.Event()

    async def look(key: str) -> None:
        done.set()

    queue.add("a", delay=3600)
    queue.add("a", delay=0.01)
    queue.add("a", delay=3600)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(queue.work, look)
        with anyio.fail_after(120):
            await done.wait()
        tasks.cancel_scope.cancel()
    assert len(queue) == 0
