"""A tiny synchronous client of the Docker Engine API on a unix socket: the tests' second pair of eyes.

It shares no code with the product, so that a fault in the product's adapter cannot hide itself here.
"""

import base64
import contextlib
import http.client
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.parts import busybox

API_VERSION = "v1.40"  # Docker Engine 20.10 and Podman 4.3 both speak it


class EngineRefused(Exception):
    """The engine answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True)
class Ended:
    """A container that ran to its end."""

    id: str
    exit_code: int
    output: str


class EngineApi:
    """What tests ask an engine; mixed into `DockerEngine` and `PodmanService`."""

    socket: Path

    @property
    def host(self) -> str:
        """The value for DOCKER_HOST."""
        return f"unix://{self.socket}"

    def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        headers: dict[str, str] | None = None,
        timeout: float = 300,
        version: str = API_VERSION,
    ) -> bytes:
        """One request; bytes go as a tar archive, anything else as JSON. EngineRefused for an answer from 400 on."""
        target = f"/{version}{path}" + (f"?{urlencode(_query(query))}" if query else "")
        headers = dict(headers or {})
        if isinstance(body, bytes):
            # Without this header the archive call answers 200 and writes nothing.
            headers["Content-Type"] = "application/x-tar"
        elif body is not None:
            body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection = _UnixConnection(self.socket, timeout)
        try:
            connection.request(method, target, body=body, headers=headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise EngineRefused(response.status, _message(content))
        return content

    def ask(self, path: str, **query: Any) -> Any:
        """GET, decoded."""
        return json.loads(self.call("GET", path, query=query))

    def stream(self, path: str, **query: Any) -> "Stream":
        """GET whose answer does not end by itself, such as `/events`."""
        connection = _UnixConnection(self.socket, timeout=300)
        connection.request("GET", f"/{API_VERSION}{path}?{urlencode(_query(query))}")
        wire = connection.sock  # held here: the connection lets go of it when the answer closes it
        response = connection.getresponse()
        if response.status >= 400:
            raise EngineRefused(response.status, _message(response.read()))
        wire.settimeout(None)  # it may say nothing for hours
        return Stream(wire, response)

    def answers(self, timeout: float = 30) -> bool:
        """Whether the engine speaks at all."""
        try:
            return self.call("GET", "/_ping", timeout=timeout).strip() == b"OK"
        except (OSError, http.client.HTTPException, EngineRefused):
            return False

    # images

    def import_busybox(self, tag: str = busybox.IMAGE, *, files: dict[str, bytes] | None = None) -> str:
        """Put the test image in; gives its id. Extra files make a different image under the tag."""
        self.call("POST", "/images/load", query={"quiet": "1"}, body=busybox.image_archive(tag, files=files))
        return str(self.ask(f"/images/{quote(tag, safe='')}/json")["Id"])

    def images(self) -> dict[str, str]:
        """Tag → image id."""
        rows = self.ask("/images/json")
        return {tag: row["Id"] for row in rows for tag in row["RepoTags"] or [] if tag != "<none>:<none>"}

    def tag(self, image: str, new: str) -> None:
        repository, _, name = new.rpartition(":")
        self.call("POST", f"/images/{quote(image, safe='')}/tag", query={"repo": repository, "tag": name})

    def push(self, image: str, *, user: str = "", password: str = "") -> None:
        repository, _, name = image.rpartition(":")
        login = {"username": user, "password": password} if user else {}
        # The header must be there, even to say nothing.
        auth = {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(login).encode()).decode()}
        path = f"/images/{quote(repository, safe='')}/push"
        _check_stream(self.call("POST", path, query={"tag": name}, headers=auth))

    def pull(self, image: str) -> None:
        repository, _, name = image.rpartition(":")
        _check_stream(self.call("POST", "/images/create", query={"fromImage": repository, "tag": name}))

    def remove_image(self, image: str) -> None:
        self.call("DELETE", f"/images/{quote(image, safe='')}", query={"force": "1"})

    # containers

    def containers(self, all: bool = True, **filters: list[str]) -> list[dict[str, Any]]:  # noqa: A002 - the API's word
        """Rows as the engine gives them; `label=["a=b"]` and the like narrow them down."""
        rows: list[dict[str, Any]] = self.ask("/containers/json", all=all, filters=filters)
        return rows

    def create(self, *command: str, image: str = busybox.IMAGE, name: str | None = None, **options: Any) -> str:
        """A container that is not yet started; options are the API's own (`HostConfig=…`, `Labels=…`)."""
        body = {"Image": image, "Cmd": list(command), **options}
        answer = self.call("POST", "/containers/create", query={"name": name} if name else None, body=body)
        return str(json.loads(answer)["Id"])

    def start_container(self, container: str) -> None:
        self.call("POST", f"/containers/{container}/start")

    def run(self, *command: str, timeout: float = 60, **options: Any) -> Ended:
        """Start, wait for the end, read what it said, remove."""
        container = self.create(*command, **options)
        try:
            self.start_container(container)
            return Ended(container, self.wait(container, timeout), self.logs(container))
        finally:
            self.remove_container(container)

    def wait(self, container: str, timeout: float = 60) -> int:
        """Until it ends; gives its exit code."""
        return int(json.loads(self.call("POST", f"/containers/{container}/wait", timeout=timeout))["StatusCode"])

    def inspect(self, container: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.ask(f"/containers/{container}/json")
        return answer

    def logs(self, container: str) -> str:
        """Both streams, without the frames."""
        raw = self.call("GET", f"/containers/{container}/logs", query={"stdout": "1", "stderr": "1"})
        return _unframed(raw).decode(errors="replace")

    def remove_container(self, container: str) -> None:
        self.call("DELETE", f"/containers/{container}", query={"force": "1", "v": "1"})

    # what happened

    def events(self, since: float, until: float | None = None, **filters: list[str]) -> list[dict[str, Any]]:
        """What the engine remembers of the time between two wall-clock times, oldest first; `until` is now unless told.

        Docker remembers its last 256, whatever they are: who counts follows `stream("/events")` instead.
        """
        # Nanoseconds in the text: whole seconds would lose what just happened.
        query = {"since": f"{since:.9f}", "until": f"{until or time.time():.9f}", "filters": filters}
        return [json.loads(line) for line in self.call("GET", "/events", query=query).splitlines() if line.strip()]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("engine", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Stream:
    """The lines of an answer as they come; `end` from another thread ends them."""

    def __init__(self, wire: socket.socket, response: http.client.HTTPResponse) -> None:
        self._wire = wire
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        while line := self._response.readline():
            yield line

    def end(self) -> None:
        with contextlib.suppress(OSError):  # it ended before us
            self._wire.shutdown(socket.SHUT_RDWR)


def _query(query: dict[str, Any]) -> dict[str, str]:
    return {
        key: json.dumps(value) if isinstance(value, dict | list | bool) else str(value) for key, value in query.items()
    }


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace").strip()


def _check_stream(progress: bytes) -> None:
    """Push and pull answer 200 first and tell of a failure in the stream."""
    for line in progress.splitlines():
        if line.strip() and "error" in (told := json.loads(line)):
            raise EngineRefused(200, told["error"])


def _unframed(raw: bytes) -> bytes:
    """Log streams come in frames: one byte of kind, three of nothing, four of length."""
    out = bytearray()
    while len(raw) >= 8:
        size = int.from_bytes(raw[4:8], "big")
        out += raw[8 : 8 + size]
        raw = raw[8 + size :]
    return bytes(out)
