"""The few calls to a container engine's HTTP API that building an image needs: one request, one whole answer.

Not through the product's own Docker adapter: what this suite shows should not depend on the code it may later accuse.
"""

import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlencode


class Engine(Protocol):
    """Whatever knows the socket of a running engine."""

    @property
    def socket(self) -> Path: ...


class EngineRefused(Exception):
    """The engine answered with an error, in its own words."""


def call(
    engine: Engine,
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    *,
    body: bytes | IO[bytes] | None = None,
    content_type: str = "application/x-tar",
    timeout_seconds: float = 240,
) -> bytes:
    """The answer's bytes; an answer of 400 and up is raised."""
    connection = _UnixConnection(engine.socket, timeout_seconds)
    try:
        target = f"{path}?{urlencode(query)}" if query else path
        connection.request(
            method, target, body=body, headers={"Content-Type": content_type} if body is not None else {}
        )
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status >= 400:
        raise EngineRefused(f"{method} {target}: {answer.status} {content.decode(errors='replace')}")
    return content


def call_json(
    engine: Engine, method: str, path: str, payload: Any = None, query: Mapping[str, str] | None = None
) -> Any:
    """The same for the routes that speak JSON both ways."""
    body = None if payload is None else json.dumps(payload).encode()
    content = call(engine, method, path, query, body=body, content_type="application/json")
    return json.loads(content) if content else None


def follow(content: bytes) -> str:
    """What a stream of progress messages said. The engine answers 200 first, so an error is found only in here."""
    messages = [json.loads(line) for line in content.splitlines() if line.strip()]
    for message in messages:
        if "error" in message:
            raise EngineRefused("".join(m.get("stream", "") for m in messages)[-2000:] + message["error"])
    return "".join(message.get("stream", "") for message in messages)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_seconds: float) -> None:
        super().__init__("engine", timeout=timeout_seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
