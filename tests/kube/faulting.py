"""A way to the API server on which it answers as one that has a bad day: now and then with 409, 410, 429 or 500.

Some of the writes it refuses with 500 were done all the same, and some watches break off in the middle, with and without a word.
"""

import json
import random
import ssl
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web

DONE: Final = "done"
"""A write that is answered with 500 after it was done."""
ERROR_410, ERROR_500, CUT = "error 410", "error 500", "cut"
"""What may become of a watch that has begun."""
FAULTS: Final[dict[str, Sequence[str]]] = {
    "write": ("409", "429", "500", DONE),
    "list": ("410", "429", "500"),
    "watch": ("410", "429", "500", ERROR_410, ERROR_500, CUT),
    "get": ("429", "500"),
}
REASONS: Final = {"409": "Conflict", "410": "Expired", "429": "TooManyRequests", "500": "InternalError"}
HOP: Final = frozenset({"connection", "transfer-encoding", "content-length", "content-encoding", "host", "keep-alive"})


class FaultingProxy:
    """Open with `with`. `share` of all requests go wrong; which of them, the seed says, and how, each way in turn."""

    def __init__(self, server: str, authority: Path, *, seed: int, share: float) -> None:
        self._server = server
        self._context = ssl.create_default_context(cafile=str(authority))
        self._chance = random.Random(seed)
        self._share = share
        self._ways: dict[str, Iterator[str]] = {kind: cycle(ways) for kind, ways in FAULTS.items()}
        self.given: Counter[tuple[str, str]] = Counter()
        """How often what went wrong how."""
        self.url = ""
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: anyio.run(self._serve), daemon=True)

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._thread.start()
        assert self._up.wait(60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(60)

    @property
    def untried(self) -> set[tuple[str, str]]:
        return {(kind, way) for kind, ways in FAULTS.items() for way in ways} - set(self.given)

    async def _serve(self) -> None:
        timeout = ClientTimeout(total=None, sock_connect=30)
        async with ClientSession(connector=TCPConnector(ssl=self._context, limit=0), timeout=timeout) as http:
            self._http = http
            app = web.Application(client_max_size=64 << 20)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._up.set()
            await anyio.to_thread.run_sync(self._stop.wait)
            # Watches would be waited for, and whoever watches is no longer asked.
            with anyio.move_on_after(1):
                await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        kind = _kind_of(request)
        # Watches are few and last: the first of them go wrong, until each way was taken once.
        is_due = self._chance.random() < self._share or (kind == "watch" and ("watch", CUT) not in self.given)
        way = next(self._ways[kind]) if kind and is_due else ""
        if way:
            self.given[kind, way] += 1
        if way in REASONS:
            return _refusal(way)
        try:
            return await self._pass_on(request, way)
        except ClientError:
            return _refusal("500")  # the API server itself, or whoever asked, is gone

    async def _pass_on(self, request: web.Request, way: str) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        body = await request.read()
        async with self._http.request(
            request.method, self._server + request.raw_path, headers=headers, data=body or None
        ) as answer:
            if way == DONE:
                await answer.read()
                return _refusal("500")
            passed = web.StreamResponse(status=answer.status)
            passed.headers.update({name: text for name, text in answer.headers.items() if name.lower() not in HOP})
            await passed.prepare(request)
            async for piece in answer.content.iter_any():
                await passed.write(piece)
                if way == CUT:
                    break
                if way in (ERROR_410, ERROR_500) and piece.endswith(b"\n"):
                    code = way.rpartition(" ")[2]
                    await passed.write(json.dumps({"type": "ERROR", "object": _status(code)}).encode() + b"\n")
                    break
            await passed.write_eof()
            return passed


def _kind_of(request: web.Request) -> str:
    """Nothing for what is neither of objects nor of a kind: versions, and what kinds there are."""
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if not rest:
        return ""
    if request.method != "GET":
        return "write"
    if request.query.get("watch") == "true":
        return "watch"
    below = rest[2:] if rest[0] == "namespaces" and len(rest) > 2 else rest
    return "list" if len(below) == 1 else "get"


def _refusal(code: str) -> web.Response:
    headers = {"Retry-After": "1"} if code == "429" else {}
    return web.json_response(_status(code), status=int(code), headers=headers)


def _status(code: str) -> dict[str, object]:
    message = f"a bad day: {REASONS[code]}"
    return {"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": message} | {
        "reason": REASONS[code],
        "code": int(code),
    }
