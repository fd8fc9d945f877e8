"""The application behind the real server on a free loopback port: for what only a real connection shows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import anyio

from tests.api.home import ApiHome, api_home
from windlass.api.server import serve


@dataclass(frozen=True, kw_only=True)
class LiveHome:
    api: ApiHome
    port: int
    session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def live_home(**options: Any) -> AsyncIterator[LiveHome]:
    async with api_home(**options) as api, anyio.create_task_group() as tasks:

        async def listen(*, task_status: anyio.abc.TaskStatus[int]) -> None:
            await serve(api.app, host="127.0.0.1", port=0, task_status=task_status)

        port: int = await tasks.start(listen)
        timeout = aiohttp.ClientTimeout(total=300)
        async with aiohttp.ClientSession(headers=api.bearer(), timeout=timeout) as session:
            yield LiveHome(api=api, port=port, session=session)
        tasks.cancel_scope.cancel()
