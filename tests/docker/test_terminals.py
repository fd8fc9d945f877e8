"""How a command inside a container ended, from an engine that is slow to note it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from windlass.adapters.runtime.docker.engine import Engine
from windlass.adapters.runtime.docker.terminals import executed

pytestmark = pytest.mark.anyio


class SlowToNote:
    """Its streams have ended; the record says so only when it is asked for the third time."""

    def __init__(self) -> None:
        self._looks = [{"Running": True}, {"Running": True}, {"Running": False, "ExitCode": 5}]

    async def call(self, method: str, path: str, **_: Any) -> dict[str, Any]:
        return {"Id": "e1"} if method == "POST" else self._looks.pop(0)

    @asynccontextmanager
    async def hijack(self, path: str, **_: Any) -> AsyncIterator[object]:
        yield object()


async def test_a_command_that_ended_has_its_exit_code_also_when_the_engine_notes_it_late() -> None:
    engine = cast(Engine, SlowToNote())
    async with executed(engine, "c1", ("sh", "-c", "exit 5"), wants_terminal=False) as terminal:
        assert await terminal.exit_code() == 5
