"""Around every request: its id, the host it came for, its measure, the headers every answer has, and the last resort."""

import time
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Final

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.api.context import REVISION_HEADER, STALE_HEADER
from windlass.api.outgoing import WHOLE_ANSWER
from windlass.api.problems import Misdirected, error_response, internal_response
from windlass.api.seats import Crowd
from windlass.control.acting import acting
from windlass.core.errors import Unavailable, WindlassError
from windlass.observe.metrics import ApiMetrics

REQUEST_ID_HEADER: Final = "x-request-id"
LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

RawHeaders = list[tuple[bytes, bytes]]
"""Names in lower case, as ASGI has them."""
_REQUEST_ID: Final = REQUEST_ID_HEADER.encode()
_REVISION: Final = REVISION_HEADER.encode()
_STALE: Final = STALE_HEADER.encode()
_HEADS: Final = ("http.response.start", WHOLE_ANSWER)
_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
_NO_STORE: Final = (b"cache-control", b"no-store")

_log = structlog.get_logger()


class Envelope:
    """ASGI middleware, outermost. `hosts` empty takes any Host; otherwise a name not in it is refused (DNS rebinding: a page
    whose name an attacker points at 127.0.0.1 would be same-origin with us)."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: ApiMetrics,
        make_id: Callable[[], str],
        revision: Callable[[], int],
        crowd: Crowd,
        hosts: Collection[str] = (),
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._make_id = make_id
        self._revision = revision
        self._crowd = crowd
        self._hosts = frozenset(host.lower() for host in hosts)
        self._is_name_ours = lru_cache(maxsize=256)(self._is_ours)  # a client says the same with every request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        before = acting.set(None)
        try:
            if scope["type"] == "http":
                await self._serve(scope, receive, send)
            else:
                await self._pass(scope, receive, send)
        finally:
            acting.reset(before)  # whoever called us in its own task, as tests do, is not the one who asked

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and not self._is_host_ours(scope):
            await send({"type": "websocket.close", "code": 1008, "reason": "not a name of this server"})
        else:
            if scope["type"] == "websocket":
                scope.setdefault("state", {})["request_id"] = self._make_id()
            await self._app(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        request_id = self._make_id()
        scope.setdefault("state", {})["request_id"] = request_id
        answer = _Answer(send, self._stamp, scope)
        has_entered = self._crowd.enter()
        try:
            refusal = self._refusal(scope, has_entered)
            if refusal is None:
                await self._app(scope, receive, answer.send)
            else:
                await error_response(refusal, request_id)(scope, receive, answer.send)
        except ClientDisconnect:
            _log.info("client went away", request_id=request_id, path=scope["path"])
        except Exception:
            _log.exception("request failed", request_id=request_id, method=scope["method"], path=scope["path"])
            if answer.status:
                raise  # the answer has begun: only breaking the connection tells the client
            await internal_response(request_id)(scope, receive, answer.send)
        finally:
            if has_entered:
                self._crowd.leave()
            self._metrics.request(_route(scope), scope["method"], answer.status, time.perf_counter() - began)

    def _refusal(self, scope: Scope, has_entered: bool) -> WindlassError | None:
        if not has_entered:
            return Unavailable("too many requests at once", code="overloaded", retry_after_seconds=1)
        if not self._is_host_ours(scope):
            return Misdirected("the Host header is not a name of this server")
        return None

    def _stamp(self, headers: RawHeaders, scope: Scope) -> None:
        """What a route has set stays. Raw pairs, because this is done for every answer."""
        given, state = dict(headers), scope["state"]
        headers.append((_REQUEST_ID, state["request_id"].encode()))
        if _NOSNIFF[0] not in given:
            headers.append(_NOSNIFF)
        if _NO_STORE[0] not in given:
            headers.append(_NO_STORE)
        if _REVISION not in given:
            headers.append((_REVISION, b"%d" % self._revision()))
        if "is_stale" in state:
            headers.append((_STALE, b"true"))

    def _is_host_ours(self, scope: Scope) -> bool:
        if not self._hosts:
            return True
        names = [value for name, value in scope["headers"] if name == b"host"]
        return len(names) == 1 and self._is_name_ours(names[0])

    def _is_ours(self, name: bytes) -> bool:
        return _without_port(name.decode("latin-1")).lower() in self._hosts


class _Answer:
    """Counts whether and how an answer has begun, and stamps its head."""

    __slots__ = ("_scope", "_send", "_stamp", "status")

    def __init__(self, send: Send, stamp: Callable[[RawHeaders, Scope], None], scope: Scope) -> None:
        self._send = send
        self._stamp = stamp
        self._scope = scope
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] in _HEADS:
            self.status = message["status"]
            headers = message["headers"] = list(message.get("headers", ()))
            self._stamp(headers, self._scope)
        await self._send(message)


def _without_port(host: str) -> str:
    """`[::1]:8080` and `localhost:8080` without the port; the brackets stay."""
    if host.startswith("["):
        inside, bracket, _ = host.partition("]")
        return inside + bracket
    return host.partition(":")[0]


def _route(scope: Scope) -> str:
    """The route's template, so that a million job names make no million time series."""
    route = scope.get("route")
    return getattr(route, "path", "") or "(none)"
