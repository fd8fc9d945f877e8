"""The application, with a few doors in front of the framework: a submit spends most of its time in layers it does not need.

A hot door has the same envelope, the same wire models and the same errors as every other; it only skips FastAPI's own stack.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.api.answers import RawResponse
from windlass.api.outgoing import WHOLE_ANSWER
from windlass.api.problems import answer_error
from windlass.api.routes import NamedRoute
from windlass.core.errors import WindlassError

Door = Callable[[Request], Awaitable[Response]]


class HotApp(FastAPI):
    """`open_door` puts a POST route before everything else; the framework knows it too, for the documents and for 405."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.context: Any = None
        """What routes work with; see `context`."""
        self._doors: dict[str, NamedRoute] = {}
        self._front: ASGIApp = self._enter

    def open_door(self, path: str, door: Door) -> None:
        route = NamedRoute(path, door, methods=["POST"])
        self._doors[path] = route
        self.router.routes.insert(0, route)

    def wrap_doors(self, envelope: Callable[[ASGIApp], ASGIApp]) -> None:
        self._front = envelope(self._enter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in self._doors:
            scope["app"] = self
            await self._front(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = route = self._doors[scope["path"]]
        request = _HotRequest(scope, receive, send)
        try:
            response = await route.endpoint(request)
        except WindlassError as error:
            response = await answer_error(request, error)
        if isinstance(response, RawResponse) and WHOLE_ANSWER in scope.get("extensions", ()):
            await send(response.whole())
        else:
            await response(scope, receive, send)


class _HotRequest(Request):
    """A request whose headers are gone through once, however many are asked for."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self._headers = _IndexedHeaders(raw=scope["headers"])


class _IndexedHeaders(Headers):
    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self._list = raw
        self._only = dict(raw)
        self._is_each_once = len(self._only) == len(raw)

    def getlist(self, key: str) -> list[str]:
        if not self._is_each_once:
            return super().getlist(key)
        value = self._only.get(key.lower().encode("latin-1"))
        return [] if value is None else [value.decode("latin-1")]

    def __getitem__(self, key: str) -> str:
        if not self._is_each_once:
            return super().__getitem__(key)
        return self._only[key.lower().encode("latin-1")].decode("latin-1")
