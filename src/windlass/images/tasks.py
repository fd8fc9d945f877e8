"""Task groups whose first error comes out as itself: the callers here catch `NodeError`, not groups of one."""

import contextlib
from collections.abc import AsyncIterator

import anyio
from anyio.abc import TaskGroup


@contextlib.asynccontextmanager
async def task_group() -> AsyncIterator[TaskGroup]:
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
