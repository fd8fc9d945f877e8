"""A web server on two loopback addresses: one that a test allows, and one that nobody must ever reach."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.parts.ports import free_port

ALLOWED = "127.0.0.2"
FORBIDDEN = "127.0.0.1"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Canary:
    port: int = 0
    hits: list[str] = field(default_factory=list)
    """Requests that arrived at the forbidden address."""
    asked: list[web.Request] = field(default_factory=list)
    """Requests that arrived at the allowed one."""


@asynccontextmanager
async def canary(answer: Handler) -> AsyncIterator[Canary]:
    bird = Canary()

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        if request.transport.get_extra_info("sockname")[0] != ALLOWED:
            bird.hits.append(request.path)
            return web.Response(text="you should not be here")
        bird.asked.append(request)
        return await answer(request)

    app = web.Application(client_max_size=1 << 20)
    app.router.add_route("*", "/{rest:.*}", handle)
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        bird.port = (
            free_port()
        )  # not one of the kernel's choice: on the other address it may be an outgoing connection's
        for address in (ALLOWED, FORBIDDEN):
            await web.TCPSite(runner, address, bird.port).start()
        yield bird
    finally:
        await runner.cleanup()
